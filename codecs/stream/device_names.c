/* device_names.c - the GPUs that a person names: "cuda:0,2". */
#include <kerf/cuda.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

static kerf_status list_all(kerf_device_list *l, kerf_error *err)
{
    int n = 0;
    KF_TRY(kerf_device_count(&n, err));
    if (n == 0) return kf_fail(err, KERF_E_CUDA, KF_NOWHERE, "this machine has no GPU");
    for (; l->count < (size_t)n && l->count < KERF_DEVICES_MOST; l->count++)
        l->ordinal[l->count] = (int)l->count;
    return KERF_OK;
}

/* Numbers with commas between them; 0: it is no such list. */
static int list_numbers(const char *text, kerf_device_list *l)
{
    for (;; text++) {
        int used = 0;
        if (*text < '0' || *text > '9' || l->count == KERF_DEVICES_MOST ||
            sscanf(text, "%3d%n", &l->ordinal[l->count], &used) != 1)
            return 0;
        l->count++;
        text += used;
        if (*text != ',') return *text == 0;
    }
}

kerf_status kerf_devices_find(const char *text, kerf_device_list *out, kerf_error *err)
{
    *out = (kerf_device_list){0};
    if (strcmp(text, "cpu") == 0) return KERF_OK;
    if (strcmp(text, "cuda:all") == 0) return list_all(out, err);
    if (strcmp(text, "cuda") == 0) text = "cuda:0";
    if (strncmp(text, "cuda:", 5) == 0 && list_numbers(text + 5, out)) return KERF_OK;
    return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "expected cpu, cuda, cuda:N, cuda:N,M or cuda:all");
}
