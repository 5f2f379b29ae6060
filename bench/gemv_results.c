/* gemv_results.c - what bench/gemv_cuda.c found, as JSON and as tables. */
#include "gemv_cuda.h"

#include "blas_cuda.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const bench_by[CONTESTANTS] = {"kerf", "read", "cublas", "cublaslt-fp8"};

static double ratio(double a, double b)
{
    return b > 0 ? a / b : 0;
}

static void write_timings(FILE *f, const timing t[WAYS_TO_LAUNCH],
                          const timing read[WAYS_TO_LAUNCH], double bytes)
{
    static const char *const end[] = {"", "_chain"};
    for (int way = 0; way < WAYS_TO_LAUNCH; way++) {
        if (read[way].us > 0) fprintf(f, ", \"read_us%s\": %.3f", end[way], read[way].us);
        if (!(t[way].us > 0)) continue;
        fprintf(f, ", \"us%s\": %.3f, \"low%s\": %.3f, \"high%s\": %.3f, \"gbps%s\": %.0f",
                end[way], t[way].us, end[way], t[way].low, end[way], t[way].high, end[way],
                bytes / t[way].us * 1e-3);
        fprintf(f, ", \"share%s\": %.3f", end[way], ratio(read[way].us, t[way].us));
    }
}

static void write_row(FILE *f, const result_row *r)
{
    fprintf(f,
            "{\"by\": \"%s\", \"format\": \"%s\", \"rows\": %llu, \"cols\": %llu, \"columns\": %u, "
            "\"bytes\": %.0f, \"replays\": %d",
            r->by, r->format, (unsigned long long)r->rows, (unsigned long long)r->cols, r->columns,
            r->bytes, r->t[PLAIN].replays);
    write_timings(f, r->t, r->read, r->bytes);
    if (isfinite(r->rms)) fprintf(f, ", \"rms\": %.2e", r->rms);
    for (int way = 0; way < WAYS_TO_LAUNCH; way++)
        if (r->read_way[way])
            fprintf(f, ", \"read_grid%s\": \"%s\"", way == CHAIN ? "_chain" : "", r->read_way[way]);
    fprintf(f, ", \"sm_mhz\": %u, \"memory_mhz\": %u, \"power_w\": %.0f, \"temperature_c\": %u}",
            r->state.sm_mhz, r->state.memory_mhz, r->state.power_w, r->state.temperature_c);
}

static void write_decoder(FILE *f, const decoder_result *r)
{
    fprintf(f,
            "{\"model\": \"%s\", \"by\": \"%s\", \"format\": \"%s\", \"part\": \"%s\", "
            "\"columns\": %u, "
            "\"bytes\": %.0f",
            r->model, r->by, r->format, r->part, r->columns, r->bytes);
    write_timings(f, r->t, r->read, r->bytes);
    if (r->energy.joules > 0)
        fprintf(f,
                ", \"joules_per_token\": %.5f, \"watts\": %.1f, \"peak_w\": %.1f, "
                "\"metered_s\": %.2f, \"step_s\": %.4f",
                r->energy.joules / r->columns, r->energy.watts, r->energy.peak_w, r->energy.seconds,
                r->energy.step_s);
    fprintf(f, "}");
}

void write_json(const char *path, const bench_options *o, const char *device, const char *commit,
                const bench_results *all)
{
    FILE *f = fopen(path, "w");
    gpu_state now = gpu_state_now();
    int cuda = 0;
    if (!f) bench_fail(path, "cannot be written");
    cudaRuntimeGetVersion(&cuda);
    const char *x = o->x == KERF_F16 ? "F16" : "BF16";
    fprintf(
        f,
        "{\n  \"schema\": \"kerf-bench-gemv-cuda-1\",\n  \"device\": \"%s\", \"driver\": \"%s\", ",
        device, now.driver);
    fprintf(f, "\"cuda\": \"%d.%d\", \"cublas\": %d, \"commit\": \"%s\",\n", cuda / 1000,
            cuda % 1000 / 10, blas_version(), commit);
    fprintf(f,
            "  \"x\": \"%s\", \"y\": \"%s\", \"rotated_bytes\": %.0f, \"replays\": %d, "
            "\"seconds\": %.1f,\n",
            x, x, o->rotated_bytes, o->replays, race_now() - o->started);
    if (o->energy_s > 0) fprintf(f, "  \"idle_w\": %.1f,\n", all->idle_w);
    fprintf(f, "  \"results\": [");
    for (int i = 0; i < all->n_rows; i++) {
        fprintf(f, "%s\n    ", i ? "," : "");
        write_row(f, &all->row[i]);
    }
    fprintf(f, "\n  ],\n  \"decoder\": [");
    for (int i = 0; i < all->n_decoders; i++) {
        fprintf(f, "%s\n    ", i ? "," : "");
        write_decoder(f, &all->decoder[i]);
    }
    fprintf(f, "\n  ]\n}\n");
    if (fclose(f) != 0) bench_fail(path, "cannot be written");
}

/* --- tables -------------------------------------------------------------------------------------
 */

static const result_row *find_row(const bench_results *all, const char *name, const char *format,
                                  extent size, unsigned columns)
{
    for (int i = 0; i < all->n_rows; i++) {
        const result_row *r = &all->row[i];
        if (r->rows == size.rows && r->cols == size.cols && r->columns == columns &&
            strcmp(r->by, name) == 0 && strcmp(r->format, format) == 0)
            return r;
    }
    return NULL;
}

static void print_line(const bench_results *all, const char *name, const char *format,
                       unsigned columns, const extent *shapes, int n)
{
    int any = 0;
    double rms = 0;
    for (int i = 0; i < n; i++) any |= find_row(all, name, format, shapes[i], columns) != NULL;
    if (!any) return;
    printf("%-12s %-16s %2u", strcmp(name, "kerf") == 0 ? "" : name, format, columns);
    for (int i = 0; i < n; i++) {
        const result_row *r = find_row(all, name, format, shapes[i], columns);
        if (!r) {
            printf(" |%23s", "");
            continue;
        }
        printf(" | %5.1f .%02.0f", r->t[PLAIN].us, 100 * ratio(r->read[PLAIN].us, r->t[PLAIN].us));
        if (r->t[CHAIN].us > 0)
            printf("  %5.1f .%02.0f", r->t[CHAIN].us,
                   100 * ratio(r->read[CHAIN].us, r->t[CHAIN].us));
        else
            printf("%11s", "");
        if (!(r->rms <= rms)) rms = r->rms;
    }
    printf(" | %.1e\n", rms);
}

void print_tables(const bench_options *o, const extent *shapes, int n, const bench_results *all)
{
    if (all->n_rows) {
        printf("\nus and share of reading, plain and in a chain; rms error\n%-31s", "");
        for (int i = 0; i < n; i++)
            printf(" | %12llu x %-8llu", (unsigned long long)shapes[i].rows,
                   (unsigned long long)shapes[i].cols);
        printf("\n");
    }
    for (int c = 0; c < o->n_columns; c++) {
        for (int i = 0; i < o->n_formats; i++)
            print_line(all, "kerf", o->formats[i].name, o->columns[c], shapes, n);
        print_line(all, bench_by[BY_CUBLAS], "fp16", o->columns[c], shapes, n);
        print_line(all, bench_by[BY_CUBLAS_FP8], "fp8-e4m3", o->columns[c], shapes, n);
    }
    for (int i = 0; i < all->n_decoders; i++) {
        const decoder_result *r = &all->decoder[i];
        printf("%-8s %-8s %-16s %2u columns", r->part, r->by, r->format, r->columns);
        for (int way = 0; way < WAYS_TO_LAUNCH; way++)
            if (r->t[way].us > 0)
                printf("  %s %8.1f us %6.0f/s %.3f", way == CHAIN ? "chain" : "plain", r->t[way].us,
                       1e6 / r->t[way].us, ratio(r->read[way].us, r->t[way].us));
        if (r->energy.joules > 0)
            printf("  %.3f J/token at %.0f W", r->energy.joules / r->columns, r->energy.watts);
        printf("\n");
    }
}
