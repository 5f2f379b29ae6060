/* tune_cuda.c - what a GPU gains by a tuning of its own.
 *
 *   tune_cuda [-o FILE.json] [--formats LIST] [--columns LIST] [--shapes LIST] [--commit ID]
 *
 * Finds the tuning as kerf hardware --measure does, and writes each product that was timed for it
 * with its time by every try. Then times products of models by three tables in turns: an H200's
 * thresholds, those that kerf has for this GPU, and these with the tuning; chains and plain. Where
 * two of them come to the same plan they have one time, where all do, none. */
#include <kerf/gemv_tune.h>

#include "cuda/gemv/gemv_machine.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BY_H200, BY_KERF, BY_TUNING, TABLES, MOST = 16 };

static kerf_error error;

static void need(kerf_status s, const char *what)
{
    if (s == KERF_OK) return;
    fprintf(stderr, "%s: %s\n", what, error.text);
    exit(1);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- tables -------------------------------------------------------------------------------- */

/* The factors by which this machine's thresholds become an H200's. */
static kerf_gemv_tuning tuning_of_h200(const kf_gemv_machine *m)
{
    const kf_gemv_machine h = kf_gemv_machine_of("sm_90", 132, 0);
    const kf_gemv_tuning *to = &h.tuning, *from = &m->tuning;
    kerf_gemv_tuning t = {.rules = 0};
    double *f = t.factor;
    f[KERF_GEMV_FACTOR_PAIRS_IDLE] = to->pair_gain_idle / from->pair_gain_idle;
    f[KERF_GEMV_FACTOR_PAIRS_PLAIN_LIGHT] = to->pair_gain_plain[0] / from->pair_gain_plain[0];
    f[KERF_GEMV_FACTOR_PAIRS_PLAIN_HEAVY] = to->pair_gain_plain[1] / from->pair_gain_plain[1];
    f[KERF_GEMV_FACTOR_PAIRS_CHAIN_LIGHT] = to->pair_gain_chain[1] / from->pair_gain_chain[1];
    f[KERF_GEMV_FACTOR_PAIRS_CHAIN_HEAVY] = to->pair_gain_heavy / from->pair_gain_heavy;
    f[KERF_GEMV_FACTOR_BLOCKS_PLAIN] = to->two_blocks_plain / from->two_blocks_plain;
    f[KERF_GEMV_FACTOR_BLOCKS_CHAIN_LIGHT] = to->two_blocks_rings[0] / from->two_blocks_rings[0];
    f[KERF_GEMV_FACTOR_BLOCKS_CHAIN_HEAVY] = to->two_blocks_rings[1] / from->two_blocks_rings[1];
    f[KERF_GEMV_FACTOR_ONE_BLOCK] = to->one_block_cols / from->one_block_cols;
    f[KERF_GEMV_FACTOR_BLOCKS_MANY] = to->many_pair[0] / from->many_pair[0];
    f[KERF_GEMV_FACTOR_FEW_LIGHT] = to->x_bytes[0] / from->x_bytes[0];
    f[KERF_GEMV_FACTOR_FEW_HEAVY] = to->x_bytes[1] / from->x_bytes[1];
    f[KERF_GEMV_FACTOR_WIDE] = to->wide_inputs / from->wide_inputs;
    return t;
}

/* --- the tuning ---------------------------------------------------------------------------- */

static void write_factors(FILE *out, const kerf_gemv_tuned *t)
{
    fprintf(out, "  \"factors\": {");
    for (int i = 0; i < KERF_GEMV_FACTOR_COUNT; i++)
        fprintf(out, "%s\n    \"%s\": {\"factor\": %g, \"gain\": %.4f}", i ? "," : "",
                kerf_gemv_factor_key((kerf_gemv_factor)i), t->tuning.factor[i], t->gain[i]);
    fprintf(out, "\n  },\n  \"tries\": [");
    for (size_t i = 0; i < KERF_GEMV_TRIES; i++)
        fprintf(out, "%s%g", i ? ", " : "", kerf_gemv_try(i));
    fprintf(out, "],\n  \"samples\": [");
    for (size_t i = 0; i < t->samples; i++) {
        const kerf_gemv_sample *s = &t->sample[i];
        fprintf(out,
                "%s\n    {\"decides\": \"%s\", \"format\": \"%s\", \"n\": %llu, \"k\": %llu, "
                "\"columns\": %u, \"chain\": %s, \"us\": [",
                i ? "," : "", kerf_gemv_factor_key(s->decides), s->format->name,
                (unsigned long long)s->rows, (unsigned long long)s->cols, s->columns,
                s->chained ? "true" : "false");
        for (size_t k = 0; k < KERF_GEMV_TRIES; k++)
            fprintf(out, "%s%.3f", k ? ", " : "", s->us[k]);
        fprintf(out, "]}");
    }
    fprintf(out, "\n  ],\n");
}

static void print_factors(const kerf_gemv_tuned *t, double seconds)
{
    printf("tuning: %zu products, %.1f s\n", t->samples, seconds);
    for (int i = 0; i < KERF_GEMV_FACTOR_COUNT; i++)
        if (t->tuning.factor[i] != 1)
            printf("  %-20s x %-10g %5.1f %% where it changes the plan\n",
                   kerf_gemv_factor_key((kerf_gemv_factor)i), t->tuning.factor[i],
                   100 * (t->gain[i] - 1));
}

/* --- products of models -------------------------------------------------------------------- */

typedef struct lists {
    const char *formats[MOST], *shapes[MOST], *columns[MOST];
} lists;

static void split(char *text, const char **out)
{
    size_t n = 0;
    for (char *word; (word = strsep(&text, ",")) && n + 1 < MOST;)
        if (*word) out[n++] = word;
    out[n] = NULL;
}

typedef struct race_sums {
    double logs[TABLES], worst[TABLES];
    size_t count, differ[TABLES];
} race_sums;

/* Whether all tables make the same plan. */
static int are_alike(const kerf_gemv_shape *s, const kerf_exec *exec,
                     const kerf_gemv_tuning *tables)
{
    kerf_gemv *plan[TABLES];
    int alike = 1;
    for (int i = 0; i < TABLES; i++) {
        need(kerf_gemv_plan_create_tuned(&plan[i], s, exec, &tables[i], &error), "a plan");
        alike = alike && kerf_gemv_plans_alike(plan[0], plan[i]);
    }
    for (int i = 0; i < TABLES; i++) kerf_gemv_plan_free(plan[i]);
    return alike;
}

static void race_one(FILE *out, kerf_gemv_timer *timer, const kerf_exec *exec,
                     const kerf_gemv_shape *s, const kerf_gemv_tuning *tables, race_sums *sums)
{
    double us[TABLES] = {1, 1, 1};
    const char *how = s->flags ? "chain" : "plain";
    const unsigned long long n = s->rows, k = s->cols;
    int alike = are_alike(s, exec, tables);
    if (!alike)
        need(kerf_gemv_timer_race(timer, s->format, n, k, s->columns, s->flags != 0, tables, TABLES,
                                  us, &error),
             "a product");
    if (out)
        fprintf(out, "%s\n    {\"format\": \"%s\", \"n\": %llu, \"k\": %llu, \"columns\": %u, ",
                sums->count ? "," : "", s->format->name, n, k, s->columns);
    if (out && alike) fprintf(out, "\"launch\": \"%s\", \"same\": true}", how);
    if (out && !alike)
        fprintf(out,
                "\"launch\": \"%s\", \"h200_us\": %.3f, \"kerf_us\": %.3f, \"tuned_us\": %.3f}",
                how, us[BY_H200], us[BY_KERF], us[BY_TUNING]);
    sums->count++;
    for (int i = 0; i < TABLES; i++) {
        double x = us[BY_H200] / us[i];
        sums->logs[i] += log(x);
        sums->differ[i] += x != 1;
        if (x < sums->worst[i]) sums->worst[i] = x;
    }
    if (!alike)
        printf("  %-14s %6llux%-6llu %2u %-5s  h200 %8.2f  kerf %8.2f  tuned %8.2f us\n",
               s->format->name, n, k, s->columns, how, us[BY_H200], us[BY_KERF], us[BY_TUNING]);
}

static void race_all(FILE *out, kerf_gemv_timer *timer, const kerf_exec *exec, const lists *l,
                     const kerf_gemv_tuning *tables)
{
    race_sums sums = {.worst = {1, 1, 1}};
    kerf_gemv_shape shape = {.x = KERF_BF16, .y = KERF_BF16};
    if (out) fprintf(out, "  \"products\": [");
    for (const char *const *f = l->formats; *f; f++)
        for (const char *const *s = l->shapes; *s; s++)
            for (const char *const *c = l->columns; *c; c++)
                for (unsigned chained = 0; chained < 2; chained++) {
                    unsigned long long n = 0, k = 0;
                    sscanf(*s, "%llux%llu", &n, &k);
                    shape.format = kerf_format_find(*f);
                    shape.rows = n, shape.cols = k;
                    shape.columns = (unsigned)atoi(*c);
                    shape.flags = chained ? KERF_GEMV_CONSTANT_WEIGHTS : 0;
                    race_one(out, timer, exec, &shape, tables, &sums);
                }
    if (out) fprintf(out, "\n  ]\n}\n");
    for (int i = BY_KERF; i < TABLES; i++)
        printf("%s: %+.2f %% over the H200's table, geometric mean of %zu; %zu differ, worst "
               "%+.1f %%\n",
               i == BY_KERF ? "kerf's thresholds" : "with the tuning",
               100 * (exp(sums.logs[i] / (double)sums.count) - 1), sums.count, sums.differ[i],
               100 * (sums.worst[i] - 1));
}

int main(int argc, char **argv)
{
    static const struct option known[] = {{"formats", 1, NULL, 'f'},
                                          {"shapes", 1, NULL, 's'},
                                          {"columns", 1, NULL, 'c'},
                                          {"commit", 1, NULL, 'C'},
                                          {NULL, 0, NULL, 0}};
    static kerf_gemv_tuned tuned;
    char formats[] = "nvfp4,mxfp4,int4-g128,fp8-e4m3-row", columns[] = "1,4,16";
    char shapes[] = "4096x4096,14336x4096,4096x14336,8192x8192,28672x8192,7168x16384";
    const char *path = NULL, *commit = "unknown";
    lists l;
    split(formats, l.formats), split(shapes, l.shapes), split(columns, l.columns);
    for (int k; (k = getopt_long(argc, argv, "o:", known, NULL)) != -1;) switch (k) {
        case 'o': path = optarg; break;
        case 'f': split(optarg, l.formats); break;
        case 's': split(optarg, l.shapes); break;
        case 'c': split(optarg, l.columns); break;
        case 'C': commit = optarg; break;
        default: return 2;
        }

    kerf_exec exec = {0};
    kerf_device_info info;
    kf_gemv_machine m;
    kerf_gemv_timer *timer = NULL;
    need(kerf_device_describe(0, &info, &error), "GPU");
    need(kerf_device_open(0, &exec.device, &error), "GPU");
    need(kf_gemv_ask_machine(0, &m, &error), "GPU");
    const kerf_gemv_timer_options o = {.exec = &exec};
    need(kerf_gemv_timer_open(&o, NULL, &timer, &error), "timer");
    printf("%s; thresholds: %s\n", info.name, m.tuning_source);
    double from = now_s();
    need(kerf_gemv_tune(timer, &tuned, &error), "tuning");
    double seconds = now_s() - from;
    print_factors(&tuned, seconds);
    fflush(stdout);

    FILE *out = path ? fopen(path, "w") : NULL;
    if (path && !out) return fprintf(stderr, "%s cannot be written\n", path), 4;
    if (out) {
        fprintf(out,
                "{\n  \"schema\": \"kerf-tuning-1\",\n  \"device\": \"%s\",\n  \"commit\": "
                "\"%s\",\n  \"thresholds\": \"%s\",\n  \"memory_of_h200\": %.4f,\n  "
                "\"seconds\": %.1f,\n",
                info.name, commit, m.tuning_source, m.tuning.pair_gain_idle / 3.5e6, seconds);
        write_factors(out, &tuned);
    }
    const kerf_gemv_tuning tables[TABLES] = {tuning_of_h200(&m), {.rules = 0}, tuned.tuning};
    race_all(out, timer, &exec, &l, tables);
    kerf_gemv_timer_close(timer);
    kerf_device_close(exec.device);
    return out && fclose(out) != 0 ? 4 : 0;
}
