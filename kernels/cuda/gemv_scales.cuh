/* gemv_scales.cuh - scales, zero points and second-level scales of the rows that a lane of a tensor
 * core sums, read a step ahead of the codes that they belong to. */
#ifndef KERF_GEMV_SCALES_CUH
#define KERF_GEMV_SCALES_CUH

#include "cuda/gemv_ring.cuh"

namespace
{

enum scaling { SCALING_ROW, SCALING_CODES, SCALING_GROUP };

constexpr bool HAS_GROUPS = KF_ROW.geometry == KERF_GROUP_BLOCK ||
                            KF_ROW.geometry == KERF_GROUP_FLAT ||
                            KF_ROW.geometry == KERF_GROUP_TILE;
constexpr scaling SCALING = !HAS_GROUPS          ? SCALING_ROW
                            : KF_ROW.group == 16 ? SCALING_CODES
                                                 : SCALING_GROUP;
constexpr uint32_t TILE_ROWS = KF_ROW.group ? KF_ROW.group : 1; /* that share a row of scales */
constexpr bool HAS_ZEROS = KF_ROW.zero == KERF_ZERO_CODE;
constexpr bool HAS_TABLE = WAY == WAY_CODEBOOK;
constexpr bool NESTED = KF_ROW.second == KERF_SECOND_NESTED;

constexpr int size_of_scale(kerf_scale_kind k)
{
    return k == KERF_SCALE_F32                           ? 4
           : k == KERF_SCALE_F16 || k == KERF_SCALE_BF16 ? 2
           : k == KERF_SCALE_NONE                        ? 0
                                                         : 1;
}
constexpr int SCALE_SIZE = size_of_scale(KF_ROW.scale);
constexpr int GROUPS = HAS_GROUPS ? STEP_CODES / (int)KF_ROW.group : 0; /* of a step */
constexpr int SCALE_BYTES = GROUPS * SCALE_SIZE;
constexpr int SCALE_WORDS = HAS_GROUPS ? (SCALE_BYTES + 3) / 4 : 1;
constexpr int ZERO_BYTES = HAS_ZEROS ? (GROUPS * BITS + 7) / 8 : 0;
constexpr int GROUP_BLOCKS = HAS_GROUPS && KF_ROW.group >= 32 ? (int)KF_ROW.group / 32 : 1;

constexpr bool TILED =
    WAY != WAY_NONE && BITS >= 4 &&
    (!HAS_GROUPS || (SCALING == SCALING_CODES ? KF_ROW.scale == KERF_SCALE_E4M3
                                              : GROUPS >= 1 && KF_ROW.group % 32 == 0));

/* Of rows g and g + 8 of a tile and one stage. */
struct scales {
    uint32_t w[2][SCALE_WORDS];
    uint32_t zero[2];
    float second[2];
};

__device__ __forceinline__ uint32_t bytes_at(const uint8_t *p, int have)
{
    uint32_t w = 0;
#pragma unroll
    for (int i = 0; i < 4; i++)
        if (i < have) w |= (uint32_t)__ldg(p + i) << 8 * i;
    return w;
}

/* SCALE_BYTES bytes; those past `have` are zero. */
__device__ __forceinline__ void load_scales(uint32_t w[SCALE_WORDS], const uint8_t *p, int have,
                                            int wide)
{
    if (wide) {
        if constexpr (SCALE_BYTES == 16) {
            uint4 v = __ldg((const uint4 *)p);
            w[0] = v.x, w[1] = v.y, w[2] = v.z, w[3] = v.w;
        } else if constexpr (SCALE_BYTES == 8) {
            uint2 v = __ldg((const uint2 *)p);
            w[0] = v.x, w[1] = v.y;
        } else if constexpr (SCALE_BYTES == 4) {
            w[0] = __ldg((const uint32_t *)p);
        } else {
            w[0] = __ldg((const uint16_t *)p);
        }
        return;
    }
    for (int i = 0; i < SCALE_WORDS; i++)
        w[i] = bytes_at(p + 4 * i, min(have, SCALE_BYTES) - 4 * i);
}

/* Scale i of a stage. PLAIN: no E8M0 byte is 0 or 255. */
template <bool PLAIN>
__device__ __forceinline__ float scale_at(const scales &s, int row, int i, float offset)
{
    const uint32_t *w = s.w[row];
    if constexpr (KF_ROW.scale == KERF_SCALE_F32) {
        return __uint_as_float(w[i]);
    } else if constexpr (KF_ROW.scale == KERF_SCALE_F16) {
        return __half2float(__ushort_as_half((unsigned short)(w[i / 2] >> 16 * (i % 2))));
    } else if constexpr (KF_ROW.scale == KERF_SCALE_BF16) {
        return __uint_as_float(i % 2 ? w[i / 2] & 0xffff0000u : w[i / 2] << 16);
    } else {
        uint32_t word = w[i / 4], at = 8 * (i % 4);
        if constexpr (KF_ROW.scale == KERF_SCALE_MAP8) {
            kf_scale stored = {word >> at & 0xff, 0};
            return kf_dequant_init(KF_ROW, stored, s.second[row], offset).scale;
        } else if constexpr (PLAIN) {
            return __uint_as_float((at <= 16 ? word << (23 - at) : word >> (at - 23)) &
                                   0x7f800000u);
        } else {
            return kf_e8m0_decode(word >> at & 0xff);
        }
    }
}

__device__ __forceinline__ bool has_zero_byte(uint32_t w)
{
    return (w - 0x01010101u) & ~w & 0x80808080u;
}

/* Bytes that an exponent field does not express: 2^-127, and NaN. Those past the end of a row
 * count too, which costs a little and changes nothing. */
__device__ __forceinline__ bool is_odd(const scales &s)
{
    bool odd = false;
    if constexpr (KF_ROW.scale == KERF_SCALE_E8M0)
        for (int i = 0; i < SCALE_WORDS; i++)
            for (int row = 0; row < 2; row++)
                odd = odd || has_zero_byte(s.w[row][i]) || has_zero_byte(~s.w[row][i]);
    return odd;
}

/* The scales that a warp's run needs next. */
struct scale_feed {
    const uint8_t *from[2];
    const uint8_t *zeros[2];
    uint64_t group[2];
    uint32_t left; /* groups of the row from here on */
    const float *second;

    /* Rows past the last stand for the last: what comes of them is not written. */
    __device__ __forceinline__ void aim(const kf_gemv_job &j, const span &s, const cursor &c,
                                        uint32_t lane)
    {
        if constexpr (HAS_GROUPS) {
            place p = place_of(j, s.tile + c.tile);
            const kf_gemv_matrix &m = j.part[p.part];
            uint64_t done = (uint64_t)(s.stage + c.stage) * (STEPS * GROUPS);
            second = (const float *)m.plane[KERF_PLANE_SECOND];
            left = (uint32_t)(j.row_groups - done);
#pragma unroll
            for (int half = 0; half < 2; half++) {
                uint32_t row = min(p.row + lane / 4 + 8 * half, m.rows - 1);
                if (KF_ROW.geometry == KERF_GROUP_TILE) row = p.row / TILE_ROWS;
                group[half] = row * j.row_groups + done;
                from[half] = m.plane[KERF_PLANE_SCALES] + group[half] * SCALE_SIZE;
                if constexpr (HAS_ZEROS)
                    zeros[half] = m.plane[KERF_PLANE_ZEROS] + row * j.zero_bytes + done * BITS / 8;
            }
        }
    }

    /* To the next step of the row. Where scales are read whole and there is none, it stays: codes
     * and x are zero there, and the scales of the row's own do no harm. */
    __device__ __forceinline__ void advance(int wide)
    {
        if (wide && left <= GROUPS) return;
        left -= min(left, (uint32_t)GROUPS);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            from[half] += SCALE_BYTES;
            if constexpr (HAS_ZEROS) zeros[half] += ZERO_BYTES;
            if constexpr (NESTED) group[half] += GROUPS;
        }
    }

    __device__ __forceinline__ int here() const
    {
        return (int)min(left, (uint32_t)GROUPS);
    }

    /* What goes with scales. */
    __device__ __forceinline__ void fetch_rest(int half, uint32_t &zero, float &above) const
    {
        if constexpr (HAS_ZEROS) zero = bytes_at(zeros[half], (here() * BITS + 7) / 8);
        if constexpr (NESTED) above = __ldg(second + group[half] / KF_NEST_BLOCKS);
    }

    __device__ __forceinline__ void fetch(scales &out, int wide) const
    {
        if constexpr (HAS_GROUPS) {
#pragma unroll
            for (int half = 0; half < 2; half++) {
                load_scales(out.w[half], from[half], here() * SCALE_SIZE, wide);
                fetch_rest(half, out.zero[half], out.second[half]);
            }
        }
    }
};

} // namespace

#endif
