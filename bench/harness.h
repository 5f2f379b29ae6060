/* harness.h - what every measurement shares: a clock, the ceilings of this machine measured in the
 * same run, medians with their spread, and one JSON document of results.
 *
 * Times of one thread are its CPU time, so that other work on the machine counts only as far as it
 * takes memory bandwidth; ceilings are measured next to each figure for the same reason. */
#ifndef KERF_HARNESS_H
#define KERF_HARNESS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* CPU time of the calling thread, and time on the wall. */
double bench_cpu_s(void);
double bench_wall_s(void);

/* Of some trials: the median and the quartiles. */
typedef struct bench_sample {
    double median, low, high;
    size_t trials;
} bench_sample;

/* Sorts v. */
bench_sample bench_summary(double *v, size_t n);

/* Seconds to read n bytes once, or to copy them, by the calling thread. */
double bench_read_s(const void *p, size_t n);
double bench_copy_s(void *to, const void *from, size_t n);

/* n numbers as weights have them: about normal, the same in every run; type 'b' bf16, 'h' fp16,
 * 'f' fp32. */
void bench_weights(void *p, size_t n, char type);

/* Ends the program with a line on stderr. */
void bench_die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
void *bench_alloc(size_t bytes); /* zeroed pages that are in memory */

/* --- results ----------------------------------------------------------------------------------
 * {"schema": "kerf.bench/1", "bench": ..., "machine": {...}, "results": [{"name": ..., "unit": ...,
 * "median": ..., "low": ..., "high": ..., "trials": ..., "ceiling": ..., "share": ...}]}
 * A share is that of the named ceiling, measured next to the figure; more is better in every unit
 * that ends in "/s". */
typedef struct bench_report bench_report;

bench_report *bench_open(const char *name);
/* ceiling: NULL when there is none. */
void bench_add(bench_report *r, const char *name, const char *unit, bench_sample s,
               const char *ceiling, double share);
/* Writes the document to `path` ("-": stdout) and frees it. */
void bench_close(bench_report *r, const char *path);

#endif
