/* instructions.c - what one element costs in instructions, under callgrind.
 *
 * Encodes with every codec, and decodes every format, a little of bfloat16 on one thread, and has
 * callgrind write one profile per step, named after it. Unlike time, the number of instructions is
 * the same in every run: it shows a loop of which a change of the source or of a flag no longer
 * makes vectors. Valgrind knows no AVX-512, so these are figures of the AVX2 backend.
 * instructions.sh runs this, and writes or checks instructions.json. */
#include "harness.h"

#include <kerf/codec.h>

#include <stdlib.h>
#include <string.h>
#include <valgrind/callgrind.h>

enum { ROWS = 4, COLS = 4096 };

static void check(kerf_status s, const kerf_error *err)
{
    if (s != KERF_OK) bench_die("%s", err->text);
}

static void begin(void)
{
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
}

/* `step` is what the profile is called. */
static void end(const char *step)
{
    CALLGRIND_DUMP_STATS_AT(step);
    CALLGRIND_STOP_INSTRUMENTATION;
}

static void count(const char *text, const void *source, void *target)
{
    kerf_error err = {0};
    kerf_codec c;
    kerf_geometry g;
    kerf_stats stats = {0};
    kerf_shape shape = {2, {ROWS, COLS}};
    kerf_exec exec = {.threads = 1};
    kerf_cspan src = {source, (size_t)ROWS * COLS * 2}, in[KERF_PLANES];
    kerf_span plane[KERF_PLANES], dst = {target, src.n};
    char name[96], codec[64];
    check(kerf_codec_find(text, &c, &err), &err);
    check(kerf_geometry_init(&g, c.format, &shape, &err), &err);
    for (int p = 0; p < KERF_PLANES; p++) {
        plane[p] = (kerf_span){bench_alloc((size_t)g.plane[p].bytes + 1), (size_t)g.plane[p].bytes};
        in[p] = (kerf_cspan){plane[p].p, plane[p].n};
    }
    begin();
    if (kerf_needs_stats(&g))
        check(kerf_measure(&g, 0, g.bands, src, KERF_BF16, &stats, &exec, &err), &err);
    check(kerf_encode(&g, c.encoder, &stats, 0, g.bands, src, KERF_BF16, plane, &exec, &err), &err);
    snprintf(name, sizeof name, "encode/%s", kerf_codec_name(c, codec, sizeof codec));
    end(name);
    if (c.encoder == kerf_encoder_at(c.format, 0)) {
        begin();
        check(kerf_decode(&g, 0, g.bands, in, dst, KERF_BF16, &exec, &err), &err);
        snprintf(name, sizeof name, "decode/%s", c.format->name);
        end(name);
    }
    for (int p = 0; p < KERF_PLANES; p++) free(plane[p].p);
}

/* --version: elements, kind of build, compiler. */
int main(int argc, char **argv)
{
    size_t n = (size_t)ROWS * COLS;
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        printf("%zu %s %s\n", n, KERF_BUILD_TYPE, __VERSION__);
        return 0;
    }
    void *source = bench_alloc(2 * n), *target = bench_alloc(2 * n);
    if (!RUNNING_ON_VALGRIND) bench_die("instructions: run it by way of bench/instructions.sh");
    bench_weights(source, n, 'b');
    for (size_t f = 0; f < kerf_format_count(); f++) {
        const kerf_format *format = kerf_format_at(f);
        if (format->geometry == KERF_GROUP_SUPER) continue; /* the reference's, without vectors */
        for (size_t e = 0; e < kerf_encoder_count(format); e++) {
            char text[64];
            kerf_codec c = {format, kerf_encoder_at(format, e)};
            kerf_error err = {0};
            kerf_shape shape = {2, {ROWS, COLS}};
            if (kerf_codec_check(c, &shape, KERF_BF16, &err) == KERF_OK)
                count(kerf_codec_name(c, text, sizeof text), source, target);
        }
    }
    free(source);
    free(target);
    return 0;
}
