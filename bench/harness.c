/* harness.c - see harness.h. */
#include "harness.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "base/pseudo_random.h"
#include "time/read_all.h"

static double clock_s(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double bench_cpu_s(void)
{
    return clock_s(CLOCK_THREAD_CPUTIME_ID);
}

double bench_wall_s(void)
{
    return clock_s(CLOCK_MONOTONIC);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

bench_sample bench_summary(double *v, size_t n)
{
    bench_sample s = {0, 0, 0, n};
    if (n == 0) return s;
    qsort(v, n, sizeof *v, by_value);
    s.median = n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
    s.low = v[n / 4];
    s.high = v[n - 1 - n / 4];
    return s;
}

double bench_read_s(const void *p, size_t n)
{
    static volatile uint64_t sink;
    double start = bench_cpu_s();
    uint64_t all = kf_read_all(p, n);
    double s = bench_cpu_s() - start;
    sink = all;
    (void)sink;
    return s;
}

double bench_copy_s(void *to, const void *from, size_t n)
{
    double start = bench_cpu_s();
    memcpy(to, from, n);
    return bench_cpu_s() - start;
}

static float weight_at(uint64_t i)
{
    return kf_bell(kf_mix((i + 1) * KF_RANDOM_STEP)) * (0.02f / 37837.0f);
}

void bench_weights(void *p, size_t n, char type)
{
    for (size_t i = 0; i < n; i++) {
        float x = weight_at(i);
        uint32_t word;
        memcpy(&word, &x, 4);
        if (type == 'f') {
            memcpy((char *)p + 4 * i, &word, 4);
            continue;
        }
        /* cut off, not rounded; numbers below the normal ones of fp16 become zeros */
        uint32_t exponent = word >> 23 & 0xff, sign = word >> 16 & 0x8000;
        uint32_t half =
            exponent < 113 ? sign : sign | (exponent - 112) << 10 | (word >> 13 & 0x3ff);
        uint16_t out = (uint16_t)(type == 'h' ? half : word >> 16);
        memcpy((char *)p + 2 * i, &out, 2);
    }
}

void bench_die(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

void *bench_alloc(size_t bytes)
{
    void *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!p) bench_die("out of memory");
    memset(p, 0, (bytes + 4095) / 4096 * 4096);
    return p;
}

/* --- results -------------------------------------------------------------------------------- */

struct bench_report {
    json_t *root, *results;
};

/* The first line of a command's output, or of a file's line that begins with `key`. */
static json_t *line_of(const char *command)
{
    char text[256] = "";
    FILE *f = popen(command, "r");
    if (f && !fgets(text, sizeof text, f)) text[0] = 0;
    if (f) pclose(f);
    text[strcspn(text, "\n")] = 0;
    return json_string(text);
}

bench_report *bench_open(const char *name)
{
    bench_report *r = malloc(sizeof *r);
    struct utsname u;
    if (!r || uname(&u) != 0) bench_die("out of memory");
    json_t *machine = json_object();
    json_object_set_new(machine, "cpu", line_of("sed -n 's/^model name[^:]*: //p' /proc/cpuinfo"));
    json_object_set_new(machine, "cores", line_of("nproc"));
    json_object_set_new(machine, "arch", json_string(u.machine));
    json_object_set_new(machine, "kernel", json_string(u.release));
    r->results = json_array();
    r->root =
        json_pack("{s:s, s:s, s:o, s:s, s:o, s:o}", "schema", "kerf.bench/1", "bench", name,
                  "machine", machine, "compiler", __VERSION__, "commit",
                  line_of("git describe --always --dirty 2>/dev/null"), "results", r->results);
    if (!r->root) bench_die("out of memory");
    return r;
}

/* Six digits are more than any measurement holds. */
static json_t *rounded(double x)
{
    char text[32];
    snprintf(text, sizeof text, "%.4g", x);
    return json_real(strtod(text, NULL));
}

void bench_add(bench_report *r, const char *name, const char *unit, bench_sample s,
               const char *ceiling, double share)
{
    json_t *o = json_pack("{s:s, s:s, s:o, s:o, s:o, s:i}", "name", name, "unit", unit, "median",
                          rounded(s.median), "low", rounded(s.low), "high", rounded(s.high),
                          "trials", (int)s.trials);
    if (ceiling) {
        json_object_set_new(o, "ceiling", json_string(ceiling));
        json_object_set_new(o, "share", rounded(share));
    }
    json_array_append_new(r->results, o);
    fprintf(stderr, "%-44s %9.4g %s  [%.4g, %.4g]", name, s.median, unit, s.low, s.high);
    if (ceiling) fprintf(stderr, "  %.3f of %s", share, ceiling);
    fputc('\n', stderr);
}

void bench_close(bench_report *r, const char *path)
{
    FILE *f = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    if (!f || json_dumpf(r->root, f, JSON_INDENT(1) | JSON_REAL_PRECISION(4)) != 0)
        bench_die("%s: cannot be written", path);
    fputc('\n', f);
    if (f != stdout && fclose(f) != 0) bench_die("%s: cannot be written", path);
    json_decref(r->root);
    free(r);
}
