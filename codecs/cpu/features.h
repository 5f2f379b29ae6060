/* features.h - what this processor can do, as far as a backend asks. */
#ifndef KERF_FEATURES_H
#define KERF_FEATURES_H

#include <stdint.h>

enum {
    KF_CPU_AVX2 = 1 << 0, /* with the operating system saving its registers, as below */
    KF_CPU_BMI2 = 1 << 1,
    KF_CPU_AVX512F = 1 << 2,
    KF_CPU_AVX512BW = 1 << 3,
    KF_CPU_AVX512DQ = 1 << 4,
    KF_CPU_AVX512VL = 1 << 5,
    KF_CPU_NEON = 1 << 6
};

typedef struct kf_cpu_feature {
    const char *name; /* "avx512bw" */
    uint32_t bit;
} kf_cpu_feature;

/* All that are known, on any processor; ends with {NULL, 0}. */
extern const kf_cpu_feature kf_cpu_features[];

/* Those of this processor, less the hidden ones. */
uint32_t kf_cpu_detect(void);

/* For tests: acts as if the processor lacked these. Not while other threads encode or decode. */
void kf_cpu_hide(uint32_t features);

#endif
