/* all_reduce.c - how long several GPUs take to sum what each has a part of. */
#include <kerf/predict.h>

#include <math.h>
#include <string.h>

/* Until the first byte is there, and the share of the links' published rate: best of what libraries
 * do for messages of a decoding step (one kernel that reads its peers), and of a ring of many
 * launches. Published by others, not measured here. */
static const double first_us[2] = {4, 30}, link_share[2] = {0.9, 0.4};

void kerf_predict_all_reduce(const kerf_hardware *h, unsigned gpus, double bytes,
                             kerf_prediction *out)
{
    const double moved = gpus > 1 ? 2.0 * (gpus - 1) / gpus * bytes : 0;
    const double link = h->fact[KERF_FACT_LINK].value;
    *out = (kerf_prediction){.bound = KERF_BOUND_FIXED};
    if (gpus <= 1) return;
    for (size_t i = 0; i < h->fits; i++) {
        const kerf_fit *f = &h->fit[i];
        if (strcmp(f->format, KERF_FIT_ALL_REDUCE) != 0) continue;
        out->tier = KERF_TIER_FITTED;
        out->fixed_us = f->fixed_us;
        out->memory_us = f->bandwidth_gbps > 0 ? moved / f->bandwidth_gbps * 1e-3 : 0;
        out->us = out->fixed_us + out->memory_us;
        out->low_us = out->us / (1 + f->error_p90);
        out->high_us = out->us * (1 + f->error_p90);
        return;
    }
    /* Links that nobody published are taken for PCIe 4.0, 16 lanes. */
    const double rate = link > 0 ? link : 32;
    out->fixed_us = first_us[0];
    out->memory_us = moved / (link_share[0] * rate) * 1e-3;
    out->low_us = out->fixed_us + out->memory_us;
    out->high_us = first_us[1] + moved / (link_share[1] * rate) * 1e-3;
    out->us = sqrt(out->low_us * out->high_us);
    if (out->memory_us > out->fixed_us) out->bound = KERF_BOUND_MEMORY;
}
