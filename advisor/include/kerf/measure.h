/* measure.h - what this machine can do, measured: how fast its memory is, and how long kerf's
 * matrix-vector products take on it.
 *
 *   kerf_measure_gemv         times of all shapes x batches x formats of a request
 *   kerf_measure_machine      the same at shapes spread over what models have, made into a machine
 *                             that kerf_predict and the advisor use
 *   kerf_timings_read         times that were measured earlier, from a file
 *   kerf_hardware_with_times  the machine that such times describe
 */
#ifndef KERF_MEASURE_H
#define KERF_MEASURE_H

#include <kerf/gemv_time.h>
#include <kerf/hardware.h>
#include <kerf/job.h>
#include <kerf/monitor.h>
#include <kerf/predict.h>
#include <kerf/words.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- measuring ----------------------------------------------------------------------------- */

/* The shape of a weight: n outputs (rows) and k inputs (columns). */
typedef struct kerf_weight_shape {
    uint64_t n, k;
} kerf_weight_shape;

/* Lists are the caller's. */
typedef struct kerf_measure_request {
    const kerf_format *const *format;
    size_t formats; /* one at least */
    const kerf_weight_shape *shape;
    size_t shapes;         /* one at least; kerf_measure_machine: 0 stands for its own       */
    const unsigned *batch; /* columns of X, 1 .. KERF_GEMV_COLUMNS                           */
    size_t batches;        /* 0: one batch, of 1                                             */
    kerf_gemv_timer_options timer;
    kerf_monitor *monitor; /* meters each product too, where it is timed; NULL: no energy    */
    double energy_s;       /* for so long at least; 0: 2, what counters of GPUs need         */
} kerf_measure_request;

/* What one product takes of the GPU that it runs on, or of all processors; idle power included. */
typedef struct kerf_product_energy {
    double joules;  /* of one product: watts times its time                                  */
    double watts;   /* while nothing else was done                                           */
    double peak_w;  /* of the readings; NaN: there was none                                  */
    double seconds; /* that it was done again and again                                      */
    double step_s;  /* of the counter                                                        */
} kerf_product_energy;

typedef struct kerf_gemv_times {
    kerf_gemv_time *time; /* formats in the order of the request, in each the shapes, in each of
                             those the batches                                               */
    kerf_product_energy *energy; /* [count], where the request has a monitor                 */
    double idle_w;               /* before the first product; of the same sources            */
    size_t count;
    kerf_dtype x;                  /* of X                                                   */
    size_t trials;                 /* of each                                                */
    int threads;                   /* that worked, where no GPU did                          */
    double stream_gbps, copy_gbps; /* of all memory, before the products: read; copied, counting
                                      read and written                                       */
    char processor[96];            /* as the system calls it; "CPU" where it has no name     */
    kerf_device_info device;       /* the GPU that was measured; an empty name: none         */
} kerf_gemv_times;

/* The tuning of a machine, for kerf_gemv_timer_options.tuning, if it may be used on this GPU
 * (kerf_device_describe). KERF_E_ARG: it has none, or is of another architecture. */
KERF_API KERF_CHECK kerf_status kerf_hardware_tuning(const kerf_hardware *h,
                                                     const kerf_device_info *gpu,
                                                     const kerf_gemv_tuning **out, kerf_error *err);

/* Every result is compared with the scalar reference: KERF_E_DATA where a kernel is wrong. The job
 * is told of each format, and of progress in elements of weights; it is asked whether to go on
 * before every trial. *out is freed by kerf_gemv_times_free; NULL after a failure. */
KERF_API KERF_CHECK kerf_status kerf_measure_gemv(const kerf_measure_request *r,
                                                  const kerf_job *job, kerf_gemv_times **out,
                                                  kerf_error *err);
KERF_API void kerf_gemv_times_free(kerf_gemv_times *t); /* NULL is fine */

/* Of product i, where energy was metered: joules per 10^9 bytes of its weights. */
KERF_API double kerf_joules_per_gb(const kerf_gemv_times *t, size_t i);

/* JSON, schema kerf.bench.gemv/1, which kerf_timings_read reads: malloc'd, ends in a 0 that n (may
 * be NULL) does not count, to be freed. */
KERF_API KERF_CHECK kerf_status kerf_gemv_times_write(const kerf_gemv_times *t, char **text,
                                                      size_t *n, kerf_error *err);
/* The same for people, in the form that is asked for (kerf/words.h). */
KERF_API KERF_CHECK kerf_status kerf_gemv_times_text(const kerf_gemv_times *t,
                                                     const kerf_text_form *form, char **text,
                                                     size_t *n, kerf_error *err);

/* A machine with measured facts, fits and tables. base: what is known of it already, whose texts
 * and facts are copied; NULL: nothing, and the machine is called "this-machine". Without shapes of
 * the request's own, products are timed at 24 shapes from 1024x1024 to 8192x8192, on a GPU at 200
 * up to 32768x16384, and GGUF's blocks at others of that number, as many inputs as their rows can
 * have; every format and batch needs four shapes. Of a GPU the tuning is found first
 * (kerf_gemv_tune), the plans are by it, and the machine holds it. Closed by kerf_hardware_close.
 */
KERF_API KERF_CHECK kerf_status kerf_measure_machine(const kerf_measure_request *r,
                                                     const kerf_hardware *base, const kerf_job *job,
                                                     kerf_hardware **out, kerf_error *err);

/* --- what was measured before -------------------------------------------------------------- */

typedef struct kerf_timings {
    kerf_timing *item;
    size_t count;
} kerf_timings;

/* Times as a benchmark writes them:
 *
 *   {"results": [{"format": "nvfp4", "n": 4096, "k": 4096, "batch": 1, "us": 5.1}, ...]}
 *
 * rows, cols, columns and median_us are understood as n, k, batch and us; batch may be missing.
 * KERF_E_DATA names the place; KERF_E_IO: the file cannot be read. Freed by kerf_timings_free. */
KERF_API KERF_CHECK kerf_status kerf_timings_read(const char *path, kerf_timings *out,
                                                  kerf_error *err);
KERF_API void kerf_timings_free(kerf_timings *t); /* all zeros are fine */

/* The machine `base` with a fit and a table for each format and batch that has four shapes or more;
 * fits and tables of base itself are left out, texts and facts are copied. Of several times of one
 * product the median counts. source: where the times come from, in a few words. KERF_E_DATA: there
 * is nothing to fit. Closed by kerf_hardware_close. */
KERF_API KERF_CHECK kerf_status kerf_hardware_with_times(const kerf_hardware *base,
                                                         const kerf_timing *times, size_t count,
                                                         const char *source, kerf_hardware **out,
                                                         kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
