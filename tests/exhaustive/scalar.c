/* scalar.c - every fp32 number through every scalar conversion, against two oracles:
 *
 * 1. Nearest by search. The values of all codes give the midpoints between neighbours; a midpoint
 *    belongs to the even code. Every one is an fp32 number, so the positive floats, in the order
 *    of their bits, fall into one run per code, and a run is checked by comparing bits. This
 *    shares no step with the encoders.
 * 2. The CUDA toolkit's host conversions, where its headers are.
 *
 * Named differences from CUDA: E8M0 is only defined for x >= 0 here (scales are); there CUDA takes
 * the magnitude and turns NaN into 0xFF. A NaN in fp16 and bf16 stays quiet and keeps its sign
 * (and in bf16 its payload); CUDA makes it 0x7FFF. */
#include "cuda_host.h"
#include "run_options.h"

#include "scalar/minifloat.h"

#include <math.h>

enum { MAX_CODES = 1 << 15, BEYOND = 0x7f800001 };

typedef struct conversion {
    const char *name;
    uint32_t (*encode)(float x);
    float (*decode)(uint32_t code);
    int exp_bits, man_bits, bias;
    uint32_t largest; /* code that everything above its run saturates at: maybe Inf  */
    int nan_keeps;    /* NaN keeps sign and payload: only that it is one is compared */
    uint32_t nan;     /* else the code of NaN                                        */
    int up;           /* E8M0: rounds up, no sign                                    */
    uint32_t (*cuda)(float x);
    float (*cuda_value)(uint32_t code);
} conversion;

#ifdef KERF_TEST_CUDA
#define CUDA(name) cuda_##name, cuda_##name##_value
#define CUDA_E8M0 cuda_e8m0_up, cuda_e8m0_value
#else
#define CUDA(name) NULL, NULL
#define CUDA_E8M0 NULL, NULL
#endif

/* The functions under test are inlined everywhere; the table needs addresses. */
#define WRAP(name, encode_it, decode_it)      \
    static uint32_t encode_##name(float x)    \
    {                                         \
        return encode_it(x);                  \
    }                                         \
    static float decode_##name(uint32_t code) \
    {                                         \
        return decode_it;                     \
    }

WRAP(e2m1, kf_e2m1_encode, kf_e2m1_decode(code))
WRAP(e2m3, kf_e2m3_encode, kf_e2m3_decode(code))
WRAP(e3m2, kf_e3m2_encode, kf_e3m2_decode(code))
WRAP(e4m3, kf_e4m3_encode, kf_e4m3_decode(code))
WRAP(e5m2, kf_e5m2_encode, kf_e5m2_decode(code))
WRAP(e8m0, kf_e8m0_encode_up, kf_e8m0_decode(code))
WRAP(fp16, kf_f16_encode, kf_f16_decode((uint16_t)code))
WRAP(bf16, kf_bf16_encode, kf_bf16_decode((uint16_t)code))

static const conversion conversions[] = {
    {"E2M1", encode_e2m1, decode_e2m1, 2, 1, 1, 0x7, 0, 0x7, 0, CUDA(e2m1)},
    {"E2M3", encode_e2m3, decode_e2m3, 2, 3, 1, 0x1f, 0, 0x1f, 0, CUDA(e2m3)},
    {"E3M2", encode_e3m2, decode_e3m2, 3, 2, 3, 0x1f, 0, 0x1f, 0, CUDA(e3m2)},
    {"E4M3", encode_e4m3, decode_e4m3, 4, 3, 7, 0x7e, 0, 0x7f, 0, CUDA(e4m3)},
    {"E5M2", encode_e5m2, decode_e5m2, 5, 2, 15, 0x7b, 0, 0x7f, 0, CUDA(e5m2)},
    {"E8M0", encode_e8m0, decode_e8m0, 8, 0, 127, 0xfe, 0, 0xff, 1, CUDA_E8M0},
    {"fp16", encode_fp16, decode_fp16, 5, 10, 15, 0x7c00, 1, 0, 0, CUDA(fp16)},
    {"bf16", encode_bf16, decode_bf16, 8, 7, 127, 0x7f80, 1, 0, 0, CUDA(bf16)},
};
enum { CONVERSIONS = sizeof conversions / sizeof *conversions };

/* Bits of the float from which on a code is due: start[code + 1] ends its run. */
typedef struct runs {
    uint32_t codes;
    uint32_t start[MAX_CODES + 1];
} runs;

static uint64_t failures;

static void fail(const conversion *c, const char *against, uint32_t bits, uint32_t got,
                 uint32_t want)
{
#pragma omp critical(report)
    if (failures++ < 20)
        printf("%s of %08x (%a): %x, but %s says %x\n", c->name, bits, (double)kf_float(bits), got,
               against, want);
}

/* --- the values of codes, from their definition ----------------------------------------------- */

static double defined_value(const conversion *c, uint32_t code)
{
    uint32_t man = code & ((1u << c->man_bits) - 1), exp = code >> c->man_bits;
    if (c->up) return ldexp(1, (int)code - c->bias);
    if (exp == 0) return ldexp(man, 1 - c->bias - c->man_bits);
    return ldexp((double)((1u << c->man_bits) + man), (int)exp - c->bias - c->man_bits);
}

static int is_special(const conversion *c, uint32_t code, double *value)
{
    uint32_t top = ((1u << c->exp_bits) - 1) << c->man_bits;
    *value = NAN;
    if (c->up) return code == 0xff;
    if (c->bias == 7) return code == 0x7f;
    if (c->bias < 7 || code < top) return 0;
    if (code == top) *value = INFINITY;
    return 1;
}

static void check_code(const conversion *c, uint32_t code, double sign)
{
    uint32_t whole = code | (sign < 0 ? 1u << (c->exp_bits + c->man_bits) : 0);
    double want, got = (double)c->decode(whole);
    if (!is_special(c, code, &want)) want = defined_value(c, code);
    want *= sign;
    int same = isnan(want) ? isnan(got) : got == want && signbit(got) == signbit(want);
    if (!same) fail(c, "its definition", whole, (uint32_t)kf_bits((float)got), 0);
    if (!c->cuda_value) return;
    double cuda = (double)c->cuda_value(whole);
    same = isnan(cuda) ? isnan(got) : got == cuda && signbit(got) == signbit(cuda);
    if (!same) fail(c, "CUDA", whole, kf_bits((float)got), kf_bits((float)cuda));
}

static uint64_t check_decoder(const conversion *c)
{
    uint32_t codes = 1u << (c->exp_bits + c->man_bits);
    for (uint32_t code = 0; code < codes; code++) {
        check_code(c, code, 1);
        if (!c->up) check_code(c, code, -1);
    }
    return c->up ? codes : 2 * (uint64_t)codes;
}

/* --- encoders --------------------------------------------------------------------------------- */

static runs *make_runs(const conversion *c)
{
    runs *r = malloc(sizeof *r);
    if (!r) exit(1);
    r->codes = c->largest + 1;
    r->start[0] = 0;
    for (uint32_t code = 0; code < c->largest; code++) {
        double low = defined_value(c, code), high = defined_value(c, code + 1);
        double edge = c->up ? low : (low + high) / 2;
        int stays = c->up || code % 2 == 0; /* the edge itself belongs to the lower code */
        r->start[code + 1] = kf_bits((float)edge) + (uint32_t)stays;
        if ((double)(float)edge != edge) fail(c, "a midpoint that is no fp32", code, 0, 0);
    }
    r->start[r->codes] = BEYOND;
    return r;
}

static void check_nan(const conversion *c, uint32_t bits)
{
    uint32_t got = c->encode(kf_float(bits));
    if (c->up) return;
    if (!c->nan_keeps) {
        if (got != c->nan) fail(c, "the NaN rule", bits, got, c->nan);
        if (c->cuda && got != c->cuda(kf_float(bits)))
            fail(c, "CUDA", bits, got, c->cuda(kf_float(bits)));
        return;
    }
    uint32_t sign = bits >> 31 << (c->exp_bits + c->man_bits), quiet = 1u << (c->man_bits - 1);
    uint32_t want = c->largest | quiet | sign;
    if ((got & (c->largest | quiet | 0x8000u)) != want) fail(c, "the NaN rule", bits, got, want);
}

static void check_float(const conversion *c, uint32_t bits, uint32_t want)
{
    uint32_t got = c->encode(kf_float(bits));
    if (got != want) fail(c, "nearest by search", bits, got, want);
    if (!c->cuda) return;
    uint32_t cuda = c->cuda(kf_float(bits));
    if (got != cuda) fail(c, "CUDA", bits, got, cuda);
}

/* The code whose run holds these bits. */
static uint32_t find_run(const runs *r, uint32_t bits)
{
    uint32_t low = 0, high = r->codes;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (r->start[middle] <= bits)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Magnitudes from, from + step, ... below to, with both signs. */
static uint64_t check_range(const conversion *c, const runs *r, uint64_t from, uint64_t to,
                            uint32_t step)
{
    uint64_t n = 0;
    uint32_t sign = 1u << (c->exp_bits + c->man_bits);
    uint32_t code = from < BEYOND ? find_run(r, (uint32_t)from) : 0;
    for (uint64_t i = from; i < to; i += step, n += c->up ? 1 : 2) {
        uint32_t bits = (uint32_t)i;
        if (bits >= BEYOND) {
            check_nan(c, bits);
            check_nan(c, bits | 0x80000000u);
            continue;
        }
        while (r->start[code + 1] <= bits) code++;
        check_float(c, bits, code);
        if (!c->up) check_float(c, bits | 0x80000000u, code | sign);
    }
    return n;
}

static uint64_t check_edges(const conversion *c, const runs *r)
{
    uint64_t n = 0;
    for (uint32_t code = 1; code <= r->codes; code++) {
        uint32_t at = r->start[code];
        n += check_range(c, r, at < 3 ? 0 : at - 3, (uint64_t)at + 3, 1);
    }
    static const uint32_t specials[] = {0,          1,          0x7fffff,   0x800000,   0x3f800000,
                                        0x7f7fffff, 0x7f800000, 0x7f800001, 0x7fc00000, 0x7fffffff};
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
        n += check_range(c, r, specials[i], (uint64_t)specials[i] + 1, 1);
    return n;
}

static uint64_t check_encoder(const conversion *c, const test_options *o)
{
    enum { SLICES = 512 };
    const uint64_t width = ((uint64_t)1 << 31) / SLICES;
    const uint32_t step = o->full ? 1 : 256;
    const uint64_t phase = o->full ? 0 : mix_bits(o->seed) % step;
    runs *r = make_runs(c);
    uint64_t n = check_edges(c, r);
#pragma omp parallel for schedule(dynamic) reduction(+ : n)
    for (int slice = 0; slice < SLICES; slice++) {
        uint64_t from = (uint64_t)slice * width;
        n += check_range(c, r, from + phase, from + width, step);
    }
    free(r);
    return n;
}

/* --- products --------------------------------------------------------------------------------- */

/* NVFP4 multiplies an E4M3 scale by an E2M1 element in fp32 before anything is rounded: the
 * product must be exact. So must E8M0 by any element of MX, down to the subnormals of fp32. */
static uint64_t check_products(void)
{
    uint64_t n = 0;
    for (uint32_t s = 0; s < 256; s++)
        for (uint32_t e = 0; e < 16; e++, n++) {
            float product = kf_e4m3_decode(s) * kf_e2m1_decode(e);
            double exact = (double)kf_e4m3_decode(s) * (double)kf_e2m1_decode(e);
            if (!isnan(exact) && (double)product != exact)
                fail(&conversions[3], "exact product with E2M1", s << 4 | e, 0, 0);
        }
    for (size_t i = 0; i < 5; i++) /* E2M1 .. E5M2 */
        for (uint32_t s = 0; s < 255; s++)
            for (uint32_t e = 0; e <= conversions[i].largest; e++, n++) {
                float v = conversions[i].decode(e), product = kf_e8m0_decode(s) * v;
                double exact = (double)kf_e8m0_decode(s) * (double)v;
                int same = exact > (double)KF_F32_MAX ? isinf(product) : (double)product == exact;
                if (!same) fail(&conversions[i], "exact product with E8M0", s << 8 | e, 0, 0);
            }
    return n;
}

int main(int argc, char **argv)
{
    test_options o = read_options(argc, argv);
    double start = seconds_now();
    uint64_t total = 0;
#ifdef KERF_TEST_CUDA
    printf("oracles: nearest by search, CUDA %u host conversions\n", cuda_version());
#else
    printf("oracle: nearest by search (no CUDA toolkit here)\n");
#endif
    for (size_t i = 0; i < CONVERSIONS; i++) {
        double begin = seconds_now();
        uint64_t codes = check_decoder(&conversions[i]), n = check_encoder(&conversions[i], &o);
        printf("%s  %12llu inputs  %6llu codes  %6.2f s\n", conversions[i].name,
               (unsigned long long)n, (unsigned long long)codes, seconds_now() - begin);
        total += n;
    }
    uint64_t products = check_products();
    printf("%llu inputs, %llu products, %llu differences, %.1f s\n", (unsigned long long)total,
           (unsigned long long)products, (unsigned long long)failures, seconds_now() - start);
    return failures ? 1 : 0;
}
