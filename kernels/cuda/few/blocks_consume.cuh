/* blocks_consume.cuh - a unit of GGUF's blocks from shared memory into a lane's sums; and what x
 * has for blocks with minima: its sums over groups. */
#ifndef KERF_BLOCKS_CONSUME_CUH
#define KERF_BLOCKS_CONSUME_CUH

#include "cuda/few/blocks_book.cuh"
#include "cuda/few/blocks_eight.cuh"
#include "cuda/gemv/gemv_sums.cuh"

namespace
{

/* --- sums of x ----------------------------------------------------------------------------------
 */

/* The sum of x over a group, of its octet `first` first. STEP: bytes from one octet to the next. */
template <int STEP> __device__ __forceinline__ float sum_of_group(uint32_t from, uint32_t first = 0)
{
    float sum = 0;
#pragma unroll
    for (int o = 0; o < GROUP_OCTETS; o++) {
        const uint4 v = shared_piece(from + (o + first) % GROUP_OCTETS * STEP);
        sum += low_half(v.x) + high_half(v.x) + (low_half(v.y) + high_half(v.y));
        sum += low_half(v.z) + high_half(v.z) + (low_half(v.w) + high_half(v.w));
    }
    return sum;
}

/* Sums of x over groups, of the halves that are multiplied. They lie behind x as
 * [column][stage][quarter][group]; of eight columns and more as add_rests() reads them.
 * All threads take part, once x is there. Returns whether a sum that this thread made is not
 * finite. */
template <int N>
__device__ __forceinline__ bool sum_full_x(const kf_gemv_job &j, uint32_t stages, uint32_t x_at,
                                           uint32_t thread)
{
    bool is_odd = false;
    const uint32_t step = column_bytes<N>(j), sums = x_at + N * step;
    const uint32_t octet = thread % 8 / (64 / GROUP); /* first: eight threads, all banks */
#pragma unroll 1
    for (uint32_t i = thread; i < stages * (STAGE_GROUPS * N / 4); i += THREADS) {
        const uint32_t column = i / 8 % (N / 4) * 4, group = i / (2 * N) * 8 + i % 8;
        uint32_t from = x_at + column * step + group * (GROUP * 2);
        uint32_t to = sums + sums_at<N>(group) + column * SUMS_BYTES;
#pragma unroll
        for (int c = 0; c < 4; c++, from += step, to += SUMS_BYTES) {
            const float v = sum_of_group<16>(from, octet);
            is_odd = is_odd || !(fabsf(v) < INFINITY);
            put_word(to, __float_as_uint(v));
        }
    }
    return is_odd;
}
template <int N>
__device__ __forceinline__ bool sum_x(const kf_gemv_job &j, uint32_t stages, uint32_t x_at,
                                      uint32_t thread)
{
    bool is_odd = false;
    const uint32_t step = column_bytes<N>(j), pitch = j.division.block_stages * (STAGE_GROUPS * 4);
#pragma unroll 1
    for (uint32_t i = thread; i < stages * STAGE_GROUPS; i += THREADS) {
        const uint32_t stage = i / STAGE_GROUPS, t = i % STAGE_GROUPS / OWN_GROUPS;
        uint32_t from = x_at + stage * X_STAGE;
        from += i % OWN_GROUPS * (GROUP_OCTETS * 64) + t * 16; /* octets of a group are 64 apart */
        uint32_t to = x_at + N * step + i * 4;
#pragma unroll 1
        for (int c = 0; c < N; c++, from += step, to += pitch) {
            const float sum = sum_of_group<64>(from);
            is_odd = is_odd || !(fabsf(sum) < INFINITY);
            put_word(to, __float_as_uint(sum));
        }
    }
    return is_odd;
}

/* --- the product --------------------------------------------------------------------------------
 */

/* x_end: what follows on x. */
template <int N>
__device__ __forceinline__ void settle_worker(column_worker &me, const kf_gemv_job &j,
                                              uint32_t x_end)
{
    me.by_words = j.strides.row_bytes % 4 == 0;
    me.sums_column = j.division.block_stages * (STAGE_GROUPS * 4);
    me.sums = x_end + (IS_FULL<N> ? me.lane * (SUMS_BYTES / 4) : me.lane % 4 * (OWN_GROUPS * 4));
}

/* Once x is there. */
template <int N>
__device__ __forceinline__ void settle_x(column_worker &me, const kf_gemv_job &j, uint32_t stages,
                                         uint32_t x_at, uint32_t thread)
{
    if constexpr (HAS_MINIMA) {
        bool is_odd;
        if constexpr (IS_FULL<N>)
            is_odd = sum_full_x<N>(j, stages, x_at, thread);
        else
            is_odd = sum_x<N>(j, stages, x_at, thread);
        me.is_odd = __syncthreads_or(is_odd);
    }
}

/* A quarter's sums of x, of each column, and what rests of minima make of them. */
template <int N> struct own_sums {
    uint32_t of[HAS_MINIMA ? N : 1][OWN_GROUPS];

    /* x: where the lane's x of this unit is. */
    __device__ __forceinline__ void load(const column_worker &me, uint32_t x)
    {
        if constexpr (HAS_MINIMA)
#pragma unroll
            for (int c = 0; c < N; c++)
                shared_bytes<OWN_GROUPS * 4>(of[c], me.sums + c * me.sums_column +
                                                        (x - me.x) / (X_STAGE / STAGE_GROUPS / 4));
    }
    /* Group i of the quarter: of both rows at once. */
    __device__ __forceinline__ void meet(int, const group_scale[2]) {}
    /* Adds a column's of it to a row's sum. */
    __device__ __forceinline__ void add(float &s, int n, int i, const group_scale &g) const
    {
        if (HAS_MINIMA) s = __fmaf_rn(__uint_as_float(of[n][i]), g.rest, s);
    }
};

/* consume_quarters() an element at a time, for an x that is not finite. A weight is multiplied in
 * two parts there; a part may be zero, or have the other sign, where the weight is not and has not,
 * and an infinite x would make NaN of it. x: of the lane's quarter, in the first column; step: from
 * a column to the next. */
template <int N>
__device__ __noinline__ lane_sums<N> consume_slowly(uint32_t row_g, uint32_t row_g8, uint32_t part,
                                                    uint32_t x, uint32_t step)
{
    lane_sums<N> sum = {};
#pragma unroll 1
    for (int i = 0; i < QUARTER_CODES; i++) {
        const unsigned at = part * QUARTER_CODES + i;
        const uint32_t of_x = x + i / 8 * 64 + octet_order(i % 8) * 2;
#pragma unroll
        for (int row = 0; row < 2; row++) {
            const float w = weight_at(row ? row_g8 : row_g, at);
#pragma unroll
            for (int c = 0; c < N; c++)
                sum.of[c][row] = __fmaf_rn(w, half_at(of_x + c * step), sum.of[c][row]);
        }
    }
    return sum;
}

/* Where the lane's quarters of rows g and g + 8 of a unit begin. */
__device__ __forceinline__ uint2 own_rows(const column_worker &me, uint32_t slot, const beside &b)
{
    return {slot + me.place + (HAS_SKEW ? b.skew[0] : 0),
            slot + me.place + 8 * PITCH + (HAS_SKEW ? b.skew[1] : 0)};
}

/* The lane's sums of a unit by consume_slowly(). x: where the lane's x of it is. */
template <int N>
__device__ __forceinline__ lane_sums<N> slow_sums(const column_worker &me, uint32_t slot,
                                                  uint32_t x, const beside &b)
{
    const uint2 row = own_rows(me, slot, b);
    const uint32_t step = me.x_pair / 2, second = N > 1 ? me.lane / 4 % 2 : 0;
    return consume_slowly<N>(row.x, row.y, own_part(me.lane), x - second * step, step);
}

/* Adds a unit to the lane's sums of rows g and g + 8: [column][row]. v: what x comes into; sums:
 * those of x, as own_sums. */
template <int N, int AHEAD, typename CODES, typename SUMS>
__device__ __forceinline__ void consume_quarters(const column_worker &me, uint32_t slot, uint32_t x,
                                                 const beside &b, float sum[N][2],
                                                 uint32_t v[AHEAD][PAIRS<N>][4], SUMS &sums)
{
    const uint2 of_rows = own_rows(me, slot, b);
    const uint32_t block[2] = {of_rows.x, of_rows.y}, part = own_part(me.lane);
    if (HAS_MINIMA && me.is_odd) {
        const lane_sums<N> a = slow_sums<N>(me, slot, x, b);
#pragma unroll
        for (int i = 0; i < 2 * N; i++) sum[i / 2][i % 2] += a.of[i / 2][i % 2];
        return;
    }
    sums.load(me, x);
    row_scales scales[2];
    float c[PAIRS<N>][4];
#pragma unroll
    for (int run = 0; run < RUNS; run++) {
        CODES codes[2];
        group_scale group[2];
        uint32_t zero[2];
#pragma unroll
        for (int row = 0; row < 2; row++) {
            codes[row].load(block[row], run, part);
            if constexpr (CODES::HAS_SCALE)
                scales[row].d[0] = codes[row].d;
            else
                scales[row].load(block[row], run, part);
            if (CODES::BACK != 1 && (!HAS_LEVELS || !run)) scales[row].d[0] *= CODES::BACK;
        }
#pragma unroll
        for (int k = 0; k < RUN_OCTETS; k++) {
            const int o = run * RUN_OCTETS + k, i = k / GROUP_OCTETS;
            if (k % GROUP_OCTETS == 0) {
#pragma unroll
                for (int row = 0; row < 2; row++) group[row].find(scales[row], run, i);
                sums.meet(run * RUN_GROUPS + i, group);
#pragma unroll
                for (int p = 0; p < PAIRS<N>; p++) c[p][0] = c[p][1] = c[p][2] = c[p][3] = 0;
            }
            const int shift = SWAPS ? quad_shift(2 * k) : 0;
            if (k % GROUP_OCTETS == 0 || (SWAPS && shift != quad_shift(2 * k - 1)))
#pragma unroll
                for (int row = 0; row < 2; row++) zero[row] = group[row].zero_at(shift);
            codes[0].fetch(run, k);
            codes[1].fetch(run, k);
            uint32_t p[2][2], q[2][2]; /* of rows g and g + 8: two quads */
#pragma unroll
            for (int s = 0; s < 2; s++) {
                codes[0].quad(run, 2 * k + s, zero[0], p[s]);
                codes[1].quad(run, 2 * k + s, zero[1], q[s]);
            }
#pragma unroll
            for (int i = 0; i < PAIRS<N>; i++) {
                uint32_t *w = v[o % AHEAD][i];
                live_piece(w, x + i * me.x_pair + o * 64, me.live);
                multiply(c[i], p[0][0], q[0][0], p[0][1], q[0][1], w[0], w[1]);
                multiply(c[i], p[1][0], q[1][0], p[1][1], q[1][1], w[2], w[3]);
            }
            if ((k + 1) % GROUP_OCTETS) continue;
#pragma unroll
            for (int n = 0; n < N; n++)
#pragma unroll
                for (int row = 0; row < 2; row++) {
                    float &s = sum[n][row];
                    s = __fmaf_rn(c[n / 2][row * 2 + n % 2], group[row].scale, s);
                    sums.add(s, n, run * RUN_GROUPS + i, group[row]);
                }
        }
    }
}

template <int N>
__device__ __forceinline__ void consume_unit(const column_worker &me, uint32_t slot, uint32_t x,
                                             const beside &b, float (*sum)[2], float (*)[2][4],
                                             uint32_t v[X_AHEAD<N>][PAIRS<N>][4])
{
    own_sums<N> sums;
    if constexpr (IS_FULL<N>) {
        consume_eights<N / 8>(me, slot, x, b, sum);
    } else if constexpr (HAS_BOOK) {
        if (HAS_ODD_BLOCKS && me.by_words)
            consume_quarters<N, X_AHEAD<N>, book_codes<HAS_ODD_BLOCKS>>(me, slot, x, b, sum, v,
                                                                        sums);
        else
            consume_quarters<N, X_AHEAD<N>, book_codes<false>>(me, slot, x, b, sum, v, sums);
    } else {
        consume_quarters<N, X_AHEAD<N>, raw_codes>(me, slot, x, b, sum, v, sums);
    }
}

} // namespace

#endif
