/* cuda_host.h - the CUDA toolkit's own host conversions (cuda_fp4.h, cuda_fp6.h, cuda_fp8.h,
 * cuda_fp16.h, cuda_bf16.h), to nearest even and saturating to finite, as an oracle that we did
 * not write. Only where the toolkit's headers are: KERF_TEST_CUDA. */
#ifndef KERF_CUDA_HOST_H
#define KERF_CUDA_HOST_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

uint32_t cuda_e2m1(float x);
uint32_t cuda_e2m3(float x);
uint32_t cuda_e3m2(float x);
uint32_t cuda_e4m3(float x);
uint32_t cuda_e5m2(float x);
uint32_t cuda_e8m0_up(float x);
uint32_t cuda_fp16(float x);
uint32_t cuda_bf16(float x);

float cuda_e2m1_value(uint32_t code);
float cuda_e2m3_value(uint32_t code);
float cuda_e3m2_value(uint32_t code);
float cuda_e4m3_value(uint32_t code);
float cuda_e5m2_value(uint32_t code);
float cuda_e8m0_value(uint32_t code);
float cuda_fp16_value(uint32_t code);
float cuda_bf16_value(uint32_t code);

uint32_t cuda_version(void); /* CUDART_VERSION */

#ifdef __cplusplus
}
#endif
#endif
