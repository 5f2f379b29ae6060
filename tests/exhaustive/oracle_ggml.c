/* oracle_ggml.c - GGUF's blocks with an fp16 scale: codecs/block/ggml.h, restated. Its blocks of
 * E2M1 are in oracle_mx.c. */
#include "exhaustive/oracle_book.h"
#include "exhaustive/oracle_rules.h"

static double reciprocal(double d)
{
    return d == 0 ? 0 : f32(1 / d);
}

/* roundf(x / d): half away from zero. Inf * 0 is 0. */
void oracle_ggml_q8(const kerf_format *f, int variant, const oracle_group *g, oracle_answer *out)
{
    (void)f, (void)variant;
    const double d = f32(oracle_amax(g) / 127), r = reciprocal(d);
    out->scale = oracle_in(KERF_F16, d);
    for (unsigned i = 0; i < g->n; i++) {
        double y = (double)g->x[i] == 0 ? 0 : f32((double)g->x[i] * r);
        out->code[i] = (uint32_t)(int)clamp(round(y), -127, 127) & 0xff;
    }
}

/* The first number of the largest magnitude becomes -8. */
void oracle_ggml_q4(const kerf_format *f, int variant, const oracle_group *g, oracle_answer *out)
{
    (void)f, (void)variant;
    double peak = 0;
    for (unsigned i = g->n; i-- > 0;)
        if (fabs((double)g->x[i]) >= fabs(peak)) peak = (double)g->x[i];
    const double d = peak == 0 ? -0.0 : f32(peak / -8), r = reciprocal(d);
    out->scale = oracle_in(KERF_F16, d);
    for (unsigned i = 0; i < g->n; i++) {
        double y = (double)g->x[i] == 0 ? 0 : f32((double)g->x[i] * r);
        out->code[i] = (uint32_t)clamp(f32(y + 8.5), 0, 15);
    }
}
