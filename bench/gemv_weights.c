/* gemv_weights.c - see gemv_weights.h. */
#include "gemv_weights.h"

#include "read_only.h"

#include <kerf/encode_matrix.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 256u
#define UNEVEN 2.06f /* what uneven runs multiply the deviation by */

kerf_device *bench_gpu;
cudaStream_t bench_stream;
kerf_error bench_error;

void bench_fail(const char *what, const char *why)
{
    fprintf(stderr, "gemv_cuda: %s: %s\n", what, why);
    exit(1);
}
void bench_need(kerf_status s, const char *what)
{
    if (s != KERF_OK) bench_fail(what, bench_error.text);
}
void bench_need_cuda(cudaError_t e, const char *what)
{
    if (e != cudaSuccess) bench_fail(what, cudaGetErrorString(e));
}
void *bench_room(size_t n)
{
    void *p = calloc(n ? n : 1, 1);
    if (!p) bench_fail("host memory", "none left");
    return p;
}
void *bench_device_room(size_t n)
{
    void *p;
    bench_need_cuda(cudaMalloc(&p, n ? n : 1), "device memory");
    return p;
}

placed place(const kerf_format *f, uint64_t rows, uint64_t cols, size_t from)
{
    placed m = {.end = from};
    kerf_shape shape = {2, {rows, cols}};
    bench_need(kerf_geometry_init(&m.g, f, &shape, &bench_error), "geometry");
    for (int k = 0; k < KERF_PLANES; k++) {
        m.offset[k] = m.end;
        m.end += ((size_t)m.g.plane[k].bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    return m;
}

void place_spans(const placed *m, const void *base, kerf_cspan out[KERF_PLANES])
{
    for (int k = 0; k < KERF_PLANES; k++)
        out[k] = (kerf_cspan){(const uint8_t *)base + m->offset[k], (size_t)m->g.plane[k].bytes};
}

/* The dense numbers, once per size of matrix. */
static void *dense_room(size_t n)
{
    static void *p;
    static size_t have;
    if (n <= have) return p;
    bench_need_cuda(cudaFree(p), "free");
    p = bench_device_room(n);
    have = n;
    return p;
}

/* GGUF's blocks of two levels, whose codecs are the processor's: rows that repeat, since encoding
 * takes long. */
static int is_of_processor(const kerf_format *f)
{
    return f->geometry == KERF_GROUP_SUPER;
}

static void repeat_rows(const placed *m, uint8_t *base, float size, uint64_t seed)
{
    enum { ROWS = 64 };
    const uint64_t cols = m->g.cols, rows = m->g.rows < ROWS ? m->g.rows : ROWS;
    const size_t n = (size_t)(rows * cols);
    const placed few = place(m->g.format, rows, cols, 0);
    const size_t bytes = (size_t)few.g.bytes, all = (size_t)m->g.bytes;
    uint8_t *dense = bench_room(n * 2), *codes = bench_room(bytes);
    void *on_device = dense_room(n * 2);
    cudaStream_t s = kerf_device_stream(bench_gpu);
    bench_need_cuda(fill_numbers(on_device, KERF_BF16, n, size / UNEVEN, 1, seed, s), "numbers");
    bench_need_cuda(cudaStreamSynchronize(s), "numbers");
    bench_need_cuda(cudaMemcpy(dense, on_device, n * 2, cudaMemcpyDeviceToHost), "numbers");
    kerf_span planes[KERF_PLANES] = {{codes, bytes}};
    bench_need(kerf_encode_matrix(&few.g, NULL, (kerf_cspan){dense, n * 2}, KERF_BF16, planes, NULL,
                                  NULL, &bench_error),
               "encode");
    for (size_t at = 0; at < all; at += bytes)
        bench_need_cuda(cudaMemcpy(base + m->offset[KERF_PLANE_CODES] + at, codes,
                                   all - at < bytes ? all - at : bytes, cudaMemcpyHostToDevice),
                        "codes");
    free(dense);
    free(codes);
}

void place_numbers(const placed *m, void *base, float size, uint64_t seed)
{
    static kerf_stats *stats;
    if (is_of_processor(m->g.format)) {
        repeat_rows(m, base, size, seed);
        return;
    }
    size_t n = (size_t)m->g.elements;
    cudaStream_t s = kerf_device_stream(bench_gpu);
    kerf_device_bands b = {.geometry = &m->g, .b1 = m->g.bands, .dtype = KERF_BF16};
    if (!stats) stats = bench_device_room(sizeof *stats);
    b.dense = (kerf_span){dense_room(n * 2), n * 2};
    for (int k = 0; k < KERF_PLANES; k++)
        b.plane[k] = (kerf_span){(uint8_t *)base + m->offset[k], (size_t)m->g.plane[k].bytes};
    bench_need_cuda(fill_numbers(b.dense.p, KERF_BF16, n, size / UNEVEN, 1, seed, s), "numbers");
    bench_need_cuda(cudaMemsetAsync(stats, 0, sizeof *stats, s), "memset");
    if (kerf_needs_stats(&m->g))
        bench_need(kerf_device_measure(bench_gpu, &b, stats, &bench_error), "measure");
    bench_need(
        kerf_device_encode(bench_gpu, &b, kerf_encoder_at(m->g.format, 0), stats, &bench_error),
        "encode");
}

/* Bands of planes in device memory to dense numbers there. */
static void decode_bands(const kerf_device_bands *b)
{
    if (!is_of_processor(b->geometry->format)) {
        bench_need(kerf_device_decode(bench_gpu, b, &bench_error), "decode");
        return;
    }
    const kerf_span from = b->plane[KERF_PLANE_CODES];
    uint8_t *codes = bench_room(from.n), *dense = bench_room(b->dense.n);
    bench_need_cuda(cudaMemcpy(codes, from.p, from.n, cudaMemcpyDeviceToHost), "codes");
    const kerf_cspan planes[KERF_PLANES] = {{codes, from.n}};
    bench_need(kerf_decode(b->geometry, b->b0, b->b1, planes, (kerf_span){dense, b->dense.n},
                           b->dtype, NULL, &bench_error),
               "decode");
    bench_need_cuda(cudaMemcpy(b->dense.p, dense, b->dense.n, cudaMemcpyHostToDevice), "numbers");
    free(codes);
    free(dense);
}

/* Whole rows of a few bands from `band` on. */
static void sample_rows(weights *w, uint64_t band, size_t most)
{
    const kerf_geometry *g = &w->m.g;
    uint64_t end = band + 1;
    while (end < g->bands && kerf_band_elements(g, band, end).count < (most + 1) * w->cols) end++;
    kerf_extent e = kerf_band_elements(g, band, end);
    kerf_device_bands b = {.geometry = g, .b0 = band, .b1 = end, .dtype = KERF_F32};
    b.dense = (kerf_span){dense_room(e.count * 4), e.count * 4};
    for (int k = 0; k < KERF_PLANES; k++) {
        kerf_extent part = kerf_band_bytes(g, (kerf_plane_id)k, band, end);
        b.plane[k] = (kerf_span){(uint8_t *)w->copy[0] + w->m.offset[k] + part.offset, part.count};
    }
    decode_bands(&b);
    uint64_t first = (e.offset + w->cols - 1) / w->cols, last = (e.offset + e.count) / w->cols;
    for (uint64_t r = first; r < last && most && w->sampled < SAMPLED_ROWS; r++, most--) {
        const float *from = (const float *)b.dense.p + (r * w->cols - e.offset);
        bench_need_cuda(cudaMemcpyAsync(w->values + w->sampled * w->cols, from, w->cols * 4,
                                        cudaMemcpyDeviceToDevice, kerf_device_stream(bench_gpu)),
                        "rows");
        w->row[w->sampled++] = r;
    }
    bench_need(kerf_device_wait(bench_gpu, NULL, &bench_error), "decode");
}

void place_shuffled(const placed *m, void *base)
{
    kerf_exec exec = {.device = bench_gpu};
    kerf_span codes = {(uint8_t *)base + m->offset[KERF_PLANE_CODES],
                       (size_t)m->g.plane[KERF_PLANE_CODES].bytes};
    bench_need(
        kerf_gemv_shuffle(m->g.format, codes, &exec, kerf_device_stream(bench_gpu), &bench_error),
        "shuffle");
}

weights weights_new(const variant *v, uint64_t rows, uint64_t cols, double total_bytes)
{
    enum { PLACES = 6 };
    weights w = {.format = v->format,
                 .name = v->name,
                 .flags = v->shuffled ? KERF_GEMV_SHUFFLED : 0,
                 .rows = rows,
                 .cols = cols,
                 .m = place(v->format, rows, cols, 0)};
    w.copies = (int)(total_bytes / (double)w.m.g.bytes) + 1;
    if (w.copies < 3) w.copies = 3;
    w.copy = bench_room((size_t)w.copies * sizeof *w.copy);
    for (int i = 0; i < w.copies; i++) {
        w.copy[i] = bench_device_room(w.m.end);
        place_numbers(&w.m, w.copy[i], 1 / sqrtf((float)cols), (uint64_t)i * 0x100000007 + rows);
    }
    w.values = bench_device_room(SAMPLED_ROWS * cols * sizeof *w.values);
    for (uint64_t i = 0; i < PLACES; i++) {
        uint64_t last = w.m.g.bands > SAMPLED_ROWS ? w.m.g.bands - SAMPLED_ROWS / PLACES - 2 : 0;
        sample_rows(&w, last * i / (PLACES - 1), SAMPLED_ROWS / PLACES);
    }
    for (int i = 0; v->shuffled && i < w.copies; i++) place_shuffled(&w.m, w.copy[i]);
    bench_need(kerf_device_wait(bench_gpu, NULL, &bench_error), "weights");
    return w;
}

void weights_free(weights *w)
{
    for (int i = 0; i < w->copies; i++) bench_need_cuda(cudaFree(w->copy[i]), "free");
    bench_need_cuda(cudaFree(w->values), "free");
    free(w->copy);
    memset(w, 0, sizeof *w);
}

double *weights_exact(const weights *w, const void *x, kerf_dtype t, unsigned columns)
{
    size_t n = columns * w->sampled * sizeof(double);
    double *y = bench_room(n), *on_device = bench_device_room(n);
    bench_need_cuda(
        reference(on_device, w->values, w->sampled, (size_t)w->cols, x, t, columns, bench_stream),
        "reference");
    bench_need_cuda(cudaMemcpyAsync(y, on_device, n, cudaMemcpyDeviceToHost, bench_stream), "copy");
    bench_need_cuda(cudaStreamSynchronize(bench_stream), "reference");
    bench_need_cuda(cudaFree(on_device), "free");
    return y;
}
