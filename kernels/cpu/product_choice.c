/* product_choice.c - which product this processor runs, and how one is spread over threads: blocks
 * of Y, each of which one thread computes from beginning to end. */
#include "cpu/product_choice.h"

#include "cpu/features.h"
#include "cpu/product_ops.h"

#define BLOCK_ROWS ((size_t)384)
#define BLOCK_OUTPUTS ((size_t)256)
#define WORTH_THREADS 1e6 /* products of two numbers; less is done before a thread has begun */

kf_product *kf_product_find(void)
{
    const uint32_t has = kf_cpu_detect();
    (void)has;
#if defined(KERF_REF_ONLY)
    return kf_product_plain;
#elif defined(__x86_64__)
    __builtin_cpu_init();
    const int fma = __builtin_cpu_supports("fma");
    if (fma && has & KF_CPU_AVX2 && has & KF_CPU_AVX512F) return kf_product_avx512;
    if (fma && has & KF_CPU_AVX2) return kf_product_avx2;
#elif defined(__aarch64__) && defined(__ARM_NEON)
    if (has & KF_CPU_NEON) return kf_product_neon;
#endif
    return kf_product_plain;
}

typedef struct blocks {
    kf_product *product;
    kf_rows y, x;
    kf_factor w;
    size_t across, outputs; /* blocks per row of blocks; outputs of one */
} blocks;

static kerf_status run_block(void *ctx, uint64_t i)
{
    const blocks *b = ctx;
    const size_t row = (size_t)i / b->across * BLOCK_ROWS, out = (size_t)i % b->across * b->outputs;
    kf_rows y = b->y, x = b->x;
    kf_factor w = b->w;
    float scratch[KF_PRODUCT_SCRATCH] __attribute__((aligned(64)));
    y.rows = x.rows = y.rows - row < BLOCK_ROWS ? y.rows - row : BLOCK_ROWS;
    y.columns = w.outputs = w.outputs - out < b->outputs ? w.outputs - out : b->outputs;
    y.p += row * y.stride + out;
    x.p += row * x.stride;
    w.p += out * w.step_output;
    b->product(y, x, w, scratch);
    return KERF_OK;
}

kerf_status kf_product_on(kf_product *product, int threads, kf_rows y, kf_rows x, kf_factor w,
                          kerf_error *err)
{
    if (y.rows == 0 || w.outputs == 0) return KERF_OK;
    blocks b = {product, y, x, w, 0, BLOCK_OUTPUTS};
    if ((double)y.rows * (double)w.outputs * (double)w.inputs < WORTH_THREADS) threads = 1;
    const size_t down = (size_t)kf_div_up(y.rows, BLOCK_ROWS);
    const uint64_t wanted = (uint64_t)kf_thread_count(threads) * 4;
    while (b.outputs > 64 && down * kf_div_up(w.outputs, b.outputs) < wanted) b.outputs /= 2;
    b.across = (size_t)kf_div_up(w.outputs, b.outputs);
    const kerf_status s = kf_parallel(down * b.across, threads, run_block, &b);
    return s == KERF_OK ? s
                        : kf_fail(err, s, KF_NOWHERE, "a product failed: %s", kerf_status_name(s));
}
