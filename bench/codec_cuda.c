/* codec_cuda.c - encode and decode on the GPU against what its memory can do.
 *
 *   codec_cuda [-o FILE.json] [-t BF16] [CODEC...]     e.g. codec_cuda nvfp4 nvfp4:4/6 mxfp4
 *
 * Ceiling: a device-to-device copy of the same buffers in the same run, bytes read plus bytes
 * written. Every measurement goes around SETS sets of buffers that are each many times the L2, so
 * all data is cold. Times are the median of REPEATS events. Bytes are those that must move:
 * the source once, or twice where a matrix is measured first, and every plane; for decode every
 * plane and the target. Before a codec is timed, planes and decoded values of its first bands are
 * compared with the processor's. Searches encode SEARCHED_ROWS; everything else has ROWS. GGUF's
 * blocks of two levels are decoded alone: CHECKED rows that the processor has encoded, repeated. */
#include <kerf/cuda.h>
#include <kerf/gemv_time.h>

#define PROGRAM "codec_cuda"
#include "numbers.h"
#include "or_die.h"

enum { SETS = 3, REPEATS = 15, WARM = 3 };
#define ROWS 65536
#define COLS 4096
#define SEARCHED_ROWS 2048 /* compute binds by far */
#define CHECKED 512        /* rows */

static kerf_device *gpu;
static cudaStream_t stream;
static cudaEvent_t begin, end;

/* Weights, planes, and where they are decoded to. */
typedef struct set {
    kerf_dbuf dense, all, back, stats;
    kerf_device_bands bands;
} set;

static set sets[SETS];
static uint8_t *weights; /* host: ROWS x COLS of the widest type */

/* A bell of standard deviation 0.02, as trained weights have. */
static void fill_weights(kerf_dtype t)
{
    size_t n = (size_t)ROWS * COLS;
    KERF_IN_PARALLEL
    for (size_t i = 0; i < n; i++) {
        uint64_t r = mix(i);
        float x = 0;
        for (int k = 0; k < 4; k++) x += (float)(int16_t)(r >> 16 * k);
        x *= 5.3e-7f;
        uint32_t u;
        memcpy(&u, &x, 4);
        uint16_t half = (uint16_t)(u >> 16);
        if (t == KERF_F16)
            half = (uint16_t)((u >> 16 & 0x8000) | ((u & 0x7fffffff) < 0x38800000
                                                        ? 0
                                                        : ((u & 0x7fffffff) - 0x38000000) >> 13));
        if (t == KERF_F32)
            memcpy(weights + 4 * i, &u, 4);
        else
            memcpy(weights + 2 * i, &half, 2);
    }
}

/* --- timing ----------------------------------------------------------------------------------- */

typedef void (*work)(const set *s, const kerf_encoder *e);

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static double median_us(work run, const kerf_encoder *e)
{
    float ms[REPEATS];
    for (int i = 0; i < WARM + REPEATS; i++) {
        need_cuda(cudaEventRecord(begin, stream), "event");
        run(&sets[i % SETS], e);
        need_cuda(cudaEventRecord(end, stream), "event");
        need_cuda(cudaEventSynchronize(end), "kernel");
        if (i >= WARM) need_cuda(cudaEventElapsedTime(&ms[i - WARM], begin, end), "event");
    }
    qsort(ms, REPEATS, sizeof ms[0], compare_floats);
    return 1000.0 * (double)ms[REPEATS / 2];
}

static size_t copied_bytes;
static void run_copy(const set *s, const kerf_encoder *e)
{
    (void)e;
    need_cuda(cudaMemcpyAsync(s->all.p, s->dense.p, copied_bytes, cudaMemcpyDeviceToDevice, stream),
              "copy");
}
static int is_encoded_here(const kerf_format *f)
{
    return f->geometry != KERF_GROUP_SUPER;
}
/* Of such that are not: the first rows, again and again. */
static void repeat_rows(const set *s, const kerf_encoder *e)
{
    const kerf_geometry *g = s->bands.geometry;
    const uint64_t bands = g->bands * CHECKED / g->shape.dim[0];
    const size_t size = kerf_dtype_bits(s->bands.dtype) / 8;
    const kerf_cspan from = {weights, kerf_band_elements(g, 0, bands).count * size};
    kerf_span part[KERF_PLANES] = {{NULL, kerf_band_bytes(g, KERF_PLANE_CODES, 0, bands).count}};
    if (!(part[0].p = malloc(part[0].n))) die("codes", "out of memory");
    need(kerf_encode(g, e, NULL, 0, bands, from, s->bands.dtype, part, NULL, &error), "encode");
    need(kerf_dbuf_write(&s->all, 0, part[0].p, part[0].n, &error), "codes");
    need(kerf_dbuf_repeat(&s->all, 0, part[0].n, g->plane[0].bytes, &error), "codes");
    free(part[0].p);
}
static void run_encode(const set *s, const kerf_encoder *e)
{
    if (!is_encoded_here(s->bands.geometry->format)) {
        repeat_rows(s, e);
        return;
    }
    if (kerf_needs_stats(s->bands.geometry)) {
        need_cuda(cudaMemsetAsync(s->stats.p, 0, s->stats.n, stream), "memset");
        need(kerf_device_measure(gpu, &s->bands, s->stats.p, &error), "measure");
    }
    need(kerf_device_encode(gpu, &s->bands, e, s->stats.p, &error), "encode");
}
static void run_decode(const set *s, const kerf_encoder *e)
{
    kerf_device_bands b = s->bands;
    (void)e;
    b.dense = (kerf_span){s->back.p, s->back.n};
    need(kerf_device_decode(gpu, &b, &error), "decode");
}

/* --- one codec -------------------------------------------------------------------------------- */

static void place_planes(const kerf_geometry *g, kerf_dtype t)
{
    for (int i = 0; i < SETS; i++) {
        kerf_device_bands b = {.geometry = g, .b1 = g->bands, .dtype = t};
        size_t at = 0;
        b.dense = (kerf_span){sets[i].dense.p, sets[i].dense.n};
        for (int k = 0; k < KERF_PLANES; k++) {
            b.plane[k] = (kerf_span){(uint8_t *)sets[i].all.p + at, g->plane[k].bytes};
            at += (g->plane[k].bytes + 255) / 256 * 256;
        }
        if (at > sets[i].all.n) die("planes", "larger than their buffer");
        sets[i].bands = b;
    }
}

/* The first bands by the processor, with the GPU's statistics; both results must agree. */
static void check_codec(const char *name, kerf_codec c, const kerf_geometry *g, kerf_dtype t)
{
    uint64_t bands = g->bands * CHECKED / g->shape.dim[0],
             n = kerf_band_elements(g, 0, bands).count;
    size_t size = kerf_dtype_bits(t) / 8;
    kerf_span mine[KERF_PLANES];
    kerf_cspan const_mine[KERF_PLANES];
    kerf_stats stats = {0};
    run_encode(&sets[0], c.encoder);
    need(kerf_device_wait(gpu, NULL, &error), "encode");
    need(kerf_dbuf_read(&sets[0].stats, 0, &stats, sizeof stats, &error), "statistics");
    for (int k = 0; k < KERF_PLANES; k++) {
        mine[k].n = kerf_band_bytes(g, (kerf_plane_id)k, 0, bands).count;
        mine[k].p = calloc(mine[k].n + 1, 1);
        const_mine[k] = (kerf_cspan){mine[k].p, mine[k].n};
    }
    need(kerf_encode(g, c.encoder, &stats, 0, bands, (kerf_cspan){weights, n * size}, t, mine, NULL,
                     &error),
         "reference encode");
    uint8_t *got = malloc(n * 4 + 1), *want = malloc(n * 4 + 1);
    if (!got || !want) die("check", "out of memory");
    for (int k = 0; k < KERF_PLANES; k++) {
        size_t at = (size_t)((uint8_t *)sets[0].bands.plane[k].p - (uint8_t *)sets[0].all.p);
        need(kerf_dbuf_read(&sets[0].all, at, got, mine[k].n, &error), "planes");
        if (memcmp(got, mine[k].p, mine[k].n) != 0) die(name, "encodes differently");
    }
    run_decode(&sets[0], c.encoder);
    need(kerf_device_wait(gpu, NULL, &error), "decode");
    need(kerf_dbuf_read(&sets[0].back, 0, got, n * size, &error), "values");
    need(kerf_decode(g, 0, bands, const_mine, (kerf_span){want, n * size}, t, NULL, &error),
         "reference decode");
    if (memcmp(got, want, n * size) != 0) die(name, "decodes differently");
    for (int k = 0; k < KERF_PLANES; k++) free(mine[k].p);
    free(got);
    free(want);
}

static void send_weights(kerf_dtype t)
{
    for (int i = 0; i < SETS; i++)
        need(kerf_dbuf_write(&sets[i].dense, 0, weights,
                             (size_t)ROWS * COLS * (kerf_dtype_bits(t) / 8), &error),
             "weights");
}

/* --- results ---------------------------------------------------------------------------------- */

enum { TYPES = 3, MOST_CODECS = 512 };
static const kerf_dtype types[TYPES] = {KERF_BF16, KERF_F16, KERF_F32};

/* us 0: not measured, for the codec does not take this type. */
typedef struct timing {
    double us, share;
    uint64_t bytes;
} timing;

static struct {
    char codec[64];
    uint64_t elements;
    timing time[2][TYPES]; /* encode, decode */
} results[MOST_CODECS];
static size_t result_count;

static void report(const char *codec, int decodes, kerf_dtype t, double us, uint64_t bytes,
                   uint64_t elements, double copy_gbps)
{
    size_t i = 0;
    int k = 0;
    double gbps = (double)bytes / us * 1e-3;
    printf("%-24s %-6s %-4s %9.1f us %8.0f GB/s %5.2f of copy %8.1f Gelem/s\n", codec,
           decodes ? "decode" : "encode", kerf_dtype_name(t), us, gbps, gbps / copy_gbps,
           (double)elements / us * 1e-3);
    fflush(stdout);
    while (i < result_count && strcmp(results[i].codec, codec) != 0) i++;
    if (i == MOST_CODECS) die(codec, "one codec too many");
    if (i == result_count) {
        result_count++;
        snprintf(results[i].codec, sizeof results[i].codec, "%s", codec);
        results[i].elements = elements;
    }
    while (types[k] != t) k++;
    results[i].time[decodes][k] = (timing){us, gbps / copy_gbps, bytes};
}

static void write_timings(FILE *out, const char *name, const timing time[TYPES])
{
    int n = 0;
    for (int k = 0; k < TYPES; k++) {
        if (time[k].us == 0) continue;
        fprintf(out, "%s\"%s\": [%.1f, %llu, %.3f]", n++ ? ", " : name, kerf_dtype_name(types[k]),
                time[k].us, (unsigned long long)time[k].bytes, time[k].share);
    }
    if (n) fprintf(out, "}");
}

/* One line per codec. */
static void write_results(FILE *out)
{
    fprintf(out, "  \"columns\": [\"us\", \"bytes\", \"share_of_copy\"],\n  \"results\": [");
    for (size_t i = 0; i < result_count; i++) {
        fprintf(out, "%s\n    {\"codec\": \"%s\", \"elements\": %llu", i ? "," : "",
                results[i].codec, (unsigned long long)results[i].elements);
        write_timings(out, ", \"encode\": {", results[i].time[0]);
        write_timings(out, ", \"decode\": {", results[i].time[1]);
        fprintf(out, "}");
    }
    fprintf(out, "\n  ]\n}\n");
}

static void bench_codec(kerf_codec c, kerf_dtype t, double copy_gbps)
{
    int searched = strcmp(c.encoder->name, "search") == 0 || strcmp(c.encoder->name, "sweep") == 0;
    kerf_shape shape = {2, {searched ? SEARCHED_ROWS : ROWS, COLS}};
    kerf_geometry g;
    char name[64];
    if (kerf_codec_check(c, &shape, t, &error) != KERF_OK) return; /* not from this type */
    need(kerf_geometry_init(&g, c.format, &shape, &error), "geometry");
    uint64_t dense = g.elements * (kerf_dtype_bits(t) / 8);
    kerf_codec_name(c, name, sizeof name);
    place_planes(&g, t);
    check_codec(name, c, &g, t);
    double us;
    if (is_encoded_here(c.format)) {
        us = median_us(run_encode, c.encoder);
        report(name, 0, t, us, g.bytes + dense * (kerf_needs_stats(&g) ? 2 : 1), g.elements,
               copy_gbps);
    } else {
        for (int i = 1; i < SETS; i++) run_encode(&sets[i], c.encoder);
    }
    if (c.encoder != kerf_encoder_at(c.format, 0)) return;
    if (searched) { /* decoding wants the size of all others */
        shape.dim[0] = ROWS;
        need(kerf_geometry_init(&g, c.format, &shape, &error), "geometry");
        dense = g.elements * (kerf_dtype_bits(t) / 8);
        place_planes(&g, t);
        for (int i = 0; i < SETS; i++) run_encode(&sets[i], kerf_encoder_at(c.format, 1));
    }
    us = median_us(run_decode, c.encoder);
    report(name, 1, t, us, g.bytes + dense, g.elements, copy_gbps);
}

static void bench_all(kerf_dtype t, double copy_gbps, int n, char **names)
{
    for (size_t i = 0; i < kerf_format_count(); i++) {
        const kerf_format *f = kerf_format_at(i);
        for (size_t e = 0; e < (is_encoded_here(f) ? kerf_encoder_count(f) : 1); e++) {
            kerf_codec c = {f, kerf_encoder_at(f, e)};
            char name[64];
            int wanted = n == 0;
            kerf_codec_name(c, name, sizeof name);
            for (int k = 0; k < n; k++)
                wanted |= strcmp(names[k], name) == 0 || (e == 0 && strcmp(names[k], f->name) == 0);
            if (wanted) bench_codec(c, t, copy_gbps);
        }
    }
}

/* --- main ------------------------------------------------------------------------------------- */

static void allocate_all(size_t room)
{
    weights = malloc(room);
    if (!weights) die("weights", "out of memory");
    for (int i = 0; i < SETS; i++) {
        need(kerf_dbuf_alloc(gpu, room, &sets[i].dense, &error), "allocation");
        need(kerf_dbuf_alloc(gpu, room + (1 << 20), &sets[i].all, &error), "allocation");
        need(kerf_dbuf_alloc(gpu, room, &sets[i].back, &error), "allocation");
        need(kerf_dbuf_alloc(gpu, sizeof(kerf_stats), &sets[i].stats, &error), "allocation");
        need_cuda(cudaMemset(sets[i].dense.p, 1, room), "memset");
    }
}

static void free_all(void)
{
    for (int i = 0; i < SETS; i++) {
        kerf_dbuf_free(&sets[i].dense);
        kerf_dbuf_free(&sets[i].all);
        kerf_dbuf_free(&sets[i].back);
        kerf_dbuf_free(&sets[i].stats);
    }
    free(weights);
}

static double copy_gbps_now(void)
{
    return 2.0 * (double)copied_bytes / median_us(run_copy, NULL) * 1e-3;
}

int main(int argc, char **argv)
{
    kerf_device_info info;
    FILE *out = NULL;
    kerf_dtype only = KERF_DTYPE_NONE;
    for (; argc > 2 && argv[1][0] == '-'; argc -= 2, argv += 2) {
        if (strcmp(argv[1], "-t") == 0) only = kerf_dtype_find(argv[2]);
        if (strcmp(argv[1], "-o") != 0) continue;
        out = fopen(argv[2], "w");
        if (!out) die(argv[2], "cannot be written");
    }
    need(kerf_device_describe(0, &info, &error), "GPU");
    need(kerf_device_open(0, &gpu, &error), "GPU");
    stream = kerf_device_stream(gpu);
    need_cuda(cudaEventCreate(&begin), "event");
    need_cuda(cudaEventCreate(&end), "event");
    copied_bytes = (size_t)ROWS * COLS * 2;
    allocate_all(2 * copied_bytes);
    double copy_gbps = copy_gbps_now();
    printf("%s: copy %.0f GB/s read + write, %zu MiB\n", info.name, copy_gbps, copied_bytes >> 20);
    for (int i = 0; i < TYPES; i++) {
        if (only != KERF_DTYPE_NONE && types[i] != only) continue;
        fill_weights(types[i]);
        send_weights(types[i]);
        bench_all(types[i], copy_gbps, argc - 1, argv + 1);
    }
    double again = copy_gbps_now();
    printf("copy again: %.0f GB/s\n", again);
    if (out) {
        fprintf(out,
                "{\n  \"schema\": \"kerf-bench-codec-cuda-3\",\n  \"device\": \"%s\",\n"
                "  \"rows\": %d, \"searched_rows\": %d, \"cols\": %d, \"sets\": %d, "
                "\"repeats\": %d,\n  \"copy_bytes\": %zu, \"copy_gbps\": %.1f, "
                "\"copy_gbps_at_end\": %.1f,\n",
                info.name, ROWS, SEARCHED_ROWS, COLS, SETS, REPEATS, copied_bytes, copy_gbps,
                again);
        write_results(out);
        if (fclose(out) != 0) die("results", "cannot be written");
    }
    free_all();
    kerf_device_close(gpu);
    return 0;
}
