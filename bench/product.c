/* product.c - float32 products of the forward pass: floating-point operations per second of one
 * thread's CPU time, beside what fused multiply-adds on registers alone reach in the same run.
 *
 *   bench_product [-o RESULT.json] */
#include <stdlib.h>
#include <string.h>

#include "cpu/product_choice.h"
#include "harness.h"

#if defined(__x86_64__)
#include <immintrin.h>
typedef __m256 V;
#define LANES 8
#define ABLE __attribute__((target("avx2,fma")))
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define SPLAT(a) _mm256_set1_ps(a)
#define STORE(p, v) _mm256_storeu_ps(p, v)
#elif defined(__aarch64__)
#include <arm_neon.h>
typedef float32x4_t V;
#define LANES 4
#define ABLE
#define FMA(a, b, c) vfmaq_f32(c, a, b)
#define SPLAT(a) vdupq_n_f32(a)
#define STORE(p, v) vst1q_f32(p, v)
#endif

#define CHAINS 12
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 12")
#endif
#define TRIALS 15

/* Operations per second on registers: twelve chains that wait for nobody. */
ABLE static double peak(void)
{
    V sum[CHAINS]; /* all loops over them are unrolled, so that they are registers */
    volatile float kept[LANES];
    const long steps = 4000000;
    UNROLL for (int c = 0; c < CHAINS; c++) sum[c] = SPLAT((float)c);
    const V a = SPLAT(0.999f), b = SPLAT(0.001f);
    const double start = bench_cpu_s();
    for (long i = 0; i < steps; i++)
        UNROLL for (int c = 0; c < CHAINS; c++) sum[c] = FMA(sum[c], a, b);
    const double s = bench_cpu_s() - start;
    UNROLL for (int c = 0; c < CHAINS; c++)
    {
        float out[LANES];
        STORE(out, sum[c]);
        for (int k = 0; k < LANES; k++) kept[k] = out[k];
    }
    (void)kept;
    return 2.0 * LANES * CHAINS * (double)steps / s;
}

static void measure(bench_report *r, kf_product *product, size_t rows, size_t outputs,
                    size_t inputs)
{
    float *x = bench_alloc(rows * inputs * sizeof *x),
          *w = bench_alloc(outputs * inputs * sizeof *w);
    float *y = bench_alloc(rows * outputs * sizeof *y);
    double rate[TRIALS], share[TRIALS];
    char name[64];
    bench_weights(x, rows * inputs, 'f');
    bench_weights(w, outputs * inputs, 'f');
    for (int t = 0; t < TRIALS; t++) {
        const double ceiling = peak();
        const double start = bench_cpu_s();
        const kerf_status s = kf_product_on(product, 1, (kf_rows){y, rows, outputs, outputs},
                                            (kf_rows){x, rows, inputs, inputs},
                                            (kf_factor){w, outputs, inputs, inputs, 1}, NULL);
        if (s != KERF_OK) bench_die("a product failed");
        rate[t] = 2.0 * (double)rows * (double)outputs * (double)inputs / (bench_cpu_s() - start);
        share[t] = rate[t] / ceiling;
    }
    snprintf(name, sizeof name, "product %zu x %zu x %zu", rows, outputs, inputs);
    bench_add(r, name, "operations/s", bench_summary(rate, TRIALS), "fma on registers",
              bench_summary(share, TRIALS).median);
    free(x);
    free(w);
    free(y);
}

int main(int argc, char **argv)
{
    const char *path = argc == 3 && !strcmp(argv[1], "-o") ? argv[2] : "-";
    kf_product *const product = kf_product_find();
    bench_report *r = bench_open("product");
    measure(r, product, 2048, 576, 576);
    measure(r, product, 2048, 1536, 576);
    measure(r, product, 512, 4096, 4096);
    measure(r, product, 64, 64, 64);
    bench_close(r, path);
    return 0;
}
