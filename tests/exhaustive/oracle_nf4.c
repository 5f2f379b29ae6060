/* oracle_nf4.c - NF4 and its nested scales: codecs/block/nf4.h, restated. */
#include "exhaustive/oracle_book.h"
#include "exhaustive/oracle_rules.h"

#include <stddef.h>

void oracle_nf4(const kerf_format *f, int variant, const oracle_group *g, oracle_answer *out)
{
    (void)variant;
    const double least = f32(1e-38);
    double absmax = oracle_amax(g);
    if (!g->whole) absmax = at_least(least, absmax);
    out->scale = f->scale == KERF_SCALE_MAP8 ? absmax : oracle_store(f->scale, absmax);
    double inverse = f32(1 / at_least(least, out->scale));
    for (unsigned i = 0; i < g->n; i++) {
        double x = (double)g->x[i], c = f32(g->whole ? x * inverse : x / out->scale);
        out->code[i] = oracle_nearest(KERF_ELEM_NF4, clamp(c, -1, 1));
    }
}

/* Exact sum of doubles, rounded once: Shewchuk's partial sums, as Python's fsum. */
static double exact_sum(const double *x, size_t n)
{
    double part[320]; /* without overlap between 2^-149 and 2^170 */
    size_t used = 0;
    for (size_t k = 0; k < n; k++) {
        double a = x[k];
        size_t kept = 0;
        for (size_t i = 0; i < used; i++) {
            double b = part[i], high, low;
            if (fabs(a) < fabs(b)) {
                double t = a;
                a = b;
                b = t;
            }
            high = a + b;
            low = b - (high - a);
            if (low != 0) part[kept++] = low;
            a = high;
        }
        part[kept++] = a;
        used = kept;
    }
    double high = 0, low = 0;
    while (used > 0 && low == 0) {
        double a = high, b = part[--used];
        high = a + b;
        low = b - (high - a);
    }
    if (used > 0 && ((low < 0 && part[used - 1] < 0) || (low > 0 && part[used - 1] > 0))) {
        double b = low * 2, sum = high + b; /* a tie that the rest decides */
        if (b == sum - high) high = sum;
    }
    return high;
}

double oracle_mean(const double *absmax, size_t n)
{
    return n ? f32(exact_sum(absmax, n) / (double)n) : 0;
}

double oracle_nest(const double *absmax, size_t n, double offset, uint32_t *codes)
{
    double second = 0;
    for (size_t i = 0; i < n; i++) second = at_least(second, fabs(f32(absmax[i] - offset)));
    double divisor = at_least(f32(1e-38), second), inverse = f32(1 / divisor);
    for (size_t i = 0; i < n; i++) {
        double a = f32(absmax[i] - offset);
        double c = f32(n == 256 ? a * inverse : a / divisor);
        codes[i] = oracle_nearest_map(clamp(c, -1, 1));
    }
    return second;
}
