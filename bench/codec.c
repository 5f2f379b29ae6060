/* codec.c - how fast numbers become bytes and bytes numbers: one thread, sources of 64 MiB.
 *
 *   bench_codec [-b BACKEND] [-t b|h|f] [-n TRIALS] [-o FILE] [CODEC...]
 *
 * Without CODEC: the default encoder of every format, and some more. Encoding is given as a share
 * of reading the source, decoding as a share of copying the target; formats that need the amax of
 * a matrix first are timed with that pass. Figures are elements per second. */
#include "harness.h"

#include <kerf/codec.h>

#include <stdlib.h>
#include <string.h>

#define SOURCE_BYTES ((size_t)64 << 20)
#define COLS 4096u
#define MAX_TRIALS 64

typedef struct options {
    const char *backend, *path;
    char type;
    size_t trials;
} options;

typedef struct work {
    kerf_geometry g;
    kerf_codec codec;
    kerf_exec exec;
    kerf_dtype dtype;
    kerf_cspan source;
    kerf_span plane[KERF_PLANES], target;
} work;

static void check(kerf_status s, const kerf_error *err)
{
    if (s != KERF_OK) bench_die("%s", err->text);
}

static void encode_bands(work *w, uint64_t bands)
{
    kerf_error err = {0};
    kerf_stats stats = {0};
    if (kerf_needs_stats(&w->g))
        check(kerf_measure(&w->g, 0, bands, w->source, w->dtype, &stats, &w->exec, &err), &err);
    check(kerf_encode(&w->g, w->codec.encoder, &stats, 0, bands, w->source, w->dtype, w->plane,
                      &w->exec, &err),
          &err);
}

static void decode_bands(work *w, uint64_t bands)
{
    kerf_error err = {0};
    kerf_cspan planes[KERF_PLANES];
    for (int p = 0; p < KERF_PLANES; p++) planes[p] = (kerf_cspan){w->plane[p].p, w->plane[p].n};
    check(kerf_decode(&w->g, 0, bands, planes, w->target, w->dtype, &w->exec, &err), &err);
}

/* Times `step` on as many bands as take no more than about half a second, against a ceiling. */
static void time_step(bench_report *r, work *w, const options *o, int encode)
{
    double rate[MAX_TRIALS], share[MAX_TRIALS];
    uint64_t bands = w->g.bands < 64 ? w->g.bands : w->g.bands / 64;
    double start = bench_cpu_s();
    if (encode)
        encode_bands(w, bands);
    else
        decode_bands(w, bands);
    if ((bench_cpu_s() - start) * 64 < 0.5) bands = w->g.bands;
    uint64_t elements = kerf_band_elements(&w->g, 0, bands).count;
    size_t bytes = (size_t)elements * (kerf_dtype_bits(w->dtype) / 8);
    if (encode) encode_bands(w, w->g.bands); /* the planes of decode, and a round to warm up */
    for (size_t i = 0; i < o->trials; i++) {
        double ceiling = encode ? bench_read_s(w->source.p, w->source.n)
                                : bench_copy_s(w->target.p, w->source.p, w->source.n);
        ceiling = (double)w->source.n / ceiling;
        start = bench_cpu_s();
        if (encode)
            encode_bands(w, bands);
        else
            decode_bands(w, bands);
        double s = bench_cpu_s() - start;
        rate[i] = (double)elements / s;
        share[i] = (double)bytes / s / ceiling;
    }
    char name[96], codec[64];
    snprintf(name, sizeof name, "%s/%s/%s/%s", encode ? "encode" : "decode",
             encode ? kerf_codec_name(w->codec, codec, sizeof codec) : w->g.format->name,
             kerf_dtype_name(w->dtype), o->backend);
    bench_add(r, name, "elements/s", bench_summary(rate, o->trials), encode ? "read" : "copy",
              bench_summary(share, o->trials).median);
}

static void time_codec(bench_report *r, const char *text, const options *o, void *source,
                       void *target)
{
    kerf_error err = {0};
    work w = {.dtype = o->type == 'f' ? KERF_F32 : o->type == 'h' ? KERF_F16 : KERF_BF16};
    check(kerf_codec_find(text, &w.codec, &err), &err);
    unsigned size = kerf_dtype_bits(w.dtype) / 8;
    kerf_shape shape = {2, {SOURCE_BYTES / size / COLS, COLS}};
    check(kerf_geometry_init(&w.g, w.codec.format, &shape, &err), &err);
    w.exec.threads = 1;
    w.exec.backend = o->backend;
    w.source = (kerf_cspan){source, SOURCE_BYTES};
    w.target = (kerf_span){target, SOURCE_BYTES};
    for (int p = 0; p < KERF_PLANES; p++) {
        size_t n = (size_t)w.g.plane[p].bytes;
        w.plane[p] = (kerf_span){n ? bench_alloc(n) : NULL, n};
    }
    time_step(r, &w, o, 1);
    if (!strchr(text, ':')) time_step(r, &w, o, 0);
    for (int p = 0; p < KERF_PLANES; p++) free(w.plane[p].p);
}

int main(int argc, char **argv)
{
    static const char *const more[] = {"mxfp4:floor", "mxfp8-e4m3:floor", "nvfp4:4/6",
                                       "nvfp4:4/6-mae", "nvfp4:sweep"};
    options o = {kerf_backend_at(kerf_backend_count() - 1), "-", 'b', 9};
    int first = 1;
    for (; first + 1 < argc && argv[first][0] == '-'; first += 2) {
        const char *value = argv[first + 1];
        switch (argv[first][1]) {
        case 'b': o.backend = value; break;
        case 't': o.type = value[0]; break;
        case 'n': o.trials = (size_t)strtoul(value, NULL, 10); break;
        case 'o': o.path = value; break;
        default: bench_die("bench_codec [-b BACKEND] [-t b|h|f] [-n TRIALS] [-o FILE] [CODEC...]");
        }
    }
    if (o.trials < 1 || o.trials > MAX_TRIALS) bench_die("from 1 to %d trials", MAX_TRIALS);
    void *source = bench_alloc(SOURCE_BYTES), *target = bench_alloc(SOURCE_BYTES);
    bench_weights(source, SOURCE_BYTES / (o.type == 'f' ? 4 : 2), o.type);
    bench_report *r = bench_open("codec");
    for (int i = first; i < argc; i++) time_codec(r, argv[i], &o, source, target);
    for (size_t i = 0; first >= argc && i < kerf_format_count(); i++)
        time_codec(r, kerf_format_at(i)->name, &o, source, target);
    for (size_t i = 0; first >= argc && i < sizeof more / sizeof more[0]; i++)
        time_codec(r, more[i], &o, source, target);
    bench_close(r, o.path);
    return 0;
}
