/* equal.c - the GPU writes the bytes of the reference: every format and encoder, in shapes that
 * have every kind of edge, over bit patterns that have every kind of number.
 *
 *   equal failures                      what a GPU that is full, or not there, must answer; takes
 *                                       all memory of the GPU for a moment
 *   equal brief                         a few small tensors: what compute-sanitizer is run over
 *   equal quick                         small tensors through every path
 *   equal only FORMAT...                the same of some formats
 *   equal full N [FILE.json [SECONDS]]  and N elements per codec, or what SECONDS allow of them,
 *                                       and tensors of more than 2^31 elements
 *
 *   equal beside MIB COMMAND...         COMMAND while the GPU has no more than MIB mebibytes left
 *
 * Prints one line per codec: elements compared and a digest of the planes, which is the same on
 * every machine. The last line counts. Without a GPU the exit status is 77. */
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

/* --- many elements ---------------------------------------------------------------------------- */

/* A source that stays in host and device memory, so that every codec costs a kernel, the planes
 * that come back, and what the processor needs for the same. */
typedef struct source {
    uint8_t *p;
    kerf_dbuf resident;
    kerf_dtype dtype;
    uint64_t elements;
    uint64_t rows; /* of a matrix; 0: one matrix */
} source;

/* Of N elements per codec: three parts of a twelfth, a quarter of bf16 patterns as many matrices
 * and a half as one. */
enum { BELL_F32, PATTERNS_F16, PATTERNS_F32, STACKED_BF16, BELOW_AMAX, SOURCES };
#define COLS 4096
#define STACKED_ROWS 16
#define HUGE_TOO 50000000 /* from so many elements on, tensors of more than 2^31 as well */

typedef struct large {
    source source[SOURCES];
    kerf_dbuf planes, stats;
    double seconds; /* for one codec: a slow one is cut short, and counted as it was cut */
} large;

static void make_source(source *s, kerf_dtype dtype, uint64_t elements, uint64_t rows)
{
    uint64_t unit = COLS * STACKED_ROWS;
    *s = (source){.dtype = dtype, .rows = rows};
    s->elements = (elements + unit - 1) / unit * unit;
    s->p = allocate(s->elements * size_of(dtype));
}

static void make_large(large *l, uint64_t n)
{
    make_source(&l->source[BELL_F32], KERF_F32, n / 12, 0);
    make_source(&l->source[PATTERNS_F16], KERF_F16, n / 12, 0);
    make_source(&l->source[PATTERNS_F32], KERF_F32, n / 12, 0);
    make_source(&l->source[STACKED_BF16], KERF_BF16, n / 4, STACKED_ROWS);
    make_source(&l->source[BELOW_AMAX], KERF_BF16, n / 2, 0);
    fill_bell(l->source[BELL_F32].p, KERF_F32, l->source[BELL_F32].elements, 5);
    fill_patterns(l->source[PATTERNS_F16].p, KERF_F16, l->source[PATTERNS_F16].elements, 6);
    fill_patterns(l->source[PATTERNS_F32].p, KERF_F32, l->source[PATTERNS_F32].elements, 7);
    fill_below_amax(l->source[STACKED_BF16].p, l->source[STACKED_BF16].elements);
    fill_below_amax(l->source[BELOW_AMAX].p, l->source[BELOW_AMAX].elements);
    uint64_t most = l->source[BELOW_AMAX].elements, matrices = most / COLS / STACKED_ROWS;
    for (int i = 0; i < SOURCES; i++) {
        source *s = &l->source[i];
        size_t bytes = s->elements * size_of(s->dtype);
        ok(kerf_dbuf_alloc(gpu, bytes, &s->resident, &error), "allocation", "sources");
        ok(kerf_dbuf_write(&s->resident, 0, s->p, bytes, &error), "copy in", "sources");
    }
    ok(kerf_dbuf_alloc(gpu, 5 * most + (1 << 20), &l->planes, &error), "allocation", "planes");
    ok(kerf_dbuf_alloc(gpu, (matrices + 1) * sizeof(kerf_stats), &l->stats, &error), "allocation",
       "stats");
}

static void free_large(large *l)
{
    for (int i = 0; i < SOURCES; i++) {
        kerf_dbuf_free(&l->source[i].resident);
        free(l->source[i].p);
    }
    kerf_dbuf_free(&l->planes);
    kerf_dbuf_free(&l->stats);
}

/* Encodes what lies in device memory; mine: poisoned, then as it comes back. */
static int encode_resident(const tensor *t, const kerf_device_bands *b, const kerf_dbuf *all,
                           const kerf_dbuf *stats, planes *mine)
{
    size_t n = t->g.matrices * sizeof(kerf_stats);
    memset(t->stats, 0, n);
    return ok(kerf_dbuf_write(all, 0, mine->all, mine->n, &error), "poison", t->name) &&
           ok(kerf_dbuf_write(stats, 0, t->stats, n, &error), "zero", t->name) &&
           ok(kerf_device_measure(gpu, b, stats->p, &error), "measures", t->name) &&
           ok(kerf_device_encode(gpu, b, t->codec.encoder, stats->p, &error), "encodes", t->name) &&
           ok(kerf_device_wait(gpu, NULL, &error), "waits", t->name) &&
           ok(kerf_dbuf_read(all, 0, mine->all, mine->n, &error), "copy out", t->name);
}

static kerf_device_bands bands_of(const tensor *t, const kerf_dbuf *dense, const kerf_dbuf *all,
                                  const planes *mine)
{
    kerf_device_bands b = {.geometry = &t->g, .b1 = t->g.bands, .dtype = t->dtype, .nan = t->nan};
    b.dense = (kerf_span){dense->p, t->g.elements * size_of(t->dtype)};
    for (int k = 0; k < KERF_PLANES; k++)
        b.plane[k] = (kerf_span){(uint8_t *)all->p + ((uint8_t *)mine->plane[k].p - mine->all),
                                 mine->plane[k].n};
    return b;
}

/* The reference, and what of it differs from `mine`. */
static void compare_resident(tensor *t, const planes *mine)
{
    kerf_exec cpu = {.nan = t->nan};
    memset(t->stats, 0, t->g.matrices * sizeof *t->stats);
    ok(kerf_measure(&t->g, 0, t->g.bands, source_of(t, 0, t->g.bands), t->dtype, t->stats, &cpu,
                    &error),
       "reference measures", t->name);
    encode_into(t, &t->reference, t->g.bands, &cpu, "reference encodes");
    compare(t, mine, "encodes differently");
}

/* Decodes the planes in device memory into the place of the source, on both sides. */
static void decode_resident(const tensor *t, const kerf_device_bands *b, const kerf_dbuf *dense)
{
    kerf_cspan src[KERF_PLANES];
    size_t n = b->dense.n;
    uint8_t *mine = allocate(n), *want = allocate(n);
    for (int k = 0; k < KERF_PLANES; k++)
        src[k] = (kerf_cspan){t->reference.plane[k].p, t->reference.plane[k].n};
    ok(kerf_device_decode(gpu, b, &error), "decodes", t->name);
    ok(kerf_device_wait(gpu, NULL, &error), "waits", t->name);
    ok(kerf_dbuf_read(dense, 0, mine, n, &error), "copy out", t->name);
    ok(kerf_decode(&t->g, 0, t->g.bands, src, (kerf_span){want, n}, t->dtype, NULL, &error),
       "reference decodes", t->name);
    check(memcmp(mine, want, n) == 0, "decodes differently", t->name, "");
    free(mine);
    free(want);
}

static void check_resident(const large *l, tensor *t, const source *from, const kerf_shape *shape)
{
    int decodes = t->codec.encoder == kerf_encoder_at(t->codec.format, 0);
    if (!ok(kerf_geometry_init(&t->g, t->codec.format, shape, &error), "geometry", t->name)) return;
    t->stats = allocate(t->g.matrices * sizeof *t->stats);
    t->reference = make_planes(&t->g, 0x88);
    planes mine = make_planes(&t->g, 0x88);
    kerf_device_bands b = bands_of(t, &from->resident, &l->planes, &mine);
    if (encode_resident(t, &b, &l->planes, &l->stats, &mine)) {
        compare_resident(t, &mine);
        if (decodes) {
            decode_resident(t, &b, &from->resident);
            ok(kerf_dbuf_write(&from->resident, 0, from->p, b.dense.n, &error), "copy in", t->name);
        }
    }
    free(mine.all);
    free(t->reference.all);
    free(t->stats);
}

/* The type that a codec takes the bytes of a source as: some have scales in the type of the source,
 * and refuse all others. */
static kerf_dtype type_for(kerf_codec codec, kerf_dtype own)
{
    const kerf_dtype types[] = {own, KERF_BF16, KERF_F16};
    kerf_shape row = {2, {1, COLS}};
    for (int i = 0; i < 3; i++)
        if (kerf_codec_check(codec, &row, types[i], &error) == KERF_OK) return types[i];
    check(0, "no type is taken", codec.format->name, error.text);
    return own;
}

/* The twelfths through host memory, in pieces that two lanes take in turns; the rest in device
 * memory in one piece. */
static void check_many(kerf_codec codec, const large *l, uint64_t *elements)
{
    double started = now_s();
    for (int i = 0; i < SOURCES && now_s() - started < l->seconds; i++) {
        const source *from = &l->source[i];
        kerf_dtype dtype = type_for(codec, from->dtype);
        uint64_t n = from->elements * size_of(from->dtype) / size_of(dtype);
        kerf_shape flat = {2, {n / COLS, COLS}};
        kerf_shape stacked = {3, {n / COLS / STACKED_ROWS, STACKED_ROWS, COLS}};
        const kerf_shape *shape = from->rows ? &stacked : &flat;
        tensor t = {.codec = codec, .source = from->p, .dtype = dtype, .nan = KERF_NAN_SATURATE};
        kerf_codec_name(codec, t.name, sizeof t.name);
        if (i < STACKED_BF16)
            check_tensor(&t, shape,
                         codec.encoder == kerf_encoder_at(codec.format, 0) ? WHOLE : ENCODE);
        else
            check_resident(l, &t, from, shape);
        *elements += n;
    }
}

/* --- more than 2^31 elements, in device memory in one piece ----------------------------------- */

#define HUGE_ROWS 524800 /* x 4096: 2^31 + 2^21 elements */

typedef struct huge {
    uint8_t *p;
    size_t n;
    kerf_dbuf dense, all, stats;
} huge;

/* A part, and then the same again, but each of its own size. */
static void fill_huge(huge *h)
{
    size_t part = (size_t)64 << 20, parts = (h->n + part - 1) / part;
    const uint16_t *first = (const uint16_t *)h->p;
    fill_bell(h->p, KERF_BF16, part / 2, 9);
    KERF_IN_PARALLEL_ALWAYS
    for (size_t k = 1; k < parts; k++) {
        uint16_t *to = (uint16_t *)(h->p + k * part);
        size_t n = (h->n - k * part < part ? h->n - k * part : part) / 2;
        for (size_t i = 0; i < n; i++)
            to[i] = (uint16_t)(first[i] + (first[i] & 0x7fff ? k % 4 * 128 : 0));
    }
}

static int make_huge(huge *h)
{
    h->n = (size_t)HUGE_ROWS * COLS * 2;
    h->p = allocate(h->n);
    fill_huge(h);
    return ok(kerf_dbuf_alloc(gpu, h->n, &h->dense, &error), "allocation", "2^31") &&
           ok(kerf_dbuf_alloc(gpu, h->n / 2 + h->n / 8, &h->all, &error), "allocation", "2^31") &&
           ok(kerf_dbuf_alloc(gpu, sizeof(kerf_stats), &h->stats, &error), "allocation", "2^31");
}

static void check_huge(huge *h, const char *name, FILE *out)
{
    kerf_shape shape = {2, {HUGE_ROWS, COLS}};
    tensor t = {.dtype = KERF_BF16, .nan = KERF_NAN_SATURATE, .source = h->p};
    double started = now_s();
    uint64_t before = failures;
    if (!ok(kerf_codec_find(name, &t.codec, &error), "codec", name)) return;
    kerf_codec_name(t.codec, t.name, sizeof t.name);
    if (!ok(kerf_geometry_init(&t.g, t.codec.format, &shape, &error), "geometry", name)) return;
    t.stats = allocate(t.g.matrices * sizeof *t.stats);
    t.reference = make_planes(&t.g, 0x88);
    planes mine = make_planes(&t.g, 0x88);
    kerf_device_bands b = bands_of(&t, &h->dense, &h->all, &mine);
    if (ok(kerf_dbuf_write(&h->dense, 0, h->p, h->n, &error), "copy in", name) &&
        encode_resident(&t, &b, &h->all, &h->stats, &mine)) {
        compare_resident(&t, &mine);
        decode_resident(&t, &b, &h->dense);
    }
    printf("%-28s %12llu elements in one piece %s, %.1f s\n", t.name,
           (unsigned long long)t.g.elements, failures == before ? "same" : "DIFFERENT",
           now_s() - started);
    fflush(stdout);
    if (out) {
        fprintf(out, ",\n    {\"codec\": \"%s\", \"elements\": %llu, \"same\": %s}", t.name,
                (unsigned long long)t.g.elements, failures == before ? "true" : "false");
        fflush(out);
    }
    free(mine.all);
    free(t.reference.all);
    free(t.stats);
}

/* One with values per block, per matrix, per row; a nested sum; one that decodes 16 bits. */
static void check_huge_tensors(FILE *out)
{
    static const char *const names[] = {"nvfp4:4/6", "int8:amax", "nf4-dq:bnb-cpu", "mxfp6-e2m3",
                                        "int4-g32-asym"};
    huge h = {0};
    if (make_huge(&h))
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) check_huge(&h, names[i], out);
    kerf_dbuf_free(&h.dense);
    kerf_dbuf_free(&h.all);
    kerf_dbuf_free(&h.stats);
    free(h.p);
}

/* --- scales in tiles ----------------------------------------------------------------------------
 */

/* Every byte of a tile holds one scale or padding: scales that count from 1 on come once each, and
 * all the rest is zero. */
static void check_places(uint8_t *tiles, uint64_t matrices, uint64_t rows, uint64_t cols,
                         const char *name)
{
    uint64_t n = matrices * rows * cols, tiled = 0, sum = 0, want = 0, filled = 0;
    uint8_t *plain = allocate(n);
    for (uint64_t i = 0; i < n; i++) want += plain[i] = (uint8_t)(1 + i % 251);
    kerf_dbuf a = {0}, b = {0};
    ok(kerf_tiled_scale_bytes(matrices, rows, cols, &tiled, &error), "size", name);
    ok(kerf_dbuf_alloc(gpu, n, &a, &error), "allocation", name);
    ok(kerf_dbuf_alloc(gpu, tiled, &b, &error), "allocation", name);
    ok(kerf_dbuf_write(&a, 0, plain, n, &error), "copy in", name);
    memset(tiles, 0x7f, tiled);
    ok(kerf_dbuf_write(&b, 0, tiles, tiled, &error), "poison", name);
    ok(kerf_device_scales_to_tiles(gpu, matrices, rows, cols, (kerf_cspan){a.p, n},
                                   (kerf_span){b.p, tiled}, &error),
       "to tiles", name);
    ok(kerf_dbuf_read(&b, 0, tiles, tiled, &error), "copy out", name);
    for (uint64_t i = 0; i < tiled; i++) {
        sum += tiles[i];
        filled += tiles[i] != 0;
    }
    check(filled == n && sum == want, "a scale is not there once, or padding is not zero", name,
          "");
    kerf_dbuf_free(&a);
    kerf_dbuf_free(&b);
    free(plain);
}

/* The device's tiles are the host's, padding among them, and lead back to the scales. */
static void check_tiles(uint64_t matrices, uint64_t rows, uint64_t cols)
{
    uint64_t n = matrices * rows * cols, tiled = 0;
    kerf_dbuf a = {0}, b = {0};
    char name[64];
    snprintf(name, sizeof name, "tiles of %llu x %llu x %llu", (unsigned long long)matrices,
             (unsigned long long)rows, (unsigned long long)cols);
    ok(kerf_tiled_scale_bytes(matrices, rows, cols, &tiled, &error), "size", name);
    uint8_t *plain = allocate(n + 1), *want = allocate(tiled), *got = allocate(tiled + n);
    fill_patterns(plain, KERF_BF16, (n + 1) / 2, rows + 7 * cols);
    memset(want, 0x7f, tiled);
    memset(got, 0x7f, tiled);
    ok(kerf_scales_to_tiles(matrices, rows, cols, (kerf_cspan){plain, n}, (kerf_span){want, tiled},
                            &error),
       "to tiles on the host", name);
    ok(kerf_dbuf_alloc(gpu, n, &a, &error), "allocation", name);
    ok(kerf_dbuf_alloc(gpu, tiled, &b, &error), "allocation", name);
    ok(kerf_dbuf_write(&a, 0, plain, n, &error), "copy in", name);
    ok(kerf_dbuf_write(&b, 0, got, tiled, &error), "poison", name);
    ok(kerf_device_scales_to_tiles(gpu, matrices, rows, cols, (kerf_cspan){a.p, n},
                                   (kerf_span){b.p, tiled}, &error),
       "to tiles", name);
    ok(kerf_dbuf_read(&b, 0, got, tiled, &error), "copy out", name);
    check(memcmp(got, want, tiled) == 0, "other tiles than on the host", name, "");
    memset(got, 0x7f, n);
    ok(kerf_dbuf_write(&a, 0, got, n, &error), "poison", name);
    ok(kerf_device_scales_from_tiles(gpu, matrices, rows, cols, (kerf_cspan){b.p, tiled},
                                     (kerf_span){a.p, n}, &error),
       "from tiles", name);
    ok(kerf_dbuf_read(&a, 0, got, n, &error), "copy out", name);
    check(memcmp(got, plain, n) == 0, "tiles do not lead back", name, "");
    check_places(want, matrices, rows, cols, name);
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

/* Runs a command on a GPU of which all but `left` bytes are taken. */
static int run_beside(uint64_t left, char **command)
{
    kerf_dbuf hog[64];
    kerf_device_info info;
    int n = 0, code = 0;
    uint64_t part = (uint64_t)1 << 40;
    while (n < 64 && part >= 1 << 20 && kerf_device_describe(0, &info, &error) == KERF_OK) {
        uint64_t most = info.free_bytes > left ? info.free_bytes - left : 0;
        if (part > most) part = most;
        if (part < 1 << 20) break;
        if (kerf_dbuf_alloc(gpu, part, &hog[n], &error) == KERF_OK)
            n++;
        else
            part /= 2;
    }
    pid_t child;
    if (posix_spawn(&child, command[0], NULL, NULL, command, environ) != 0 ||
        waitpid(child, &code, 0) != child)
        code = 127 << 8;
    while (n > 0) kerf_dbuf_free(&hog[--n]);
    return WIFEXITED(code) ? WEXITSTATUS(code) : 128;
}

static void check_all_tiles(void)
{
    static const uint64_t cases[][3] = {
        {1, 128, 4},   {3, 130, 7}, {2, 1, 1},   {1, 4096, 256}, {1, 128, 3},  {1, 127, 4},
        {1, 129, 5},   {5, 32, 16}, {2, 33, 1},  {1, 1, 513},    {4, 256, 12}, {7, 31, 2},
        {1, 5120, 45}, {1, 0, 4},   {0, 128, 4}, {3, 96, 0},     {64, 2, 3},   {2, 1000, 129},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_tiles(cases[i][0], cases[i][1], cases[i][2]);
}

#define BRIEF 13 /* of the small tensors one in so many: all types are among them */

/* --- main ------------------------------------------------------------------------------------- */

/* One line per codec on stdout and, where wanted, in a file. */
static void report(FILE *out, const char *name, uint64_t elements, uint64_t digest, int same,
                   double seconds)
{
    static int rows;
    printf("%-28s %12llu elements %016llx %s, %.1f s\n", name, (unsigned long long)elements,
           (unsigned long long)digest, same ? "same" : "DIFFERENT", seconds);
    fflush(stdout);
    if (!out) return;
    fprintf(out,
            "%s\n    {\"codec\": \"%s\", \"elements\": %llu, \"digest\": \"%016llx\", "
            "\"same\": %s}",
            rows++ ? "," : "", name, (unsigned long long)elements, (unsigned long long)digest,
            same ? "true" : "false");
    fflush(out);
}

/* Slow on a processor; on a GPU block/ itself looks at the elements. */
static int is_search(kerf_codec c)
{
    return strcmp(c.encoder->name, "search") == 0 || strcmp(c.encoder->name, "sweep") == 0;
}

/* names: of formats, NULL behind the last; none: all of them. */
static int is_wanted(const kerf_format *f, char **names)
{
    for (char **n = names; n && *n; n++)
        if (strcmp(*n, f->name) == 0) return 1;
    return !names || !*names;
}

static void check_codecs(FILE *out, size_t step, const large *l, char **names)
{
    for (size_t i = 0; i < kerf_format_count(); i++) {
        const kerf_format *f = kerf_format_at(i);
        if (!is_wanted(f, names)) continue;
        for (size_t e = 0; e < kerf_encoder_count(f); e++) {
            kerf_codec codec = {f, kerf_encoder_at(f, e)};
            char name[64];
            double started = now_s();
            uint64_t elements = 0, before = failures, digest = check_small(codec, step, &elements);
            if (step == 1 && !is_search(codec)) check_few_bits(codec);
            if (l) check_many(codec, l, &elements);
            report(out, kerf_codec_name(codec, name, sizeof name), elements, digest,
                   failures == before, now_s() - started);
        }
    }
}

/* All bytes: small tensors, N elements, more than 2^31. */
static void check_full(uint64_t n, FILE *out, double seconds)
{
    large l = {.seconds = seconds};
    double started = now_s();
    make_large(&l, n);
    printf("sources made in %.1f s\n", now_s() - started);
    check_codecs(out, 1, &l, NULL);
    free_large(&l);
    if (n >= HUGE_TOO) check_huge_tensors(out);
}

static FILE *open_report(const char *path, const char *device)
{
    FILE *out = fopen(path, "w");
    if (out)
        fprintf(out,
                "{\n  \"schema\": \"kerf-gpu-equality-3\",\n  \"device\": \"%s\",\n"
                "  \"codecs\": [",
                device);
    return out;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "quick";
    kerf_device_info info;
    FILE *out = NULL;
    double started = now_s();
    mallopt(M_MMAP_MAX, 0); /* large buffers come and go: keep their pages */
    mallopt(M_TRIM_THRESHOLD, -1);
    if (kerf_device_describe(0, &info, &error) != KERF_OK ||
        kerf_device_open(0, &gpu, &error) != KERF_OK) {
        printf("0 passed, 0 failed, 1 skipped: %s\n", error.text);
        return 77;
    }
    if (strcmp(mode, "beside") == 0 && argc > 3) {
        int code = run_beside(strtoull(argv[2], NULL, 10) << 20, argv + 3);
        kerf_device_close(gpu);
        return code;
    }
    printf("%s, sm_%d%d, %.1f GiB\n", info.name, info.compute_major, info.compute_minor,
           (double)info.memory_bytes / (1 << 30));
    int only = strcmp(mode, "only") == 0;
    kerf_codec found;
    for (int i = 2; only && i < argc; i++)
        ok(kerf_codec_find(argv[i], &found, &error), "is no format", argv[i]);
    if (argc > 3 && !only && !(out = open_report(argv[3], info.name))) return 4;
    if (strcmp(mode, "full") == 0 && argc > 2)
        check_full(strtoull(argv[2], NULL, 10), out, argc > 4 ? strtod(argv[4], NULL) : 1e9);
    else if (strcmp(mode, "failures") == 0)
        check_failures();
    else
        check_codecs(out, strcmp(mode, "brief") == 0 ? BRIEF : 1, NULL, only ? argv + 2 : NULL);
    if (strcmp(mode, "failures") != 0) check_all_tiles();
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
