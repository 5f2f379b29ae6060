/* equal.c - the GPU writes the bytes of the reference: every format and encoder, in shapes that
 * have every kind of edge, over bit patterns that have every kind of number.
 *
 *   equal brief               a few small tensors: what compute-sanitizer is run over
 *   equal quick               small tensors through every path
 *   equal full N [FILE.json]  and N elements per codec, and tensors of more than 2^31 elements
 *
 * Prints one line per codec: elements compared and a digest of the planes, which is the same on
 * every machine. The last line counts. Without a GPU the exit status is 77. */
#include <kerf/cuda.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t checks, failures;
static kerf_device *gpu;
static kerf_error error;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *allocate(size_t n)
{
    void *p = malloc(n ? n : 1);
    if (!p) {
        fprintf(stderr, "out of memory: %zu bytes\n", n);
        exit(5);
    }
    return p;
}

static int check(int good, const char *what, const char *codec, const char *detail)
{
    checks++;
    if (good) return 1;
    failures++;
    if (failures < 50) printf("FAILED %s: %s, %s\n", codec, what, detail);
    return 0;
}

static int ok(kerf_status s, const char *what, const char *codec)
{
    return check(s == KERF_OK, what, codec, error.text);
}

/* --- numbers --------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static size_t size_of(kerf_dtype t)
{
    return kerf_dtype_bits(t) / 8;
}

/* Every bit pattern of the type, at random: all exponents, NaN, Inf, subnormals. */
static void fill_patterns(uint8_t *p, kerf_dtype t, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t r = mix(seed + i);
        memcpy(p + i * size_of(t), &r, size_of(t));
    }
}

/* A bell about zero with a few outliers, some exact zeros and the occasional run of zeros. */
static void fill_bell(uint8_t *p, kerf_dtype t, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t r = mix(seed + i);
        float x = 0;
        for (int k = 0; k < 4; k++) x += (float)(int16_t)(r >> 16 * k);
        x *= 1e-6f;
        if (r % 1021 == 0) x *= 50;
        if (r % 61 == 0 || mix(seed + i / 160) % 37 == 0) x = r % 2 ? 0.0f : -0.0f;
        uint32_t u;
        memcpy(&u, &x, 4);
        uint16_t half = (uint16_t)(u >> 16);
        if (t == KERF_F16) /* near enough: the exponent moved, the mantissa cut */
            half = (uint16_t)((u >> 16 & 0x8000) | ((u & 0x7fffffff) < 0x38800000
                                                        ? 0
                                                        : ((u & 0x7fffffff) - 0x38000000) >> 13));
        memcpy(p + i * size_of(t), t == KERF_F32 ? (void *)&u : (void *)&half, size_of(t));
    }
}

/* bf16: every pattern up to the largest element of its block of 16, for every mantissa of that
 * largest element and several exponents: normal, tiny, huge, and the edges of E8M0. */
static void fill_below_amax(uint8_t *p, size_t n)
{
    static const uint16_t exponents[] = {127, 121, 1, 0, 254, 100, 140, 6, 16, 250, 64};
    uint64_t pattern = 0, round = 0;
    for (size_t i = 0; i < n; i++) {
        uint16_t amax = (uint16_t)(exponents[round / 128 % 11] << 7 | (round % 128)), x = amax;
        if (i % 16 != (round + i / 16) % 16) {
            x = (uint16_t)(pattern << 15 | pattern >> 1);
            if ((x & 0x7fff) >= amax) {
                pattern = 0;
                round++;
                x = 0;
            } else {
                pattern++;
            }
        }
        memcpy(p + 2 * i, &x, 2);
    }
}

/* --- one tensor through the reference and through the GPU ------------------------------------- */

typedef struct planes {
    uint8_t *all;
    size_t n;
    kerf_span plane[KERF_PLANES];
} planes;

/* Poisoned, with the poison also behind the last byte. */
static planes make_planes(const kerf_geometry *g, int poison)
{
    planes out = {0};
    size_t at[KERF_PLANES];
    for (int k = 0; k < KERF_PLANES; k++) {
        at[k] = out.n;
        out.n += (g->plane[k].bytes + 63) / 64 * 64;
    }
    out.n += 64;
    out.all = allocate(out.n);
    memset(out.all, poison, out.n);
    for (int k = 0; k < KERF_PLANES; k++)
        out.plane[k] = (kerf_span){out.all + at[k], g->plane[k].bytes};
    return out;
}

typedef struct tensor {
    kerf_geometry g;
    kerf_codec codec;
    char name[64];
    const uint8_t *source;
    kerf_dtype dtype;
    kerf_nan nan;
    kerf_stats *stats;
    planes reference;
} tensor;

static void describe(const tensor *t, char *out, size_t size)
{
    size_t n = 0;
    out[0] = 0;
    for (unsigned i = 0; i < t->g.shape.rank; i++)
        n += (size_t)snprintf(out + n, size - n, "%llu x ", (unsigned long long)t->g.shape.dim[i]);
    snprintf(out + n, size - n, "%s", kerf_dtype_name(t->dtype));
}

static kerf_cspan source_of(const tensor *t, uint64_t b0, uint64_t b1)
{
    kerf_extent e = kerf_band_elements(&t->g, b0, b1);
    return (kerf_cspan){t->source + e.offset * size_of(t->dtype), e.count * size_of(t->dtype)};
}

static void planes_from(const tensor *t, const planes *p, uint64_t b0, uint64_t b1,
                        kerf_span out[KERF_PLANES])
{
    for (int k = 0; k < KERF_PLANES; k++) {
        kerf_extent e = kerf_band_bytes(&t->g, (kerf_plane_id)k, b0, b1);
        uint64_t at = t->g.plane[k].per_matrix ? 0 : e.offset;
        out[k] = (kerf_span){(uint8_t *)p->plane[k].p + at, e.count};
    }
}

static int encode_into(const tensor *t, const planes *p, uint64_t step, const kerf_exec *exec,
                       const char *what)
{
    uint64_t bands = t->g.bands;
    for (uint64_t b = 0; b < bands || b == 0; b += step) {
        uint64_t end = bands - b < step ? bands : b + step;
        kerf_span dst[KERF_PLANES];
        planes_from(t, p, b, end, dst);
        if (!ok(kerf_encode(&t->g, t->codec.encoder, t->stats, b, end, source_of(t, b, end),
                            t->dtype, dst, exec, &error),
                what, t->name))
            return 0;
    }
    return 1;
}

static void compare(const tensor *t, const planes *mine, const char *what)
{
    char detail[256], shape[160];
    int equal = memcmp(mine->all, t->reference.all, mine->n) == 0;
    detail[0] = 0;
    for (int k = 0; k < KERF_PLANES && !equal && !detail[0]; k++) {
        const uint8_t *a = t->reference.plane[k].p, *b = mine->plane[k].p;
        size_t i = 0;
        while (i < mine->plane[k].n && a[i] == b[i]) i++;
        if (i == mine->plane[k].n) continue;
        describe(t, shape, sizeof shape);
        snprintf(detail, sizeof detail, "%s: plane %d byte %zu is %02x, not %02x", shape, k, i,
                 b[i], a[i]);
    }
    check(equal, what, t->name, detail);
}

static void check_measure(tensor *t, const kerf_exec *cpu, const kerf_exec *dev)
{
    size_t n = t->g.matrices * sizeof(kerf_stats);
    kerf_stats *mine = allocate(n);
    memset(mine, 0, n);
    memset(t->stats, 0, n);
    ok(kerf_measure(&t->g, 0, t->g.bands, source_of(t, 0, t->g.bands), t->dtype, t->stats, cpu,
                    &error),
       "reference measures", t->name);
    ok(kerf_measure(&t->g, 0, t->g.bands, source_of(t, 0, t->g.bands), t->dtype, mine, dev, &error),
       "measures", t->name);
    check(memcmp(mine, t->stats, n) == 0, "statistics differ", t->name, "");
    free(mine);
}

/* To the first n of three types. */
static void check_decode(const tensor *t, int n_types, const kerf_exec *cpu, const kerf_exec *dev)
{
    static const kerf_dtype types[] = {KERF_BF16, KERF_F32, KERF_F16};
    kerf_cspan src[KERF_PLANES];
    for (int k = 0; k < KERF_PLANES; k++)
        src[k] = (kerf_cspan){t->reference.plane[k].p, t->reference.plane[k].n};
    for (int i = 0; i < n_types; i++) {
        char detail[160];
        size_t n = t->g.elements * size_of(types[i]), at = 0;
        uint8_t *a = allocate(n), *b = allocate(n);
        memset(b, 0xa5, n);
        ok(kerf_decode(&t->g, 0, t->g.bands, src, (kerf_span){a, n}, types[i], cpu, &error),
           "reference decodes", t->name);
        ok(kerf_decode(&t->g, 0, t->g.bands, src, (kerf_span){b, n}, types[i], dev, &error),
           "decodes", t->name);
        if (memcmp(a, b, n) == 0) at = n;
        while (at < n && a[at] == b[at]) at++;
        describe(t, detail, sizeof detail);
        snprintf(detail + strlen(detail), sizeof detail - strlen(detail), " to %s, byte %zu",
                 kerf_dtype_name(types[i]), at);
        check(at == n, "decodes differently", t->name, detail);
        free(a);
        free(b);
    }
}

static void check_clipped(const tensor *t, const kerf_exec *cpu, const kerf_exec *dev)
{
    uint64_t a = 0, b = 1;
    kerf_cspan src[KERF_PLANES];
    for (int k = 0; k < KERF_PLANES; k++)
        src[k] = (kerf_cspan){t->reference.plane[k].p, t->reference.plane[k].n};
    ok(kerf_count_clipped(&t->g, 0, t->g.bands, src, source_of(t, 0, t->g.bands), t->dtype, cpu, &a,
                          &error),
       "reference counts", t->name);
    ok(kerf_count_clipped(&t->g, 0, t->g.bands, src, source_of(t, 0, t->g.bands), t->dtype, dev, &b,
                          &error),
       "counts", t->name);
    check(a == b, "clip counts differ", t->name, "");
}

/* Bytes of any kind are decodable: what no encoder writes, NaN scales among it. */
static void check_garbage(tensor *t, const kerf_exec *cpu, const kerf_exec *dev)
{
    fill_patterns(t->reference.all, KERF_BF16, t->reference.n / 2, 77);
    check_decode(t, 3, cpu, dev);
}

/* GGUF's structs want rows of whole structs: 64 elements or 32. */
static int has_whole_structs(const kerf_format *f, const kerf_shape *s)
{
    uint64_t struct_elements = f->scale == KERF_SCALE_E4M3 ? 64 : 32;
    return f->geometry != KERF_GROUP_STRUCT ||
           (s->rank > 0 && s->dim[s->rank - 1] % struct_elements == 0);
}

typedef enum depth { ENCODE, WHOLE, EVERYTHING } depth;

/* Some encoders take sources of one type alone; what the processor refuses the GPU refuses. */
static int is_refused(const tensor *t, const kerf_exec *cpu, const kerf_exec *dev)
{
    kerf_stats none = {0};
    kerf_span dst[KERF_PLANES];
    kerf_cspan src = source_of(t, 0, 0);
    planes_from(t, &t->reference, 0, 0, dst);
    kerf_status a =
        kerf_encode(&t->g, t->codec.encoder, &none, 0, 0, src, t->dtype, dst, cpu, &error);
    kerf_status b =
        kerf_encode(&t->g, t->codec.encoder, &none, 0, 0, src, t->dtype, dst, dev, &error);
    check(a == b, "is refused differently", t->name, error.text);
    return a == KERF_E_NOSUP;
}

/* Returns the digest of the reference planes. */
static uint64_t check_tensor(tensor *t, const kerf_shape *shape, depth how)
{
    kerf_exec cpu = {.nan = t->nan}, dev = {.nan = t->nan, .device = gpu};
    if (!ok(kerf_geometry_init(&t->g, t->codec.format, shape, &error), "geometry", t->name))
        return 0;
    t->stats = allocate((t->g.matrices + 1) * sizeof *t->stats);
    t->reference = make_planes(&t->g, 0x88);
    planes mine = make_planes(&t->g, 0x88);
    check_measure(t, &cpu, &dev);
    if (is_refused(t, &cpu, &dev)) {
        free(mine.all);
        free(t->reference.all);
        free(t->stats);
        return 0;
    }
    encode_into(t, &t->reference, t->g.bands ? t->g.bands : 1, &cpu, "reference encodes");
    encode_into(t, &mine, t->g.bands ? t->g.bands : 1, &dev, "encodes");
    compare(t, &mine, "encodes differently");
    uint64_t digest = kerf_hash(t->reference.all, t->reference.n);
    if (how != ENCODE) check_decode(t, how == EVERYTHING ? 3 : 1, &cpu, &dev);
    if (how == EVERYTHING) {
        memset(mine.all, 0x88, mine.n);
        encode_into(t, &mine, 3, &dev, "encodes in calls of 3 bands");
        compare(t, &mine, "differs in calls of 3 bands");
        check_clipped(t, &cpu, &dev);
        check_garbage(t, &cpu, &dev);
    }
    free(mine.all);
    free(t->reference.all);
    free(t->stats);
    return digest;
}

/* --- all shapes, small ------------------------------------------------------------------------ */

static const kerf_shape shapes[] = {
    {2, {16, 256}},  {2, {7, 512}},     {2, {5, 200}},     {2, {3, 33}},       {2, {130, 144}},
    {2, {129, 640}}, {1, {1000}},       {1, {1}},          {0, {0}},           {2, {0, 64}},
    {3, {3, 5, 96}}, {3, {5, 130, 36}}, {3, {2, 4, 1024}}, {4, {2, 3, 3, 17}}, {2, {1, 20480}},
    {2, {40, 16}},   {1, {16385}},      {2, {2, 8200}},    {3, {40, 2, 2}},    {2, {3, 16448}},
};
#define SHAPES (sizeof shapes / sizeof shapes[0])
#define MOST_ELEMENTS 100000

static uint64_t check_small(kerf_codec codec, size_t step, uint64_t *elements)
{
    static const kerf_dtype types[] = {KERF_BF16, KERF_F32, KERF_F16};
    uint64_t digest = 0;
    uint8_t *room = allocate(4 * MOST_ELEMENTS + 64);
    for (size_t i = 0; i < SHAPES * 3; i += step) {
        tensor t = {.codec = codec, .dtype = types[i % 3], .nan = KERF_NAN_SATURATE};
        uint64_t n, pair[2];
        size_t shift = i % 5 ? 0 : size_of(t.dtype); /* rows off the 16-byte grid */
        kerf_codec_name(codec, t.name, sizeof t.name);
        t.source = room + shift;
        if (!has_whole_structs(codec.format, &shapes[i / 3])) continue;
        if (!ok(kerf_shape_count(&shapes[i / 3], &n, &error), "shape", t.name)) continue;
        if (i % 2)
            fill_bell(room + shift, t.dtype, n, i);
        else
            fill_patterns(room + shift, t.dtype, n, i);
        if (i % 7 == 3) t.nan = KERF_NAN_ZERO;
        pair[0] = digest;
        pair[1] = check_tensor(&t, &shapes[i / 3], EVERYTHING);
        digest = kerf_hash(pair, sizeof pair);
        *elements += n;
    }
    free(room);
    return digest;
}

/* --- many elements ---------------------------------------------------------------------------- */

typedef struct source {
    uint8_t *p;
    kerf_dtype dtype;
} source;

/* Of N elements per codec: half and a quarter bf16 patterns, as a matrix and as many, then three
 * parts of a twelfth. */
enum { BELOW_AMAX, BELL_F32, PATTERNS_F16, PATTERNS_F32, SOURCES };
static uint64_t many;

#define HUGE_TOO 50000000 /* from so many elements on, tensors of more than 2^31 as well */
#define COLS 4096
#define STACKED (16 * COLS) /* elements of a matrix, where there are many of them */

static uint64_t count_of(int part)
{
    uint64_t n = part == BELOW_AMAX ? many / 2 : part == SOURCES ? many / 4 : many / 12;
    return (n + STACKED - 1) / STACKED * STACKED;
}

static void make_sources(source s[SOURCES])
{
    static const kerf_dtype types[SOURCES] = {KERF_BF16, KERF_F32, KERF_F16, KERF_F32};
    for (int i = 0; i < SOURCES; i++)
        s[i] = (source){allocate(count_of(i) * size_of(types[i])), types[i]};
    fill_below_amax(s[BELOW_AMAX].p, count_of(BELOW_AMAX));
    fill_bell(s[BELL_F32].p, KERF_F32, count_of(BELL_F32), 5);
    fill_patterns(s[PATTERNS_F16].p, KERF_F16, count_of(PATTERNS_F16), 6);
    fill_patterns(s[PATTERNS_F32].p, KERF_F32, count_of(PATTERNS_F32), 7);
}

static void check_many(kerf_codec codec, const source s[SOURCES], uint64_t *elements)
{
    for (int i = 0; i < SOURCES + 1; i++) {
        uint64_t n = count_of(i);
        kerf_shape shape = {2, {n / COLS, COLS}};
        const source *from = &s[i < SOURCES ? i : BELOW_AMAX];
        if (i == SOURCES) shape = (kerf_shape){3, {n / STACKED, 16, COLS}}; /* amax per matrix */
        tensor t = {
            .codec = codec, .source = from->p, .dtype = from->dtype, .nan = KERF_NAN_SATURATE};
        kerf_codec_name(codec, t.name, sizeof t.name);
        int first = codec.encoder == kerf_encoder_at(codec.format, 0);
        check_tensor(&t, &shape, first ? WHOLE : ENCODE); /* decoding knows no encoder */
        *elements += n;
    }
}

/* --- more than 2^31 elements, in device memory in one piece ----------------------------------- */

static int run_on_device(const tensor *t, kerf_dbuf *dense, kerf_dbuf *all, const planes *mine)
{
    kerf_dbuf stats = {0};
    kerf_device_bands b = {.geometry = &t->g, .b1 = t->g.bands, .dtype = t->dtype};
    size_t n = t->g.elements * size_of(t->dtype);
    int good = ok(kerf_dbuf_alloc(gpu, t->g.matrices * sizeof(kerf_stats), &stats, &error), "stats",
                  t->name);
    memset(t->stats, 0, t->g.matrices * sizeof(kerf_stats));
    b.dense = (kerf_span){dense->p, dense->n};
    for (int k = 0; k < KERF_PLANES; k++)
        b.plane[k] = (kerf_span){(uint8_t *)all->p + ((uint8_t *)mine->plane[k].p - mine->all),
                                 mine->plane[k].n};
    good = good && ok(kerf_dbuf_write(dense, 0, t->source, n, &error), "copy in", t->name);
    good = good && ok(kerf_dbuf_write(all, 0, mine->all, mine->n, &error), "poison", t->name);
    good = good && ok(kerf_dbuf_write(&stats, 0, t->stats, stats.n, &error), "zero", t->name);
    good = good && ok(kerf_device_measure(gpu, &b, stats.p, &error), "measures", t->name);
    good = good &&
           ok(kerf_device_encode(gpu, &b, t->codec.encoder, stats.p, &error), "encodes", t->name);
    good = good && ok(kerf_device_wait(gpu, NULL, &error), "waits", t->name);
    good = good && ok(kerf_dbuf_read(all, 0, mine->all, mine->n, &error), "copy out", t->name);
    good = good && ok(kerf_device_decode(gpu, &b, &error), "decodes", t->name);
    good = good && ok(kerf_device_wait(gpu, NULL, &error), "waits", t->name);
    kerf_dbuf_free(&stats);
    return good;
}

static void check_huge(const char *name)
{
    kerf_shape shape = {2, {524800, 4096}}; /* 2^31 + 2^20 elements and a half */
    tensor t = {.dtype = KERF_BF16};
    kerf_exec cpu = {0};
    kerf_dbuf dense, all;
    double started = now_s();
    if (!ok(kerf_codec_find(name, &t.codec, &error), "codec", name)) return;
    snprintf(t.name, sizeof t.name, "%s", name);
    if (!ok(kerf_geometry_init(&t.g, t.codec.format, &shape, &error), "geometry", name)) return;
    size_t n = t.g.elements * 2, part = (size_t)64 << 20;
    uint8_t *p = allocate(n), *back = allocate(n);
    fill_bell(p, KERF_BF16, part / 2, 9);
    for (size_t at = part; at < n; at += part) /* the same again, but each part of its own size */
        for (size_t i = 0; i < (n - at < part ? n - at : part) / 2; i++)
            ((uint16_t *)(p + at))[i] =
                (uint16_t)(((uint16_t *)p)[i] +
                           (((uint16_t *)p)[i] & 0x7fff ? at / part % 4 * 128 : 0));
    t.source = p;
    t.stats = allocate(t.g.matrices * sizeof *t.stats);
    t.reference = make_planes(&t.g, 0x88);
    planes mine = make_planes(&t.g, 0x88);
    if (ok(kerf_dbuf_alloc(gpu, n, &dense, &error), "allocation", name) &&
        ok(kerf_dbuf_alloc(gpu, mine.n, &all, &error), "allocation", name) &&
        run_on_device(&t, &dense, &all, &mine)) {
        memset(t.stats, 0, t.g.matrices * sizeof *t.stats);
        ok(kerf_measure(&t.g, 0, t.g.bands, source_of(&t, 0, t.g.bands), t.dtype, t.stats, &cpu,
                        &error),
           "reference measures", name);
        encode_into(&t, &t.reference, t.g.bands, &cpu, "reference encodes");
        compare(&t, &mine, "encodes differently");
        ok(kerf_dbuf_read(&dense, 0, back, n, &error), "copy out", name);
        kerf_cspan src[KERF_PLANES];
        for (int k = 0; k < KERF_PLANES; k++)
            src[k] = (kerf_cspan){t.reference.plane[k].p, t.reference.plane[k].n};
        ok(kerf_decode(&t.g, 0, t.g.bands, src, (kerf_span){p, n}, KERF_BF16, &cpu, &error),
           "reference decodes", name);
        check(memcmp(p, back, n) == 0, "decodes differently", name, "");
    }
    printf("%-28s %12llu elements in one piece, %.1f s\n", name, (unsigned long long)t.g.elements,
           now_s() - started);
    kerf_dbuf_free(&dense);
    kerf_dbuf_free(&all);
    free(p);
    free(back);
    free(mine.all);
    free(t.reference.all);
    free(t.stats);
}

/* --- scales in tiles ----------------------------------------------------------------------------
 */

/* The device's tiles are the host's, padding among them, and lead back to the scales. */
static void check_tiles(uint64_t matrices, uint64_t rows, uint64_t cols)
{
    uint64_t n = matrices * rows * cols, tiled = 0;
    kerf_dbuf a = {0}, b = {0};
    ok(kerf_tiled_scale_bytes(matrices, rows, cols, &tiled, &error), "size", "tiles");
    uint8_t *plain = allocate(n), *want = allocate(tiled), *got = allocate(tiled);
    fill_patterns(plain, KERF_BF16, n / 2, rows);
    memset(want, 0x7f, tiled);
    memset(got, 0x7f, tiled);
    ok(kerf_scales_to_tiles(matrices, rows, cols, (kerf_cspan){plain, n}, (kerf_span){want, tiled},
                            &error),
       "to tiles on the host", "tiles");
    ok(kerf_dbuf_alloc(gpu, n, &a, &error), "allocation", "tiles");
    ok(kerf_dbuf_alloc(gpu, tiled, &b, &error), "allocation", "tiles");
    ok(kerf_dbuf_write(&a, 0, plain, n, &error), "copy in", "tiles");
    ok(kerf_dbuf_write(&b, 0, got, tiled, &error), "poison", "tiles");
    ok(kerf_device_scales_to_tiles(gpu, matrices, rows, cols, (kerf_cspan){a.p, n},
                                   (kerf_span){b.p, tiled}, &error),
       "to tiles", "tiles");
    ok(kerf_dbuf_read(&b, 0, got, tiled, &error), "copy out", "tiles");
    check(memcmp(got, want, tiled) == 0, "other tiles than on the host", "tiles", "");
    ok(kerf_dbuf_write(&a, 0, want, n < tiled ? n : tiled, &error), "poison", "tiles");
    ok(kerf_device_scales_from_tiles(gpu, matrices, rows, cols, (kerf_cspan){b.p, tiled},
                                     (kerf_span){a.p, n}, &error),
       "from tiles", "tiles");
    ok(kerf_dbuf_read(&a, 0, got, n, &error), "copy out", "tiles");
    check(memcmp(got, plain, n) == 0, "tiles do not lead back", "tiles", "");
    kerf_dbuf_free(&a);
    kerf_dbuf_free(&b);
    free(plain);
    free(want);
    free(got);
}

/* --- failures --------------------------------------------------------------------------------- */

/* A GPU with no room left: a clear refusal, and the next call works when there is room again. */
static void check_full_gpu(const kerf_codec *codec)
{
    kerf_shape shape = {2, {1024, 4096}};
    kerf_device *d = NULL;
    kerf_dbuf hog[64];
    int n = 0;
    tensor t = {.codec = *codec, .name = "a full GPU", .dtype = KERF_F32, .nan = KERF_NAN_ZERO};
    if (!ok(kerf_device_open(0, &d, &error), "opens again", t.name) ||
        !ok(kerf_geometry_init(&t.g, codec->format, &shape, &error), "geometry", t.name))
        return;
    kerf_exec on_d = {.device = d};
    t.reference = make_planes(&t.g, 0x88);
    t.source = calloc(t.g.elements, 4);
    for (size_t part = (size_t)1 << 38; t.source && part >= 4096 && n < 64;)
        if (kerf_dbuf_alloc(d, part, &hog[n], &error) == KERF_OK)
            n++;
        else
            part /= 2;
    kerf_status s =
        kerf_encode(&t.g, codec->encoder, NULL, 0, t.g.bands, source_of(&t, 0, t.g.bands), t.dtype,
                    t.reference.plane, &on_d, &error);
    check(s == KERF_E_NOMEM && strstr(error.text, "too little free memory"), "is refused", t.name,
          error.text);
    while (n > 0) kerf_dbuf_free(&hog[--n]);
    encode_into(&t, &t.reference, t.g.bands, &on_d, "works when there is room again");
    kerf_device_close(d);
    free((void *)(uintptr_t)t.source);
    free(t.reference.all);
}

static void check_failures(void)
{
    kerf_device *none;
    kerf_dbuf b = {0};
    kerf_exec dev = {.device = gpu};
    kerf_geometry g;
    kerf_codec codec;
    kerf_shape shape = {2, {8, 64}};
    float x[512] = {0};
    uint8_t codes[512], scales[512];
    kerf_span dst[KERF_PLANES] = {{codes, sizeof codes}, {scales, sizeof scales}};
    check(kerf_device_open(99, &none, &error) == KERF_E_NOSUP && !none, "GPU 99", "device", "");
    check(kerf_dbuf_alloc(gpu, (size_t)1 << 50, &b, &error) == KERF_E_NOMEM && !b.p,
          "a petabyte is refused", "device", error.text);
    ok(kerf_codec_find("mxfp4", &codec, &error), "codec", "mxfp4");
    ok(kerf_geometry_init(&g, codec.format, &shape, &error), "geometry", "mxfp4");
    x[77] = x[300] = 1.0f / x[511];
    kerf_status s = kerf_encode(&g, codec.encoder, NULL, 1, 8, (kerf_cspan){x + 64, 448 * 4},
                                KERF_F32, dst, &dev, &error);
    check(s == KERF_E_DATA && error.offset == 77, "the first Inf is named", "mxfp4", error.text);
    s = kerf_encode(&g, codec.encoder, NULL, 0, 8, (kerf_cspan){x, 2047}, KERF_F32, dst, &dev,
                    &error);
    check(s == KERF_E_BUFFER, "a short source", "mxfp4", error.text);
    check_full_gpu(&codec);
    x[77] = x[300] = 1;
    ok(kerf_encode(&g, codec.encoder, NULL, 0, 8, (kerf_cspan){x, 2048}, KERF_F32, dst, &dev,
                   &error),
       "works after failures", "mxfp4");
}

/* --- main ------------------------------------------------------------------------------------- */

/* One line per codec on stdout and, where wanted, in a file. */
static void report(FILE *out, const char *name, uint64_t elements, uint64_t digest, int same)
{
    static int rows;
    printf("%-28s %12llu elements %016llx %s\n", name, (unsigned long long)elements,
           (unsigned long long)digest, same ? "same" : "DIFFERENT");
    fflush(stdout);
    if (out)
        fprintf(out, "%s\n    {\"codec\": \"%s\", \"elements\": %llu, \"same\": %s}",
                rows++ ? "," : "", name, (unsigned long long)elements, same ? "true" : "false");
}

static void check_codecs(FILE *out, size_t step, const source *sources)
{
    for (size_t i = 0; i < kerf_format_count(); i++) {
        const kerf_format *f = kerf_format_at(i);
        for (size_t e = 0; e < kerf_encoder_count(f); e++) {
            kerf_codec codec = {f, kerf_encoder_at(f, e)};
            char name[64];
            uint64_t elements = 0, before = failures, digest = check_small(codec, step, &elements);
            if (sources) check_many(codec, sources, &elements);
            report(out, kerf_codec_name(codec, name, sizeof name), elements, digest,
                   failures == before);
        }
    }
}

int main(int argc, char **argv)
{
    int full = argc > 2 && strcmp(argv[1], "full") == 0;
    size_t step = argc > 1 && strcmp(argv[1], "brief") == 0 ? 13 : 1; /* 13: all types */
    source sources[SOURCES] = {{0}};
    kerf_device_info info;
    FILE *out = NULL;
    double started = now_s();
    if (kerf_device_describe(0, &info, &error) != KERF_OK ||
        kerf_device_open(0, &gpu, &error) != KERF_OK) {
        printf("0 passed, 0 failed, 1 skipped: %s\n", error.text);
        return 77;
    }
    printf("%s, sm_%d%d, %.1f GiB\n", info.name, info.compute_major, info.compute_minor,
           (double)info.memory_bytes / (1 << 30));
    if (full) {
        many = strtoull(argv[2], NULL, 10);
        make_sources(sources);
        if (argc > 3 && !(out = fopen(argv[3], "w"))) return 4;
    }
    if (out)
        fprintf(out,
                "{\n  \"schema\": \"kerf-gpu-equality-1\",\n  \"device\": \"%s\",\n"
                "  \"codecs\": [",
                info.name);
    check_codecs(out, step, full ? sources : NULL);
    check_failures();
    check_tiles(1, 128, 4);
    check_tiles(3, 130, 7);
    check_tiles(2, 1, 1);
    check_tiles(1, 4096, 256);
    if (full && many >= HUGE_TOO) {
        check_huge("nvfp4:amax");
        check_huge("int8:amax");
        check_huge("nf4-dq:bnb-cpu");
    }
    for (int i = 0; i < SOURCES; i++) free(sources[i].p);
    kerf_device_close(gpu);
    printf("%llu passed, %llu failed, 0 skipped, %.1f s\n", (unsigned long long)(checks - failures),
           (unsigned long long)failures, now_s() - started);
    if (out) {
        fprintf(out, "\n  ],\n  \"checks\": %llu, \"failed\": %llu, \"seconds\": %.1f\n}\n",
                (unsigned long long)checks, (unsigned long long)failures, now_s() - started);
        if (fclose(out) != 0) return 4;
    }
    return failures != 0;
}
