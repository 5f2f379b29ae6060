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
#include "equal_calls.h"
#include "equal_large.h"

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
            if (l && f->geometry != KERF_GROUP_SUPER) /* which the processor encodes */
                check_many(codec, l, &elements);
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
#ifdef __GLIBC__
    mallopt(M_MMAP_MAX, 0); /* large buffers come and go: keep their pages */
    mallopt(M_TRIM_THRESHOLD, -1);
#endif
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
