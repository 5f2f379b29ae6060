/* gemv_time.h - how long work on a GPU takes when it is replayed: graphs of many calls, and what
 * the memory alone would take.
 *
 * A launch by itself costs more than a small matrix-vector product does; a model replays its
 * launches as a graph, and so does this. A call is whatever `enqueue` puts on the stream:
 * kerf_gemv_run with another copy of the weights each time, so that they come from memory and not
 * from a cache.
 *
 * A library that was built without CUDA has all these functions too: they return KERF_E_NOSUP. */
#ifndef KERF_GEMV_TIME_H
#define KERF_GEMV_TIME_H

#include <kerf/cuda.h>

#ifdef __cplusplus
extern "C" {
#endif

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

/* What memory alone takes. Both only enqueue; pointers are device memory, multiples of 16 bytes. */

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
