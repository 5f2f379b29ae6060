/* scales.c - E8M0 in every rounding: each positive fp32 number as the amax of a block of MX, in
 * every format and under every encoder whose scale depends on amax alone. The stored byte never
 * falls as amax grows, so oracle.h is asked where each byte begins, by bisection, and the floats
 * between two such places must all store the same byte. A block of zeros is asked for by itself:
 * microxcaling gives it a larger byte than the least number. */
#include "exhaustive/run_options.h"
#include "exhaustive/oracle.h"
#include "exhaustive/oracle_stored.h"
#include "rounds.h"

#include <math.h>

enum { INFINITY_BITS = 0x7f800000, SLICES = 256, BATCH = 512, EDGE = 64 };

typedef struct stairs {
    uint32_t start[257]; /* bits of the least float that stores this byte or a larger one */
} stairs;

static uint64_t failures;

static uint32_t oracle_byte(const kerf_codec *c, const oracle_rule *rule, uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    oracle_group g = {&x, 1, 1, (double)x, KERF_F32};
    oracle_answer a;
    rule->answer(c->format, rule->variant, &g, &a);
    return (uint32_t)(ilogb(a.scale) + 127);
}

static void find_stairs(const kerf_codec *c, const oracle_rule *rule, stairs *s)
{
    s->start[0] = 1;
    for (uint32_t byte = 1; byte <= 256; byte++) {
        uint32_t low = s->start[byte - 1], high = INFINITY_BITS;
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            if (oracle_byte(c, rule, middle) >= byte)
                high = middle;
            else
                low = middle + 1;
        }
        s->start[byte] = low;
    }
}

static void check_byte(const kerf_codec *codec, uint32_t bits, uint32_t got, uint32_t want)
{
    if (got == want) return;
#pragma omp critical(report)
    if (failures++ < 20)
        printf("%s:%s of %08x: %02x, expected %02x\n", codec->format->name, codec->encoder->name,
               bits, got, want);
}

/* Blocks whose first element is the only one, or the only one that is not zero. */
static uint64_t check_slice(kerf_codec codec, const stairs *s, uint64_t from, uint64_t to,
                            uint32_t step)
{
    const unsigned cols = row_multiple(codec.format);
    uint64_t n = 0;
    uint32_t byte = 0;
    coded c;
    coded_init(&c, codec, (kerf_shape){2, {BATCH, cols}});
    uint32_t *bits = must_alloc((size_t)BATCH * cols * sizeof *bits);
    while (from < to) {
        for (size_t i = 0; i < BATCH; i++, from += step) {
            bits[i * cols] = (uint32_t)(from < to ? from : to - 1);
            n += from < to;
        }
        coded_encode(&c, bits, KERF_F32);
        for (size_t i = 0; i < BATCH; i++) {
            while (s->start[byte + 1] <= bits[i * cols]) byte++;
            check_byte(&codec, bits[i * cols], stored_scale(&c, i, 0), byte);
        }
    }
    free(bits);
    coded_free(&c);
    return n;
}

static void check_zeros(kerf_codec codec, const oracle_rule *rule)
{
    static const float zeros[256];
    coded c;
    coded_init(&c, codec, (kerf_shape){2, {1, row_multiple(codec.format)}});
    coded_encode(&c, zeros, KERF_F32);
    check_byte(&codec, 0, stored_scale(&c, 0, 0), oracle_byte(&codec, rule, 0));
    coded_free(&c);
}

/* One element type in full and under kerf's own rules: the others differ from it by a constant and
 * a mantissa width, and the logarithms of the peers in how close to an edge they round. */
static uint32_t step_of(kerf_codec codec, int full)
{
    static const char *const own[] = {"floor", "rceil", "even", "ceil"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (full && codec.format->element == KERF_ELEM_E2M1 &&
            strcmp(codec.encoder->name, own[i]) == 0)
            return 1;
    return full ? 61 : STEP(16) * 2048;
}

static uint64_t check_codec(kerf_codec codec, const oracle_rule *rule, const test_options *o)
{
    stairs s;
    uint64_t n = 1;
    const uint32_t step = step_of(codec, o->full);
    const uint32_t phase = (uint32_t)(mix_bits(o->seed) % step);
    find_stairs(&codec, rule, &s);
    check_zeros(codec, rule);
    for (unsigned byte = 1; byte < 256; byte++) { /* both sides of every edge */
        uint64_t at = s.start[byte];
        if (at >= INFINITY_BITS) continue;
        uint64_t end = at + EDGE < INFINITY_BITS ? at + EDGE : INFINITY_BITS;
        n += check_slice(codec, &s, at <= EDGE ? 1 : at - EDGE, end, 1);
    }
#pragma omp parallel for schedule(dynamic) reduction(+ : n)
    for (uint32_t slice = 0; slice < SLICES; slice++) {
        uint64_t from = (uint64_t)(INFINITY_BITS - 1) * slice / SLICES + 1;
        uint64_t to = (uint64_t)(INFINITY_BITS - 1) * (slice + 1) / SLICES + 1;
        n += check_slice(codec, &s, from + phase, to, step);
    }
    return n;
}

int main(int argc, char **argv)
{
    test_options o = read_options(argc, argv);
    double start = seconds_now();
    uint64_t total = 0;
    oracle_init();
    for (size_t i = 0; i < kerf_format_count(); i++) {
        const kerf_format *f = kerf_format_at(i);
        for (size_t e = 0; f->scale == KERF_SCALE_E8M0 && e < kerf_encoder_count(f); e++) {
            kerf_codec codec = {f, kerf_encoder_at(f, e)};
            const oracle_rule *rule = oracle_find(codec);
            if (!rule || strcmp(codec.encoder->name, "search") == 0) continue;
            double begin = seconds_now();
            uint64_t n = check_codec(codec, rule, &o);
            if (o.full)
                printf("%s:%s  %llu amax  %.2f s\n", f->name, codec.encoder->name,
                       (unsigned long long)n, seconds_now() - begin);
            total += n;
        }
    }
    printf("%llu amax, %llu differences, %.1f s\n", (unsigned long long)total,
           (unsigned long long)failures, seconds_now() - start);
    return failures ? 1 : 0;
}
