/* gemv_multiply.cuh - one step of a stage: codes from shared memory, decoded, times x. */
#ifndef KERF_GEMV_MULTIPLY_CUH
#define KERF_GEMV_MULTIPLY_CUH

#include "cuda/gemv_scales.cuh"

namespace
{

__device__ __forceinline__ void multiply(float c[4], const uint32_t a0, uint32_t a1, uint32_t a2,
                                         uint32_t a3, uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ __forceinline__ uint32_t shared_word(uint32_t at)
{
    uint32_t r;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(r) : "r"(at));
    return r;
}

__device__ __forceinline__ void load_matrices(uint32_t w[4], uint32_t at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                 : "r"(at));
}

/* What a warp knows while it works. */
template <int NB> struct worker {
    uint32_t lane;
    uint32_t place;       /* of the lane's row of a matrix in a stage, pieces twisted by its row */
    const uint8_t *x[NB]; /* the lane's place in x: column n, n + 8, or zeros                    */
    uint32_t x_step[NB];  /* from stage to stage                                                 */
    const uint32_t *table;
    const uint8_t *nothing; /* zeros, for the length of a stage */
    uint32_t zero[2]; /* minus_1024() of rows g, g + 8, where zeros are per row              */
    float offset;
};

/* The codes of block b of a stage: rows g in a, g + 8 in b. */
__device__ __forceinline__ void load_codes(uint32_t ring, uint32_t lane, uint32_t place, int block,
                                           uint32_t a[4], uint32_t b[4], uint32_t kept[4])
{
    if constexpr (BITS == 6) {
        /* Eight codes are six bytes: in two words, from the lower or the upper half of the first.
         */
        uint32_t t = lane % 4, at = ring + lane / 4 * PITCH + block * 24 + (6 * t & ~3u);
        uint32_t shift = t % 2 * 16;
        uint32_t low = shared_word(at), high = shared_word(at + 4);
        a[0] = __funnelshift_r(low, high, shift), a[1] = high >> shift;
        low = shared_word(at + 8 * PITCH), high = shared_word(at + 8 * PITCH + 4);
        b[0] = __funnelshift_r(low, high, shift), b[1] = high >> shift;
    } else {
        constexpr int per_load = BITS == 4 ? 2 : 1, loads = BITS == 16 ? 2 : 1;
        if (BITS != 4 || block % 2 == 0) {
#pragma unroll
            for (int l = 0; l < loads; l++) {
                uint32_t w[4], pair = block * loads / per_load + l;
                load_matrices(w, ring + (place ^ pair * 32));
                if constexpr (BITS == 4) {
                    a[0] = w[0], b[0] = w[1], kept[0] = w[2], kept[1] = w[3];
                } else {
                    a[2 * l] = w[0], b[2 * l] = w[1], a[2 * l + 1] = w[2], b[2 * l + 1] = w[3];
                }
            }
        } else {
            a[0] = kept[0], b[0] = kept[1];
        }
    }
}

/* minus_1024() of the group that a block of a stage is in. */
__device__ __forceinline__ uint32_t group_zero(uint32_t zeros, int block)
{
    constexpr uint32_t flip = KF_ROW.element == KERF_ELEM_S8 ? 0x80 : 0;
    return minus_1024((zeros >> block / GROUP_BLOCKS * BITS & ((1u << BITS) - 1)) ^ flip);
}

template <int NB, bool PLAIN>
__device__ __forceinline__ void consume_blocks(const worker<NB> &me, uint32_t ring, uint32_t stage,
                                               int step, const scales &s, float sum[NB][4])
{
    uint32_t kept[4];
    __half2 scale_pairs[2][4];
    if constexpr (SCALING == SCALING_CODES) {
        uint32_t pick =
            me.lane % 4 / 2 ? 0x7531 : 0x6420; /* a lane's eight are half a pair of 16s */
#pragma unroll
        for (int row = 0; row < 2; row++)
            for (int i = 0; i < 2; i++) {
                uint32_t four = __byte_perm(s.w[row][2 * i], s.w[row][2 * i + 1], pick);
                scale_pairs[row][2 * i] = as_half2(halves_of_e4m3(four));
                scale_pairs[row][2 * i + 1] = as_half2(upper_halves_of_e4m3(four));
            }
    }
    float group[NB][4];
    const uint8_t *x[NB];
#pragma unroll
    for (int n = 0; n < NB; n++) x[n] = me.x[n] + stage * me.x_step[n];
#pragma unroll
    for (int block = 0; block < BLOCKS; block++) {
        uint32_t a[4], b[4], p[4], q[4];
        load_codes(ring, me.lane, me.place, step * BLOCKS + block, a, b, kept);
        uint32_t zero[2] = {me.zero[0], me.zero[1]};
        if constexpr (HAS_ZEROS && HAS_GROUPS) {
            for (int row = 0; row < 2; row++) zero[row] = group_zero(s.zero[row], block);
        }
        decode(a, zero[0], me.table, p);
        decode(b, zero[1], me.table, q);
        if constexpr (SCALING == SCALING_CODES) {
            __half2 f = scale_pairs[0][block / 2], g = scale_pairs[1][block / 2];
            f = block % 2 ? __high2half2(f) : __low2half2(f);
            g = block % 2 ? __high2half2(g) : __low2half2(g);
#pragma unroll
            for (int i = 0; i < 4; i++) p[i] = mul_halves(p[i], f), q[i] = mul_halves(q[i], g);
        }
        if (SCALING == SCALING_GROUP && block % GROUP_BLOCKS == 0)
            for (int n = 0; n < NB; n++)
                for (int i = 0; i < 4; i++) group[n][i] = 0;
#pragma unroll
        for (int n = 0; n < NB; n++) {
            uint4 v = *(const uint4 *)(x[n] + (step * BLOCKS + block) * 64);
            float *c = SCALING == SCALING_GROUP ? group[n] : sum[n];
            multiply(c, p[0], q[0], p[1], q[1], v.x, v.y);
            multiply(c, p[2], q[2], p[3], q[3], v.z, v.w);
        }
        if (SCALING == SCALING_GROUP && (block + 1) % GROUP_BLOCKS == 0) {
            int i = block / GROUP_BLOCKS;
            float f = scale_at<PLAIN>(s, 0, i, me.offset), g = scale_at<PLAIN>(s, 1, i, me.offset);
#pragma unroll
            for (int n = 0; n < NB; n++) {
                sum[n][0] = __fmaf_rn(group[n][0], f, sum[n][0]);
                sum[n][2] = __fmaf_rn(group[n][2], g, sum[n][2]);
                sum[n][1] = __fmaf_rn(group[n][1], f, sum[n][1]);
                sum[n][3] = __fmaf_rn(group[n][3], g, sum[n][3]);
            }
        }
    }
}

template <int NB>
__device__ __forceinline__ void consume(const worker<NB> &me, uint32_t ring, uint32_t stage,
                                        int step, const scales &s, float sum[NB][4])
{
    if constexpr (KF_ROW.scale == KERF_SCALE_E8M0) {
        if (__any_sync(0xffffffffu, is_odd(s)))
            consume_blocks<NB, false>(me, ring, stage, step, s, sum);
        else
            consume_blocks<NB, true>(me, ring, stage, step, s, sum);
    } else {
        consume_blocks<NB, true>(me, ring, stage, step, s, sum);
    }
}

} // namespace

#endif
