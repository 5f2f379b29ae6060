/* gemv_sums.cuh - what all kernels for tiles share between sums and y: factors of rows, alpha, bias
 * and residual, clusters; and how a launch waits for the one before it on the stream. */
#ifndef KERF_GEMV_SUMS_CUH
#define KERF_GEMV_SUMS_CUH

#include "cuda/gemv/gemv_ring.cuh"
#include "cuda/gemv/gemv_x.cuh"

namespace
{

/* --- y ------------------------------------------------------------------------------------------
 */

/* An element of the type of y as it lies in memory, and its value. */
__device__ __forceinline__ uint32_t load_bits(const kf_gemv_job &j, const uint8_t *p, uint64_t i)
{
    return j.y_type == KERF_F32 ? ((const uint32_t *)p)[i] : ((const uint16_t *)p)[i];
}

__device__ __forceinline__ float value_of(const kf_gemv_job &j, uint32_t bits)
{
    if (j.y_type == KERF_F32) return __uint_as_float(bits);
    return j.y_type == KERF_BF16 ? __uint_as_float(bits << 16)
                                 : __half2float(__ushort_as_half((unsigned short)bits));
}

__device__ __forceinline__ float load_y(const kf_gemv_job &j, const uint8_t *p, uint64_t i)
{
    return value_of(j, load_bits(j, p, i));
}

__device__ __forceinline__ void store_y(const kf_gemv_job &j, uint8_t *p, uint64_t i, float v)
{
    if (j.y_type == KERF_F32)
        ((float *)p)[i] = v;
    else if (j.y_type == KERF_F16)
        ((__half *)p)[i] = __float2half_rn(v);
    else
        ((uint16_t *)p)[i] = kf_bf16_encode(v);
}

__device__ __forceinline__ float silu(float z)
{
    return z / (1.0f + expf(-z));
}

/* W x in `sum`, and of the second part in `up`, as y has it before bias and residual. */
__device__ __forceinline__ float activate(const kf_gemv_job &j, float sum, float up)
{
    float v = sum;
    if (j.alpha != 1) v *= j.alpha, up *= j.alpha;
    return j.swiglu ? silu(v) * up : v;
}

/* What y is from the sum of a row. */
__device__ __forceinline__ void finish(const kf_gemv_job &j, const kf_gemv_matrix &m, uint32_t row,
                                       uint32_t column, float sum, float up)
{
    uint64_t at = column * m.y_stride + row;
    float v = activate(j, sum, up);
    if (m.bias) v += load_y(j, m.bias, row);
    if (m.residual) v += load_y(j, m.residual, at);
    store_y(j, m.y, at, v);
}

/* The address of what is at `at` here in the shared memory of another block of the cluster, and a
 * store there, or here. */
__device__ __forceinline__ uint32_t in_block(uint32_t at, uint32_t rank)
{
#if __CUDA_ARCH__ >= 900
    uint32_t there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
    return there;
#else
    (void)rank;
    return at;
#endif
}

__device__ __forceinline__ void put_there(uint32_t at, float v)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(at), "f"(v) : "memory");
#else
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(at), "f"(v) : "memory");
#endif
}

/* Once all blocks of the cluster have arrived with STORED, what they stored before is seen. */
template <bool STORED> __device__ __forceinline__ void arrive_at_cluster()
{
#if __CUDA_ARCH__ >= 900
    if constexpr (STORED)
        asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
    else
        asm volatile("barrier.cluster.arrive.relaxed.aligned;");
#endif
}
__device__ __forceinline__ void wait_for_cluster()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
#endif
}

__device__ __forceinline__ void begin_next()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

__device__ __forceinline__ void wait_previous()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* --- what rows share ----------------------------------------------------------------------------
 */

/* What a row's sum is multiplied by in the end, as it lies in memory, and its value. */
struct row_scale {
    uint32_t bits;
    float second;
};

template <typename JOB>
__device__ __forceinline__ row_scale load_row_scale(const JOB &j, const kf_gemv_matrix &m,
                                                    uint32_t row)
{
    row_scale r = {0, 1};
    uint64_t at = row * j.strides.row_groups; /* 1, or 0 where all rows have the same */
    const uint8_t *scale = m.plane[KERF_PLANE_SCALES];
    if constexpr (SCALING == KF_SCALES_AT_END && SCALE_SIZE == 4)
        r.bits = __ldg((const uint32_t *)scale + at);
    if constexpr (SCALING == KF_SCALES_AT_END && SCALE_SIZE == 2)
        r.bits = __ldg((const uint16_t *)scale + at);
    if constexpr (KF_ROW.second == KERF_SECOND_TENSOR)
        r.second = __ldg((const float *)m.plane[KERF_PLANE_SECOND]);
    return r;
}

__device__ __forceinline__ float factor_of(row_scale r)
{
    float f = UNIT;
    if constexpr (SCALING == KF_SCALES_AT_END && SCALE_SIZE == 4) f *= __uint_as_float(r.bits);
    if constexpr (SCALING == KF_SCALES_AT_END && SCALE_SIZE == 2)
        f *= kf_scale_value(KF_ROW.scale, (uint16_t)r.bits);
    if constexpr (KF_ROW.second == KERF_SECOND_TENSOR) f *= r.second;
    return f;
}

/* Whether rows have zero points of their own; otherwise all have the same, or groups have. */
constexpr bool ROW_ZEROS = HAS_ZEROS && !HAS_GROUPS;
constexpr uint32_t zero_of(kerf_element e)
{
    switch (e) {
    case KERF_ELEM_S2: return 2;
    case KERF_ELEM_S4: return 8;
    case KERF_ELEM_U2:
    case KERF_ELEM_U4: return 0;
    default: return 128;
    }
}
constexpr uint32_t ZERO_OF_ALL = zero_of(KF_ROW.element);

template <typename JOB>
__device__ __forceinline__ uint32_t row_zero(const JOB &j, const kf_gemv_matrix &m, uint32_t row)
{
    uint32_t zero = ZERO_OF_ALL;
    if constexpr (ROW_ZEROS) {
        zero = __ldg(m.plane[KERF_PLANE_ZEROS] + (uint64_t)row * j.strides.zero_bytes) &
               ((1u << BITS) - 1);
        if (KF_ROW.element == KERF_ELEM_S8) zero ^= 0x80;
    }
    return zero;
}

/* Factors and zero points of each row of the block. */
__device__ void prepare_rows(const kf_gemv_job &j, const team_span &s, float *factors,
                             uint32_t *zeros)
{
    for (uint32_t i = threadIdx.x; i < s.tiles * TILE; i += THREADS) {
        place p = s.at(i / TILE);
        const kf_gemv_matrix &m = s.part[p.part];
        uint32_t row = p.row + i % TILE;
        bool inside = row < m.rows;
        factors[i] = inside ? factor_of(load_row_scale(j, m, row)) : UNIT;
        zeros[i] = minus_1024(inside ? row_zero(j, m, row) : ZERO_OF_ALL);
    }
}

/* All 256 pairs of codes as halves, a copy for each bank. */
__device__ void prepare_table(uint32_t *table)
{
    if constexpr (HAS_TABLE) {
        kf_dequant unit = {1, 0, 0};
        for (uint32_t pair = threadIdx.x / 32; pair < 256; pair += blockDim.x / 32) {
            uint8_t byte = (uint8_t)pair;
            uint32_t first = kf_get_code(&byte, 4, kf_code_place(KF_ROW, 0));
            uint32_t second = kf_get_code(&byte, 4, kf_code_place(KF_ROW, 1));
            uint32_t low = __half_as_ushort(__float2half_rn(kf_value(KF_ROW, unit, first)));
            uint32_t high = __half_as_ushort(__float2half_rn(kf_value(KF_ROW, unit, second)));
            table[pair * 32 + threadIdx.x % 32] = low | high << 16;
        }
    }
}

} // namespace

#endif
