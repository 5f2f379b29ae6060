/* equal_tensor.h - one tensor through the reference and through the GPU, and small ones of all
 * shapes. */
#ifndef KERF_TESTS_EQUAL_TENSOR_H
#define KERF_TESTS_EQUAL_TENSOR_H

#include "numbers.h"

#include <kerf/cuda.h>

#include <malloc.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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
    kerf_geometry g;
    return kerf_geometry_init(&g, f, s, NULL) != KERF_E_NOSUP;
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
    if (t->g.elements < 1000000) cpu.threads = 1; /* waking more would take longer */
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

/* bf16 numbers up to the amax of their block, as fp32 and fp16: ties are among them. */
static void check_few_bits(kerf_codec codec)
{
    static const kerf_dtype types[] = {KERF_F32, KERF_F16};
    enum { N = 1 << 17 };
    kerf_shape shape = {2, {64, N / 64}};
    uint16_t *narrow = allocate(2 * N);
    uint8_t *room = allocate(4 * N);
    fill_below_amax((uint8_t *)narrow, N);
    for (int k = 0; k < 2; k++) {
        tensor t = {.codec = codec, .source = room, .dtype = types[k], .nan = KERF_NAN_SATURATE};
        kerf_codec_name(codec, t.name, sizeof t.name);
        for (size_t i = 0; i < N; i++) {
            uint32_t u = (uint32_t)narrow[i] << 16;
            uint16_t half = half_near(u);
            memcpy(room + i * size_of(t.dtype), k ? (void *)&half : (void *)&u, size_of(t.dtype));
        }
        check_tensor(&t, &shape, ENCODE);
    }
    free(room);
    free(narrow);
}

#endif
