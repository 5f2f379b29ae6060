/* advice_memory.c - whether what was chosen fits in the memory of the machine. */
#include <stdlib.h>

#include "base/base.h"
#include "report/report.h"

/* Of the cache, on one GPU, of all sequences. */
static double cache_bytes(const kerf_advice *a)
{
    kerf_model *of_one = NULL; /* GPU; a model is large */
    double bytes = 0;
    if (!a->has_model || kf_allocate(&of_one, 1, sizeof *of_one, NULL) != KERF_OK) return 0;
    if (kerf_model_shard(&a->model, a->gpus, a->expert_parallel, of_one, NULL) != KERF_OK ||
        kerf_model_cache_bytes(of_one, NULL, a->context, &bytes, NULL) != KERF_OK)
        bytes = 0;
    free(of_one);
    return a->batch * bytes;
}

int kf_advice_fits(const kerf_advice *a, double *bytes)
{
    const double memory = a->hardware ? a->hardware->fact[KERF_FACT_MEMORY].value * 1e9 : 0;
    const double gpus = a->gpus > 1 ? a->gpus : 1;
    *bytes = (kerf_advice_total(a).bytes + a->kept_bytes) / gpus + cache_bytes(a);
    return memory > 0 ? *bytes <= memory : -1;
}
