/* features.c - which instruction sets this processor has and this operating system saves. */
#include "cpu/features.h"

#include <stddef.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#define HWCAP_ASIMD_BIT (1ul << 1)
#endif

const kf_cpu_feature kf_cpu_features[] = {
    {"avx2", KF_CPU_AVX2},         {"bmi2", KF_CPU_BMI2},
    {"avx512f", KF_CPU_AVX512F},   {"avx512bw", KF_CPU_AVX512BW},
    {"avx512dq", KF_CPU_AVX512DQ}, {"avx512vl", KF_CPU_AVX512VL},
    {"neon", KF_CPU_NEON},         {NULL, 0},
};

static uint32_t hidden;

void kf_cpu_hide(uint32_t features)
{
    hidden = features;
}

#if defined(__x86_64__)

/* Registers that the operating system saves: bits of XCR0. */
static uint32_t saved_registers(void)
{
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    (void)high;
    return low;
}

static uint32_t detect(void)
{
    enum { OSXSAVE = 1 << 27, YMM = 0x6, ZMM = 0xe6 };
    uint32_t a, b, c, d, found = 0;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & OSXSAVE)) return 0;
    uint32_t saved = saved_registers();
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    if ((saved & YMM) == YMM) {
        found |= b >> 5 & 1 ? KF_CPU_AVX2 : 0;
        found |= b >> 8 & 1 ? KF_CPU_BMI2 : 0;
    }
    if ((saved & ZMM) == ZMM) {
        found |= b >> 16 & 1 ? KF_CPU_AVX512F : 0;
        found |= b >> 17 & 1 ? KF_CPU_AVX512DQ : 0;
        found |= b >> 30 & 1 ? KF_CPU_AVX512BW : 0;
        found |= b >> 31 & 1 ? KF_CPU_AVX512VL : 0;
    }
    return found;
}

#elif defined(__aarch64__) && defined(__APPLE__)

static uint32_t detect(void)
{
    return KF_CPU_NEON; /* all of them have it */
}

#elif defined(__aarch64__)

static uint32_t detect(void)
{
    return getauxval(AT_HWCAP) & HWCAP_ASIMD_BIT ? KF_CPU_NEON : 0;
}

#else

static uint32_t detect(void)
{
    return 0;
}

#endif

uint32_t kf_cpu_detect(void)
{
    static uint32_t known; /* all bits of the processor and one more; 0: not asked yet */
    const uint32_t asked = UINT32_C(1) << 31;
    uint32_t found = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (!found) {
        found = detect() | asked;
        __atomic_store_n(&known, found, __ATOMIC_RELAXED);
    }
    return found & ~asked & ~hidden;
}
