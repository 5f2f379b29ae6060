/* gemv_multiply.cuh - the tensor core's product, and reads and writes of shared memory. */
#ifndef KERF_GEMV_MULTIPLY_CUH
#define KERF_GEMV_MULTIPLY_CUH

#include "cuda/gemv/gemv_scales.cuh"

namespace
{

#define KF_MMA(TYPE)                                                           \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE                 \
        ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                       \
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))

__device__ __forceinline__ void multiply(float c[4], const uint32_t a0, uint32_t a1, uint32_t a2,
                                         uint32_t a3, uint32_t b0, uint32_t b1)
{
    if constexpr (WAY == KF_WAY_BF16)
        KF_MMA("bf16");
    else
        KF_MMA("f16");
}

#undef KF_MMA

/* Eight of K in numbers of fp32, of whose mantissas the tensor core takes ten bits. */
__device__ __forceinline__ void multiply_tf32(float c[4], const uint32_t a[4], uint32_t b0,
                                              uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32"
        ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t shared_word(uint32_t at)
{
    uint32_t r;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(r) : "r"(at));
    return r;
}

__device__ __forceinline__ uint4 shared_piece(uint32_t at)
{
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(at));
    return v;
}

/* A piece, for live lanes; the others keep what they have. */
__device__ __forceinline__ void live_piece(uint32_t v[4], uint32_t at, uint32_t live)
{
    asm volatile("{.reg .pred p; setp.ne.u32 p, %5, 0; @p ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];}"
                 : "+r"(v[0]), "+r"(v[1]), "+r"(v[2]), "+r"(v[3])
                 : "r"(at), "r"(live));
}

__device__ __forceinline__ void put_word(uint32_t at, uint32_t v)
{
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(v) : "memory");
}

__device__ __forceinline__ void put_piece(uint32_t at, uint4 v)
{
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(v.x), "r"(v.y), "r"(v.z),
                 "r"(v.w)
                 : "memory");
}

/* N bytes, in as many words as it takes. */
template <int N> __device__ __forceinline__ void shared_bytes(uint32_t *w, uint32_t at)
{
    if constexpr (N >= 16) {
#pragma unroll
        for (int i = 0; i < N / 16; i++) {
            uint4 v = shared_piece(at + i * 16);
            w[4 * i] = v.x, w[4 * i + 1] = v.y, w[4 * i + 2] = v.z, w[4 * i + 3] = v.w;
        }
    } else if constexpr (N == 8) {
        asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(w[0]), "=r"(w[1]) : "r"(at));
    } else if constexpr (N == 4) {
        w[0] = shared_word(at);
    } else if constexpr (N == 2) {
        asm volatile("{.reg .b16 h; ld.shared.u16 h, [%1]; cvt.u32.u16 %0, h;}"
                     : "=r"(w[0])
                     : "r"(at));
    } else {
        asm volatile("{.reg .b16 h; ld.shared.u8 h, [%1]; cvt.u32.u16 %0, h;}"
                     : "=r"(w[0])
                     : "r"(at));
    }
}

__device__ __forceinline__ void load_matrices(uint32_t w[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                 : "r"(at));
}

} // namespace

#endif
