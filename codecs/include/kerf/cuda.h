/* cuda.h - GPUs: finding and opening one, memory on it, and the codecs over that memory.
 *
 * The short way is kerf_exec.device: kerf_measure, kerf_encode, kerf_decode and kerf_count_clipped
 * then take host memory as ever and do the work on the GPU, with copies that overlap it. The
 * functions below work on device memory and only enqueue.
 *
 * The bytes are those of every other backend. A library that was built without CUDA has all these
 * functions too: they return KERF_E_NOSUP and say so.
 *
 * A call makes the GPU of its device the current one of the calling thread (cudaSetDevice) and
 * leaves it so: who works with several GPUs chooses again before calls of CUDA's own.
 *
 * A kerf_device may be used by one thread at a time; several devices, also several handles of one
 * GPU, are independent. KERF_E_NOMEM: host or device memory is exhausted, and nothing is left
 * behind. KERF_E_CUDA: kerf_error.native is the cudaError_t. Some of those (an illegal address, a
 * GPU that fell off the bus) make the GPU unusable for the whole process: every later call fails
 * the same way, and handles can only be closed. */
#ifndef KERF_CUDA_H
#define KERF_CUDA_H

#include <kerf/codec.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- devices ---------------------------------------------------------------------------------- */

typedef struct kerf_device_info {
    char name[128];
    int ordinal;
    int compute_major, compute_minor; /* 9, 0: Hopper */
    int multiprocessors;
    uint64_t memory_bytes, free_bytes, l2_bytes;
} kerf_device_info;

/* 1 when this library was built with CUDA. */
KERF_API int kerf_cuda_built(void);

/* GPUs that the driver shows; 0 without a driver. */
KERF_API KERF_CHECK kerf_status kerf_device_count(int *out, kerf_error *err);
KERF_API KERF_CHECK kerf_status kerf_device_describe(int ordinal, kerf_device_info *out,
                                                     kerf_error *err);

/* The GPUs that a text names: "cpu" (none), "cuda" (the first), "cuda:1", "cuda:0,2", "cuda:all".
 * None is opened, and but for "cuda:all" none need be there. A GPU may be named twice, which is for
 * tests: it is then two devices. KERF_E_ARG: the text is none of these; KERF_E_CUDA: all of none.
 */
#define KERF_DEVICES_MOST 64
typedef struct kerf_device_list {
    int ordinal[KERF_DEVICES_MOST];
    size_t count;
} kerf_device_list;
KERF_API KERF_CHECK kerf_status kerf_devices_find(const char *text, kerf_device_list *out,
                                                  kerf_error *err);

/* Opens GPU number `ordinal`. KERF_E_NOSUP: no such GPU, or one that this build has no code for. */
KERF_API KERF_CHECK kerf_status kerf_device_open(int ordinal, kerf_device **out, kerf_error *err);
KERF_API void kerf_device_close(kerf_device *d); /* NULL is fine */

/* The number that it was opened by. */
KERF_API int kerf_device_ordinal(const kerf_device *d);

/* The cudaStream_t on which everything below is enqueued. */
KERF_API void *kerf_device_stream(const kerf_device *d);

/* Waits for everything enqueued. *bad (may be NULL): the first NaN or Inf, under KERF_NAN_ERROR,
 * of the encode and measure calls since the last wait, counted from the first element of its
 * call; UINT64_MAX when there was none. */
KERF_API KERF_CHECK kerf_status kerf_device_wait(kerf_device *d, uint64_t *bad, kerf_error *err);

/* --- device memory ---------------------------------------------------------------------------- */

typedef struct kerf_dbuf {
    void *p;
    size_t n; /* bytes */
    kerf_device *device;
} kerf_dbuf;

KERF_API KERF_CHECK kerf_status kerf_dbuf_alloc(kerf_device *d, size_t n, kerf_dbuf *out,
                                                kerf_error *err);
KERF_API void kerf_dbuf_free(kerf_dbuf *b); /* waits; before its device is closed; empty is fine */

/* Copies n bytes at `offset`, in stream order; returns when the host memory may be used again. */
KERF_API KERF_CHECK kerf_status kerf_dbuf_write(const kerf_dbuf *b, size_t offset, const void *from,
                                                size_t n, kerf_error *err);
KERF_API KERF_CHECK kerf_status kerf_dbuf_read(const kerf_dbuf *b, size_t offset, void *to,
                                               size_t n, kerf_error *err);

/* --- codecs over device memory ---------------------------------------------------------------- */

/* Bands [b0, b1) of a tensor in device memory. Lengths and alignment are as for kerf_encode, save
 * that elements and 2- and 4-byte scales lie at multiples of their size; 16-byte alignment is
 * fastest. GGUF's blocks of two levels (q4_k and its kin) are decoded alone: the others answer
 * KERF_E_NOSUP. */
typedef struct kerf_device_bands {
    const kerf_geometry *geometry;
    uint64_t b0, b1;
    kerf_span dense; /* source or target */
    kerf_dtype dtype;
    kerf_span plane[KERF_PLANES];
    kerf_nan nan;
} kerf_device_bands;

/* Adds these bands to stats[geometry.matrices], in device memory; start from zero bytes. */
KERF_API KERF_CHECK kerf_status kerf_device_measure(kerf_device *d, const kerf_device_bands *b,
                                                    kerf_stats *stats, kerf_error *err);
KERF_API KERF_CHECK kerf_status kerf_device_encode(kerf_device *d, const kerf_device_bands *b,
                                                   const kerf_encoder *encoder,
                                                   const kerf_stats *stats, kerf_error *err);
KERF_API KERF_CHECK kerf_status kerf_device_decode(kerf_device *d, const kerf_device_bands *b,
                                                   kerf_error *err);

/* kerf_scales_to_tiles and back, for device memory; tiles begin at a multiple of 4 bytes. */
KERF_API KERF_CHECK kerf_status kerf_device_scales_to_tiles(kerf_device *d, uint64_t matrices,
                                                            uint64_t rows, uint64_t cols,
                                                            kerf_cspan plain, kerf_span tiled,
                                                            kerf_error *err);
KERF_API KERF_CHECK kerf_status kerf_device_scales_from_tiles(kerf_device *d, uint64_t matrices,
                                                              uint64_t rows, uint64_t cols,
                                                              kerf_cspan tiled, kerf_span plain,
                                                              kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
