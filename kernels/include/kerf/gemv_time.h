/* gemv_time.h - how long kerf's matrix-vector products take on this machine, beside what its memory
 * alone takes for as many bytes; and the means to time any other work on a GPU likewise.
 *
 * On a GPU a launch by itself costs more than a small matrix-vector product does; a model replays
 * its launches as a graph, and so does this. A call is whatever `enqueue` puts on the stream:
 * kerf_gemv_run with another copy of the weights each time, so that they come from memory and not
 * from a cache.
 *
 * A library that was built without CUDA has all these functions too: those of graphs and device
 * memory return KERF_E_NOSUP. */
#ifndef KERF_GEMV_TIME_H
#define KERF_GEMV_TIME_H

#include <kerf/cuda.h>
#include <kerf/gemv.h>
#include <kerf/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- a product of matrix and vectors, on the processor or on a GPU -------------------------------
 */

enum { KERF_TIMER_TRIALS = 1001 };

typedef struct kerf_gemv_timer_options {
    const kerf_exec *exec; /* threads and backend, or a device, which must outlive the timer; NULL:
                              all defaults                                                       */
    kerf_dtype x;          /* of X: BF16 (also for NONE), F16 or F32. Y is F32 on the processor,
                              and of the type of X on a GPU                                       */
    int trials;            /* of which the median counts, KERF_TIMER_TRIALS at most; 0: 21, on a
                              GPU 9 graphs of 100 calls and more                                  */
    int chains_only;       /* GPU: leaves out the times without overlap                           */
    const struct kerf_gemv_tuning *tuning; /* GPU: of kerf/gemv_tune.h; NULL: none; copied       */
} kerf_gemv_timer_options;

typedef struct kerf_gemv_time {
    const kerf_format *format;
    uint64_t rows, cols;
    unsigned columns;
    double us;              /* median of the trials                                               */
    double low_us, high_us; /* quartiles                                                          */
    double read_us;         /* of only reading `bytes` in the same way                            */
    double share;        /* read_us over us, measured next to each other: 1 is as fast as memory */
    double plain_us;     /* GPU: each product waits for the one before it; 0: not measured      */
    double plain_share;  /* likewise for a read that waits                                     */
    double bytes;        /* of the stored planes                                               */
    double error;        /* of the first 256 rows against the reference, relative rms          */
    const char *backend; /* that the plan chose; static storage                                */
} kerf_gemv_time;

typedef struct kerf_gemv_timer kerf_gemv_timer;

/* Takes 256 MiB of host memory, on a GPU 4.5 GiB of its memory, whose speed is measured right away.
 * job (NULL is fine) is asked before every trial of every later call, and must outlive the timer.
 * Not for several threads at once. */
KERF_API KERF_CHECK kerf_status kerf_gemv_timer_open(const kerf_gemv_timer_options *o,
                                                     const kerf_job *job, kerf_gemv_timer **out,
                                                     kerf_error *err);
KERF_API void kerf_gemv_timer_close(kerf_gemv_timer *t); /* NULL is fine */

/* With what defaults stand for. */
KERF_API int kerf_gemv_timer_threads(const kerf_gemv_timer *t);
KERF_API size_t kerf_gemv_timer_trials(const kerf_gemv_timer *t);

/* Medians, in 10^9 bytes per second: what is read; what is copied, counting read and written. */
KERF_API KERF_CHECK kerf_status kerf_gemv_timer_rates(kerf_gemv_timer *t, double *read_gbps,
                                                      double *copy_gbps, kerf_error *err);

/* Y = W X with W[rows x cols] and `columns` columns of X, as kerf_gemv_run computes it. Weights
 * come from memory, X and Y from caches, as in a model. Failures are those of kerf_gemv_plan_create
 * and kerf_gemv_run, and KERF_E_CANCELED. */
KERF_API KERF_CHECK kerf_status kerf_gemv_timer_run(kerf_gemv_timer *t, const kerf_format *f,
                                                    uint64_t rows, uint64_t cols, unsigned columns,
                                                    kerf_gemv_time *out, kerf_error *err);

/* A load that stays the same, for whoever meters its energy. */
typedef struct kerf_hold {
    double seconds;                        /* at least                                            */
    void (*around)(void *ctx, int begins); /* 1: the first call comes next; 0: the last has ended */
    void *ctx;
} kerf_hold;

/* Runs the same product again and again, as kerf_gemv_timer_run does (on a GPU as a chain, without
 * the reads beside it), and counts the calls. */
KERF_API KERF_CHECK kerf_status kerf_gemv_timer_hold(kerf_gemv_timer *t, const kerf_format *f,
                                                     uint64_t rows, uint64_t cols, unsigned columns,
                                                     const kerf_hold *hold, uint64_t *calls,
                                                     kerf_error *err);

/* --- graphs of calls -----------------------------------------------------------------------------
 */

/* Enqueues call number i on `stream`, a cudaStream_t, and does nothing that a stream being recorded
 * refuses: no waiting, no allocation. */
typedef kerf_status (*kerf_enqueue)(void *ctx, size_t i, void *stream, kerf_error *err);

typedef struct kerf_graph kerf_graph;

/* Records calls 0 .. calls - 1, in this order, and replays them once. What the calls point to must
 * live as long as the graph; the device must outlive it. */
KERF_API KERF_CHECK kerf_status kerf_graph_record(kerf_device *d, kerf_enqueue enqueue, void *ctx,
                                                  size_t calls, kerf_graph **out, kerf_error *err);
/* Replays the graph; *us: microseconds of the GPU for one call. */
KERF_API KERF_CHECK kerf_status kerf_graph_time(kerf_graph *g, double *us, kerf_error *err);
KERF_API void kerf_graph_free(kerf_graph *g); /* NULL is fine */

/* --- what memory alone takes ---------------------------------------------------------------------
 * Both only enqueue; pointers are device memory, multiples of 16 bytes. */

/* A kernel that reads n bytes and does nothing with them. chained: it may read while the kernel
 * before it on the stream still works. width, 0 .. KERF_READ_WIDTHS - 1: how many threads; which is
 * fastest depends on n. */
enum { KERF_READ_WIDTHS = 3 };
KERF_API KERF_CHECK kerf_status kerf_device_read(kerf_device *d, const void *p, size_t n, int width,
                                                 int chained, void *stream, kerf_error *err);
KERF_API KERF_CHECK kerf_status kerf_device_copy(kerf_device *d, void *to, const void *from,
                                                 size_t n, void *stream, kerf_error *err);

/* Fills bytes [offset, offset + n) of a buffer with its first `step` of them again and again. */
KERF_API KERF_CHECK kerf_status kerf_dbuf_repeat(const kerf_dbuf *b, size_t offset, size_t step,
                                                 size_t n, kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
