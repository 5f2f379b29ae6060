/* check_backends.c - every backend against the reference, byte for byte: every format, encoder,
 * type of source and target, every size from one element to four blocks and one, tiles and their
 * edges, any alignment, special values, the sums of what is lost; into poisoned memory between
 * guard pages; and on every set of processor features that can be had here.
 *
 *   check_backends [--full] [--seed N] [--format NAME]
 *
 * KERF_HIDE_CPU_FEATURES="avx512bw,avx2" hides features of this processor; the library itself reads
 * no environment. */
#include "cpu/features.h"
#include "cpu/loss_order.h"
#include "format/device.h"
#include "guarded.h"
#include "rounds.h"

#include <kerf/codec.h>

enum { MAX_ELEMENTS = 1 << 16, POISON = 0xa5, ROOM = MAX_ELEMENTS * 8 };

static int full;
static const char *only; /* format; NULL: all */
static uint64_t seed = 1, cases, failures;
static guarded source_memory, ref_memory[KERF_PLANES + 1], test_memory[KERF_PLANES + 1];

static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* --- values ----------------------------------------------------------------------------------- */

typedef enum pattern {
    NORMAL,     /* as weights                                                       */
    BITS,       /* any finite number                                                */
    TIES,       /* few mantissa bits: halfway points, equal magnitudes              */
    ZEROS,      /* +0 and -0, and here and there something else                     */
    SUBNORMALS, /* of the type, of fp16 and of fp32                                 */
    HUGE_ONES,  /* next to the largest                                              */
    SPECIALS,   /* NaN of any payload and Inf among others                          */
    PATTERNS
} pattern;

static uint32_t random_float(pattern p)
{
    uint32_t r = (uint32_t)(next_random() >> 16), sign = r & 0x80000000u;
    float x;
    switch (p) {
    case NORMAL: {
        float sum = (float)(r & 0xff) + (float)(r >> 8 & 0xff) + (float)(r >> 16 & 0xff) - 382.5f;
        x = sum / 4096;
        memcpy(&r, &x, 4);
        return r;
    }
    case TIES: return sign | (118 + r % 16) << 23 | (r >> 8 & 0xf) << 19;
    case ZEROS: return r % 37 ? sign : r;
    case SUBNORMALS: return sign | (r % 3 ? r % 0x800000 : (100 + r % 16) << 23 | (r & 0x7ffffe));
    case HUGE_ONES: return sign | (r % 5 ? 0x7f7fffff - r % 0x10000 : 0x7e000000 + r % 0x1000000);
    case SPECIALS:
        if (r % 11 == 0) return sign | 0x7f800000u | (r % 2 ? 0 : r % 0x800000);
        return sign | (120 + r % 8) << 23 | (r & 0x7fffff);
    default: return r;
    }
}

/* Cut off to the type; what is not finite stays only where it is wanted. */
static void fill_source(uint8_t *p, size_t n, kerf_dtype t, pattern kind)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t u = random_float(kind);
        if (t == KERF_F16) {
            int e = (int)(u >> 23 & 0xff) - 112;
            if (kind == SUBNORMALS) e = (int)(u % 2);
            if (kind == HUGE_ONES) e = 30;
            if (kind == BITS) e = (int)(u >> 3 & 31);
            e = e < 0 ? 0 : e > 31 ? 31 : e;
            u = (u >> 16 & 0x8000) | (uint32_t)e << 10 | (u >> 13 & 0x3ff);
            if (kind != SPECIALS && e == 31) u ^= 0x4000;
        } else {
            if (kind != SPECIALS && (u & 0x7f800000u) == 0x7f800000u) u ^= 0x40000000u;
            if (t == KERF_BF16) u >>= 16;
        }
        memcpy(p + i * (t == KERF_F32 ? 4 : 2), &u, t == KERF_F32 ? 4 : 2);
    }
}

/* --- one comparison ----------------------------------------------------------------------------
 */

typedef struct subject {
    kerf_geometry g;
    const kerf_encoder *encoder;
    const char *backend;
    kerf_dtype dtype;
    kerf_nan nan;
    pattern kind;
    int at_end;
    size_t skew;
} subject;

static void failed(const subject *s, const char *what, uint64_t at)
{
    if (++failures > 20) return;
    fprintf(stderr, "%s: %s:%s, %s, %llu x %llu, pattern %d, nan %d: %s at %llu\n",
            s->backend ? s->backend : "default", s->g.format->name, s->encoder->name,
            kerf_dtype_name(s->dtype), (unsigned long long)s->g.rows, (unsigned long long)s->g.cols,
            (int)s->kind, (int)s->nan, what, (unsigned long long)at);
}

static uint64_t first_difference(const uint8_t *a, const uint8_t *b, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (a[i] != b[i]) return i;
    return n;
}

static void place_planes(const subject *s, const guarded *memory, uint8_t poison,
                         kerf_span out[KERF_PLANES])
{
    for (int p = 0; p < KERF_PLANES; p++) {
        size_t n = (size_t)s->g.plane[p].bytes;
        out[p] = (kerf_span){guarded_place(memory[p], n, s->at_end, s->skew, poison), n};
    }
}

static void check_intact(const subject *s, const guarded *memory, const kerf_span *span, int n,
                         uint8_t poison)
{
    for (int p = 0; p < n; p++)
        if (!guarded_intact(memory[p], span[p].p, span[p].n, poison))
            failed(s, "bytes outside the target", (uint64_t)p);
}

static kerf_cspan constant(kerf_span s)
{
    return (kerf_cspan){s.p, s.n};
}

static int same_stats(const kerf_stats *a, const kerf_stats *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* The reference writes over one poison and the backend over its complement: a byte that neither
 * writes differs. */
static void compare_encode(const subject *s, kerf_cspan src, kerf_span want[KERF_PLANES])
{
    kerf_exec ref = {.threads = 1, .nan = s->nan, .backend = "ref"};
    kerf_exec own = {.threads = 1, .nan = s->nan, .backend = s->backend};
    kerf_error e0 = {0}, e1 = {0};
    kerf_stats st0 = {0}, st1 = {0};
    kerf_span got[KERF_PLANES];
    place_planes(s, ref_memory, POISON, want);
    place_planes(s, test_memory, (uint8_t)~POISON, got);
    cases++;
    kerf_status m0 = kerf_measure(&s->g, 0, s->g.bands, src, s->dtype, &st0, &ref, &e0);
    kerf_status m1 = kerf_measure(&s->g, 0, s->g.bands, src, s->dtype, &st1, &own, &e1);
    if (m0 != m1 || e0.offset != e1.offset) failed(s, "measure: status", e1.offset);
    if (m0 != KERF_OK) {
        st0 = st1 = (kerf_stats){.amax = 1, .min = -1, .max = 1, .blocks = 1};
    } else if (!same_stats(&st0, &st1))
        failed(s, "measure: statistics", 0);
    kerf_status s0 =
        kerf_encode(&s->g, s->encoder, &st0, 0, s->g.bands, src, s->dtype, want, &ref, &e0);
    kerf_status s1 =
        kerf_encode(&s->g, s->encoder, &st0, 0, s->g.bands, src, s->dtype, got, &own, &e1);
    if (s0 != s1 || e0.offset != e1.offset) failed(s, "encode: status", e1.offset);
    check_intact(s, test_memory, got, KERF_PLANES, (uint8_t)~POISON);
    for (int p = 0; s0 == KERF_OK && p < KERF_PLANES; p++) {
        uint64_t at = first_difference(want[p].p, got[p].p, got[p].n);
        if (at < got[p].n) failed(s, p ? "encode: scales" : "encode: codes", at);
    }
}

static void compare_decode(const subject *s, const kerf_span planes[KERF_PLANES], kerf_cspan src)
{
    kerf_exec ref = {.threads = 1, .backend = "ref"}, own = {.threads = 1, .backend = s->backend};
    kerf_cspan in[KERF_PLANES];
    size_t n = (size_t)(s->g.elements * (kerf_dtype_bits(s->dtype) / 8));
    kerf_span want = {guarded_place(ref_memory[KERF_PLANES], n, s->at_end, s->skew, POISON), n};
    kerf_span got = {
        guarded_place(test_memory[KERF_PLANES], n, s->at_end, s->skew, (uint8_t)~POISON), n};
    for (int p = 0; p < KERF_PLANES; p++) in[p] = constant(planes[p]);
    cases++;
    kerf_error err = {0};
    kerf_status s0 = kerf_decode(&s->g, 0, s->g.bands, in, want, s->dtype, &ref, &err);
    kerf_status s1 = kerf_decode(&s->g, 0, s->g.bands, in, got, s->dtype, &own, &err);
    if (s0 != s1) failed(s, "decode: status", 0);
    check_intact(s, &test_memory[KERF_PLANES], &got, 1, (uint8_t)~POISON);
    uint64_t at = first_difference(want.p, got.p, n);
    if (at < n) failed(s, "decode", at);

    uint64_t c0 = 0, c1 = 0;
    s0 = kerf_count_clipped(&s->g, 0, s->g.bands, in, src, s->dtype, &ref, &c0, &err);
    s1 = kerf_count_clipped(&s->g, 0, s->g.bands, in, src, s->dtype, &own, &c1, &err);
    if (s0 != s1 || c0 != c1) failed(s, "count_clipped", c1);
}

/* A device that decodes with the reference: what is summed must not depend on who decodes. */
static kerf_status device_decode(kerf_device *d, const kf_host_range *r, kerf_error *err)
{
    (void)d;
    const kerf_exec ref = {.threads = 1, .backend = "ref"};
    kerf_cspan in[KERF_PLANES];
    kerf_span out = {r->target, (size_t)kerf_band_elements(r->g, r->b0, r->b1).count * 4};
    for (int p = 0; p < KERF_PLANES; p++)
        in[p] = (kerf_cspan){r->plane[p], (size_t)r->g->plane[p].bytes};
    return kerf_decode(r->g, r->b0, r->b1, in, out, r->dtype, &ref, err);
}

static kerf_status device_clips(kerf_device *d, const kf_host_range *r, uint64_t *clipped,
                                kerf_error *err)
{
    (void)d;
    const kerf_exec ref = {.threads = 1, .backend = "ref"};
    kerf_cspan in[KERF_PLANES];
    kerf_extent e = kerf_band_elements(r->g, r->b0, r->b1);
    kerf_cspan src = {r->source, (size_t)e.count * (kerf_dtype_bits(r->dtype) / 8)};
    for (int p = 0; p < KERF_PLANES; p++)
        in[p] = (kerf_cspan){r->plane[p], (size_t)r->g->plane[p].bytes};
    return kerf_count_clipped(r->g, r->b0, r->b1, in, src, r->dtype, &ref, clipped, err);
}

/* Sums of errors: the same bits from every backend, number of threads, and device. */
static void compare_loss(const subject *s, const kerf_span planes[KERF_PLANES], kerf_cspan src)
{
    kerf_device device = {.decode = device_decode, .count_clipped = device_clips};
    const kerf_exec exec[] = {{.threads = 1, .backend = "ref"},
                              {.threads = 1, .backend = s->backend},
                              {.threads = 3, .backend = s->backend},
                              {.threads = 1, .backend = s->backend, .device = &device}};
    static float importance[MAX_ELEMENTS];
    const float *h = s->g.cols % 3 ? NULL : importance;
    kerf_cspan in[KERF_PLANES];
    kerf_loss loss[sizeof exec / sizeof *exec];
    for (size_t i = 0; h && i < s->g.cols && i < MAX_ELEMENTS; i++)
        importance[i] = (float)(next_random() >> 44);
    for (int p = 0; p < KERF_PLANES; p++) in[p] = constant(planes[p]);
    for (size_t i = 0; i < sizeof exec / sizeof *exec; i++) {
        kerf_error err = {0};
        kerf_status status =
            kerf_find_loss(&s->g, 0, s->g.bands, in, src, s->dtype, h, &exec[i], &loss[i], &err);
        cases++;
        if (status != KERF_OK || memcmp(&loss[i], &loss[0], sizeof *loss) != 0)
            failed(s, "loss", (uint64_t)i);
    }
}

/* Encodes some numbers, decodes what came out, and decodes any bytes at all. */
static void compare(subject *s)
{
    size_t n = (size_t)(s->g.elements * (kerf_dtype_bits(s->dtype) / 8));
    uint8_t *p = guarded_place(source_memory, n, s->at_end, s->skew, POISON);
    kerf_span planes[KERF_PLANES];
    fill_source(p, (size_t)s->g.elements, s->dtype, s->kind);
    kerf_cspan src = {p, n};
    compare_encode(s, src, planes);
    if (s->nan != KERF_NAN_ERROR) {
        compare_decode(s, planes, src);
        compare_loss(s, planes, src);
    }
    for (int k = 0; k < KERF_PLANES; k++)
        for (size_t i = 0; i < planes[k].n; i++)
            ((uint8_t *)planes[k].p)[i] = (uint8_t)(next_random() >> 24);
    compare_decode(s, planes, src);
    compare_loss(s, planes, src);
}

/* --- what is compared ---------------------------------------------------------------------------
 */

static void compare_shape(const kerf_codec c, const char *backend, uint64_t rows, uint64_t cols,
                          unsigned turn)
{
    static const kerf_dtype types[] = {KERF_BF16, KERF_F32, KERF_F16};
    kerf_error err;
    kerf_shape shape = {2, {rows, cols}};
    subject s = {.encoder = c.encoder, .backend = backend, .dtype = types[turn % 3]};
    if (kerf_codec_check(c, &shape, s.dtype, &err) != KERF_OK) return;
    if (kerf_geometry_init(&s.g, c.format, &shape, &err) != KERF_OK) return;
    s.kind = (pattern)(turn / 3 % PATTERNS);
    s.nan = s.kind == SPECIALS ? (kerf_nan)(turn / 21 % 3)
            : turn % 2         ? KERF_NAN_ERROR
                               : KERF_NAN_ZERO;
    s.at_end = turn % 4 != 1;
    s.skew = turn % 4 == 1 ? turn / 4 % 7 : 0;
    compare(&s);
}

/* Searches take some hundred candidates per block: fewer sizes of those. */
static int is_search(const kerf_encoder *e)
{
    return strstr(e->name, "search") || strcmp(e->name, "sweep") == 0;
}

static void compare_codec(const kerf_codec c, const char *backend, int all_sizes)
{
    uint64_t block = c.format->group ? c.format->group : 16;
    unsigned turn = (unsigned)next_random() % 64;
    const unsigned fewer = all_sizes ? 1 : STEP(3); /* shapes of other encoders */
    uint64_t step = all_sizes              ? STEP(5)
                    : is_search(c.encoder) ? block / 2 + 3
                                           : fewer * (1 + block / 7);
    for (uint64_t cols = 1; cols <= 4 * block + 1; cols += step)
        for (unsigned k = 0; k < 3; k++) compare_shape(c, backend, 1 + cols % 2, cols, turn++);
    static const uint64_t shapes[][2] = {{3, 64},    {1, 2047},  {2, 2048}, {1, 2049},
                                         {1, 4500},  {127, 130}, {129, 33}, {130, 257},
                                         {1, 16384}, {1, 16385}, {2, 10000}};
    size_t count = is_search(c.encoder) && !full ? 2 : sizeof shapes / sizeof *shapes;
    for (size_t i = 0; i < count; i += is_search(c.encoder) ? 1 : fewer)
        for (unsigned k = 0; k < (full ? 42 : 3); k++)
            compare_shape(c, backend, shapes[i][0], shapes[i][1], turn++ * 5);
    for (unsigned k = 0; k < 126; k += full ? 1 : KERF_TEST_SLOW ? 8 : 3)
        compare_shape(c, backend, 2, 2 * block + (is_search(c.encoder) ? 0 : 3), k);
    /* Where candidates are as good as each other, but for a rounding: ties, and little else. */
    for (unsigned k = 0; is_search(c.encoder) && k < 96; k += full ? 1 : STEP(5))
        compare_shape(c, backend, 2, 3 * block, 21 * k + (k % 2 ? 3u * TIES : 3u * ZEROS) + k % 3);
}

static void compare_backend(const char *backend)
{
    for (size_t f = 0; f < kerf_format_count(); f++) {
        const kerf_format *format = kerf_format_at(f);
        if (only && strcmp(format->name, only) != 0) continue;
        for (size_t e = 0; e < kerf_encoder_count(format); e++) {
            kerf_codec c = {format, kerf_encoder_at(format, e)};
            int all = full || (e == 0 && !is_search(c.encoder));
            compare_codec(c, backend, all);
        }
    }
}

/* Whether the backends are those that the features allow, and the fastest one works. */
static void check_features(uint32_t hide)
{
    static const struct {
        const char *backend, *needs;
    } expected[] = {
        {"avx2", "avx2"},
#ifndef KERF_NO_AVX512 /* what a build leaves out is not missing */
        {"avx512", "avx2 avx512f avx512bw avx512dq avx512vl"},
#endif
        {"neon", "neon"},
    };
    kf_cpu_hide(hide);
    uint32_t have = kf_cpu_detect();
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        int wanted = 1, found = 0;
        for (const kf_cpu_feature *f = kf_cpu_features; f->name; f++) {
            const char *at = strstr(expected[i].needs, f->name);
            if (at && !(have & f->bit)) wanted = 0;
        }
        for (size_t k = 0; k < kerf_backend_count(); k++)
            found |= strcmp(kerf_backend_at(k), expected[i].backend) == 0;
        if (wanted == found) continue;
        failures++;
        fprintf(stderr, "features %#x: backend %s is %s\n", (unsigned)have, expected[i].backend,
                found ? "there" : "missing");
    }
    printf("features %#4x:", (unsigned)have);
    for (size_t k = 0; k < kerf_backend_count(); k++) printf(" %s", kerf_backend_at(k));
    printf("\n");
    for (size_t f = 0; f < kerf_format_count(); f++) {
        const kerf_format *format = kerf_format_at(f);
        kerf_codec c = {format, kerf_encoder_at(format, 0)};
        for (unsigned k = 0; k < 3; k++) compare_shape(c, NULL, 2, 192, 3 * (unsigned)f + k);
    }
}

static uint32_t hidden_by_environment(void)
{
    const char *text = getenv("KERF_HIDE_CPU_FEATURES");
    uint32_t bits = 0;
    for (const kf_cpu_feature *f = kf_cpu_features; text && f->name; f++)
        if (strstr(text, f->name)) bits |= f->bit;
    return bits;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--full") == 0)
            full = 1;
        else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 10) | 1;
        else if (strcmp(argv[i], "--format") == 0 && i + 1 < argc)
            only = argv[++i];
        else {
            fprintf(stderr, "check_backends [--full] [--seed N] [--format NAME]\n");
            return 2;
        }
    }
    source_memory = guarded_open(ROOM);
    for (int p = 0; p <= KERF_PLANES; p++) {
        ref_memory[p] = guarded_open(ROOM);
        test_memory[p] = guarded_open(ROOM);
    }
    uint32_t hidden = hidden_by_environment();
    check_features(hidden);
    for (const kf_cpu_feature *f = kf_cpu_features; f->name; f++)
        if (kf_cpu_detect() & f->bit) {
            check_features(hidden | f->bit);
            kf_cpu_hide(hidden);
        }
    kf_cpu_hide(hidden);
    for (size_t i = 0; i < kerf_backend_count(); i++)
        if (strcmp(kerf_backend_at(i), "ref") != 0) compare_backend(kerf_backend_at(i));
    printf("%llu comparisons, %llu failures\n", (unsigned long long)cases,
           (unsigned long long)failures);
    return failures != 0;
}
