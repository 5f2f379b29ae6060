/* file.c - kerf on files against cp on the same file and disk.
 *
 *   bench_file [-k KERF] [-d FOLDER] [-m MIB] [-n TRIALS] [-o FILE] [-g cuda|cuda:all]
 *
 * Writes a checkpoint of MIB mebibytes (2048) of bfloat16 into FOLDER, which should lie on a disk
 * and not in memory, and removes it afterwards. The source is in the page cache and nothing waits
 * to be written when a command starts; cp ends with an fsync of its copy, as kerf's outputs do.
 * Each trial runs cp and every quantize in turn, so that a share compares neighbours in time.
 * Verify runs beside reading both files, from the page cache and from the disk.
 * Figures are bytes of the source per second on the wall. Exit 1 when a quantize took more than 256
 * MiB of memory. With -g the codecs run on a GPU: from the page cache to it and back to disk; times
 * have the start of CUDA in them, and its memory is not counted. */
#include "harness.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIDE 4096u
#define TENSOR_BYTES ((size_t)SIDE * SIDE * 2)
#define MAX_TRIALS 32
#define MOST_MEMORY_MIB 256.0

static const char *const codecs[] = {"nvfp4", "mxfp4", "int4-g128", "nvfp4:4/6"};
enum { CODECS = sizeof codecs / sizeof codecs[0] };

/* What is scored: each by itself, and all together. */
static const char *const scored[] = {"fp8-e4m3",  "mxfp8-e4m3",   "mxfp6-e2m3", "mxfp4",
                                     "nvfp4",     "nvfp4:4/6",    "nf4",        "int8",
                                     "int4-g128", "int4-g32-asym"};
enum { SCORED = sizeof scored / sizeof scored[0] };

typedef struct work {
    const char *kerf, *folder, *report, *device;
    size_t tensors, trials;
    double bytes;
    char source[512], copy[512], out[512];
} work;

typedef struct cost {
    double seconds, mib; /* on the wall; the most memory that was in use */
} cost;

/* --- the source --------------------------------------------------------------------------------
 */

static void put(FILE *f, const void *p, size_t n, const char *path)
{
    if (fwrite(p, 1, n, f) != n) bench_die("%s: cannot be written", path);
}

static void write_source(const work *w)
{
    size_t room = w->tensors * 128 + 64, n = 0;
    char *header = bench_alloc(room);
    void *data = bench_alloc(TENSOR_BYTES);
    FILE *f = fopen(w->source, "wb");
    if (!f) bench_die("%s: cannot be written", w->source);
    for (size_t i = 0; i < w->tensors; i++)
        n += (size_t)snprintf(header + n, room - n,
                              "%c\"model.layers.%zu.mlp.down_proj.weight\":{\"dtype\":\"BF16\","
                              "\"shape\":[%u,%u],\"data_offsets\":[%zu,%zu]}",
                              i ? ',' : '{', i, SIDE, SIDE, i * TENSOR_BYTES,
                              (i + 1) * TENSOR_BYTES);
    header[n++] = '}';
    while (n % 8) header[n++] = ' ';
    uint64_t length = n;
    put(f, &length, 8, w->source);
    put(f, header, n, w->source);
    bench_weights(data, TENSOR_BYTES / 2, 'b');
    for (size_t i = 0; i < w->tensors; i++) put(f, data, TENSOR_BYTES, w->source);
    if (fclose(f) != 0) bench_die("%s: cannot be written", w->source);
    free(header);
    free(data);
}

/* Seconds to read a file in large pieces: afterwards it is in the page cache. */
static double read_file(const char *path)
{
    static char *buffer;
    const size_t size = (size_t)8 << 20;
    if (!buffer) buffer = bench_alloc(size);
    double start = bench_wall_s();
    int fd = open(path, O_RDONLY);
    ssize_t got;
    do got = fd < 0 ? -1 : read(fd, buffer, size);
    while (got > 0);
    if (got < 0) bench_die("%s: cannot be read", path);
    close(fd);
    return bench_wall_s() - start;
}

/* Takes a file out of the page cache. */
static void forget_file(const char *path)
{
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fsync(fd) != 0 || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0)
        bench_die("%s: stays in the page cache", path);
    close(fd);
}

/* --- commands ----------------------------------------------------------------------------------
 */

/* Runs a command to its end, and then syncs `target` where there is one. */
static cost run(const char *const *argv, const char *target)
{
    struct rusage used;
    int status = 0;
    sync();
    double start = bench_wall_s();
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        dup2(null, 2);
        execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, &used) != child || status != 0)
        bench_die("%s %s: failed (%d)", argv[0], argv[1], status);
    if (target) {
        int fd = open(target, O_RDONLY);
        if (fd < 0 || fsync(fd) != 0) bench_die("%s: cannot be synced", target);
        close(fd);
    }
    cost c = {bench_wall_s() - start, (double)used.ru_maxrss / 1024};
    return c;
}

static cost run_cp(const work *w)
{
    const char *const argv[] = {"cp", w->source, w->copy, NULL};
    cost c = run(argv, w->copy);
    unlink(w->copy);
    return c;
}

static cost run_quantize(const work *w, const char *codec)
{
    const char *const argv[] = {w->kerf, "quantize", w->source,  "-f",      codec,
                                "-o",    w->out,     "--device", w->device, NULL};
    return run(argv, NULL);
}

/* --- results -----------------------------------------------------------------------------------
 */

/* Seconds of each trial become a rate, and a share of what the ceiling took beside it. */
static void report(bench_report *r, const work *w, const char *name, size_t trials,
                   const double *seconds, const char *ceiling, const double *ceiling_seconds)
{
    double rate[MAX_TRIALS], share[MAX_TRIALS];
    for (size_t i = 0; i < trials; i++) {
        rate[i] = w->bytes / seconds[i];
        share[i] = ceiling_seconds[i] / seconds[i];
    }
    double median = bench_summary(share, trials).median;
    bench_add(r, name, "bytes/s", bench_summary(rate, trials), ceiling, median);
    if (ceiling) fprintf(stderr, "%44s %.3f of the time of %s\n", "", 1 / median, ceiling);
}

static int is_on_gpu(const work *w)
{
    return strcmp(w->device, "cpu") != 0;
}

/* Returns the most memory of any quantize by the processor. */
static double time_quantize(bench_report *r, const work *w, double cp[MAX_TRIALS])
{
    double took[CODECS][MAX_TRIALS], most[CODECS] = {0}, largest = 0;
    for (size_t i = 0; i < w->trials; i++) {
        cp[i] = run_cp(w).seconds;
        for (size_t c = 0; c < CODECS; c++) {
            cost used = run_quantize(w, codecs[c]);
            took[c][i] = used.seconds;
            if (used.mib > most[c]) most[c] = used.mib;
            unlink(w->out);
        }
    }
    report(r, w, "cp", w->trials, cp, NULL, cp);
    for (size_t c = 0; c < CODECS; c++) {
        char name[64];
        snprintf(name, sizeof name, "quantize/%s", codecs[c]);
        report(r, w, name, w->trials, took[c], "cp", cp);
        if (is_on_gpu(w)) continue;
        snprintf(name, sizeof name, "memory/quantize/%s", codecs[c]);
        bench_add(r, name, "MiB", bench_summary(&most[c], 1), NULL, 0);
        if (most[c] > largest) largest = most[c];
    }
    return largest;
}

static double run_score(const work *w, const char *list)
{
    const char *const argv[] = {w->kerf, "score", w->source, "-f", list, NULL};
    return run(argv, NULL).seconds;
}

/* Once: it is ten measurements long, beside the ten quantizes that write the same bytes. */
static void time_score(bench_report *r, const work *w, double cp[MAX_TRIALS])
{
    char list[512] = "", name[64];
    double quantizes = 0, beside = bench_summary(cp, w->trials).median, took;
    for (size_t i = 0; i < SCORED; i++) {
        unlink(w->out);
        const double quantize = run_quantize(w, scored[i]).seconds;
        quantizes += quantize;
        took = run_score(w, scored[i]);
        snprintf(name, sizeof name, "score/%s", scored[i]);
        report(r, w, name, 1, &took, "quantize", &quantize);
        const size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", n ? "," : "", scored[i]);
    }
    took = run_score(w, list);
    report(r, w, "score/ten formats", 1, &took, "cp", &beside);
    report(r, w, "score/ten formats, beside quantize", 1, &took, "ten quantizes", &quantizes);
}

static void time_verify(bench_report *r, const work *w)
{
    const char *const verify[] = {w->kerf,    "verify",  w->source, w->out,
                                  "--device", w->device, NULL};
    double took[MAX_TRIALS], reads[MAX_TRIALS];
    run_quantize(w, "nvfp4");
    for (int cold = 0; cold < 2; cold++) {
        for (size_t i = 0; i < w->trials; i++) {
            if (cold) forget_file(w->source), forget_file(w->out);
            reads[i] = read_file(w->source) + read_file(w->out);
            if (cold) forget_file(w->source), forget_file(w->out);
            took[i] = run(verify, NULL).seconds;
        }
        report(r, w, cold ? "verify/nvfp4, from disk" : "verify/nvfp4", w->trials, took, "read",
               reads);
    }
}

static void choose_paths(work *w)
{
    struct {
        char *path;
        const char *name;
    } file[] = {{w->source, "source"}, {w->copy, "copy"}, {w->out, "out"}};
    for (size_t i = 0; i < sizeof file / sizeof file[0]; i++)
        if (snprintf(file[i].path, sizeof w->out, "%s/bench_file_%d_%s.safetensors", w->folder,
                     (int)getpid(), file[i].name) >= (int)sizeof w->out)
            bench_die("%s: too long", w->folder);
}

int main(int argc, char **argv)
{
    work w = {.kerf = "kerf", .folder = ".", .report = "-", .trials = 5, .device = "cpu"};
    size_t mib = 2048;
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        switch (value && argv[i][0] == '-' ? argv[i][1] : 0) {
        case 'k': w.kerf = value; break;
        case 'd': w.folder = value; break;
        case 'm': mib = (size_t)strtoul(value, NULL, 10); break;
        case 'n': w.trials = (size_t)strtoul(value, NULL, 10); break;
        case 'o': w.report = value; break;
        case 'g': w.device = value; break;
        default:
            bench_die(
                "bench_file [-k KERF] [-d FOLDER] [-m MIB] [-n TRIALS] [-o FILE] [-g DEVICE]");
        }
    }
    w.tensors = (mib << 20) / TENSOR_BYTES;
    w.bytes = (double)w.tensors * (double)TENSOR_BYTES;
    if (w.trials < 1 || w.trials > MAX_TRIALS || w.tensors < 1)
        bench_die("from 1 to %d trials of %zu MiB or more", MAX_TRIALS, TENSOR_BYTES >> 20);
    choose_paths(&w);
    write_source(&w);
    read_file(w.source);
    double cp[MAX_TRIALS];
    bench_report *r = bench_open("file");
    fprintf(stderr, "%zu MiB, quantize --device %s\n", mib, w.device);
    double mib_used = time_quantize(r, &w, cp);
    time_verify(r, &w);
    if (!is_on_gpu(&w)) time_score(r, &w, cp);
    unlink(w.source);
    unlink(w.out);
    bench_close(r, w.report);
    if (mib_used <= MOST_MEMORY_MIB) return 0;
    fprintf(stderr, "%.0f MiB of memory are more than %.0f\n", mib_used, MOST_MEMORY_MIB);
    return 1;
}
