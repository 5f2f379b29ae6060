/* oracle_float.c - casts and FP8: codecs/block/cast.h and fp8.h, restated. */
#include "exhaustive/oracle_book.h"
#include "exhaustive/oracle_rules.h"

#include <string.h>

void oracle_cast(const kerf_format *f, int variant, const oracle_group *g, oracle_answer *out)
{
    (void)variant;
    for (unsigned i = 0; i < g->n; i++) {
        if (f->element == KERF_ELEM_F32)
            memcpy(&out->code[i], &g->x[i], sizeof g->x[i]);
        else
            out->code[i] =
                oracle_bits(f->element == KERF_ELEM_F16 ? KERF_F16 : KERF_BF16, (double)g->x[i]);
    }
}

/* Who keeps the scale in the type of the source, who the quotient, and what stands for a scale of
 * zero: kerf and torchao 1, compressed-tensors the type's epsilon. */
void oracle_fp8(const kerf_format *f, int variant, const oracle_group *g, oracle_answer *out)
{
    const double amax = oracle_amax(g), largest = f->element == KERF_ELEM_E4M3 ? 448 : 57344;
    switch (variant) {
    case FP8_CT:
        out->scale = oracle_in(g->source, amax / largest);
        if (out->scale == 0) out->scale = oracle_eps(g->source);
        break;
    case FP8_TORCHAO:
        out->scale = oracle_in(g->source, amax / largest);
        if (out->scale == 0) out->scale = 1;
        break;
    case FP8_DEEPSEEK: out->scale = f32(at_least(f32(1e-4), amax) / largest); break;
    default: out->scale = amax == 0 ? 1 : oracle_quotient(amax, largest); break;
    }
    const int in_source = variant == FP8_CT || variant == FP8_MODELOPT;
    for (unsigned i = 0; i < g->n; i++) {
        double y = (double)g->x[i] / out->scale;
        out->code[i] = oracle_nearest(f->element, in_source ? oracle_in(g->source, y) : f32(y));
    }
}
