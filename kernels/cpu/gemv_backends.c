/* gemv_backends.c - which backends of the matrix-vector product this machine can run. With
 * KERF_REF_ONLY the reference alone, as in codecs/cpu/backends.c. */
#include "cpu/amx.h"
#include "cpu/features.h"
#include "cpu/gemv_ops.h"

size_t kf_gemv_backends(const kf_gemv_ops *out[KF_GEMV_BACKENDS])
{
    size_t n = 0;
    uint32_t has = kf_cpu_detect();
    out[n++] = &kf_gemv_ref;
#if defined(KERF_REF_ONLY)
    (void)has;
#elif defined(__x86_64__)
    __builtin_cpu_init();
    int fma = __builtin_cpu_supports("fma"); /* a processor with AVX2 and FMA has F16C */
    if (fma && has & KF_CPU_AVX2) {
        /* Subnormal numbers cost nothing on a Zen 3, which is of AMD's family 19h; a Xeon takes up
         * to eighty times as long for them. Others were not measured. */
        const int are_quick = __builtin_cpu_is("amdfam19h");
        if (!are_quick) out[n++] = &kf_gemv_avx2bf16;
        out[n++] = &kf_gemv_avx2;
        out[n++] = &kf_gemv_avx2int;
        if (are_quick) out[n++] = &kf_gemv_avx2bf16;
    }
#ifndef KERF_NO_AVX512
    const uint32_t wide = KF_CPU_AVX2 | KF_CPU_AVX512F | KF_CPU_AVX512BW | KF_CPU_AVX512VL;
    if (fma && (has & wide) == wide) {
        out[n++] = &kf_gemv_avx512;
        if (__builtin_cpu_supports("avx512bf16")) out[n++] = &kf_gemv_avx512bf16;
        if (__builtin_cpu_supports("avx512vnni")) out[n++] = &kf_gemv_avx512int;
#ifdef KERF_AMX
        if (kf_amx_may_run()) out[n++] = &kf_gemv_amx;
#endif
    }
#endif
#elif defined(__aarch64__) && defined(__ARM_NEON)
    if (has & KF_CPU_NEON) {
        out[n++] = &kf_gemv_neon;
        out[n++] = &kf_gemv_neonint;
    }
#endif
    return n;
}
