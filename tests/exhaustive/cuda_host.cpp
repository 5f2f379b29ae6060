/* cuda_host.cpp - see cuda_host.h. C++ because the toolkit's 16-bit types are classes. */
#include "cuda_host.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>
#include <cuda_runtime_api.h>

static float half_value(__half_raw raw)
{
    return __half2float(__half(raw));
}

static float bfloat_value(__nv_bfloat16_raw raw)
{
    return __bfloat162float(__nv_bfloat16(raw));
}

uint32_t cuda_e2m1(float x)
{
    return __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest);
}
uint32_t cuda_e2m3(float x)
{
    return __nv_cvt_float_to_fp6(x, __NV_E2M3, cudaRoundNearest);
}
uint32_t cuda_e3m2(float x)
{
    return __nv_cvt_float_to_fp6(x, __NV_E3M2, cudaRoundNearest);
}
uint32_t cuda_e4m3(float x)
{
    return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
}
uint32_t cuda_e5m2(float x)
{
    return __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2);
}
uint32_t cuda_e8m0_up(float x)
{
    return __nv_cvt_float_to_e8m0(x, __NV_SATFINITE, cudaRoundPosInf);
}
uint32_t cuda_fp16(float x)
{
    return static_cast<__half_raw>(__float2half_rn(x)).x;
}
uint32_t cuda_bf16(float x)
{
    return static_cast<__nv_bfloat16_raw>(__float2bfloat16_rn(x)).x;
}

float cuda_e2m1_value(uint32_t code)
{
    return half_value(__nv_cvt_fp4_to_halfraw(static_cast<__nv_fp4_storage_t>(code), __NV_E2M1));
}
float cuda_e2m3_value(uint32_t code)
{
    return half_value(__nv_cvt_fp6_to_halfraw(static_cast<__nv_fp6_storage_t>(code), __NV_E2M3));
}
float cuda_e3m2_value(uint32_t code)
{
    return half_value(__nv_cvt_fp6_to_halfraw(static_cast<__nv_fp6_storage_t>(code), __NV_E3M2));
}
float cuda_e4m3_value(uint32_t code)
{
    return half_value(__nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(code), __NV_E4M3));
}
float cuda_e5m2_value(uint32_t code)
{
    return half_value(__nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(code), __NV_E5M2));
}
float cuda_e8m0_value(uint32_t code)
{
    return bfloat_value(__nv_cvt_e8m0_to_bf16raw(static_cast<__nv_fp8_storage_t>(code)));
}
float cuda_fp16_value(uint32_t code)
{
    __half_raw raw;
    raw.x = static_cast<unsigned short>(code);
    return half_value(raw);
}
float cuda_bf16_value(uint32_t code)
{
    __nv_bfloat16_raw raw;
    raw.x = static_cast<unsigned short>(code);
    return bfloat_value(raw);
}

uint32_t cuda_version(void)
{
    return CUDART_VERSION;
}
