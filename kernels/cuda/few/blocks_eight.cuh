/* blocks_eight.cuh - a unit of GGUF's blocks times five to eight columns of x, or nine to 16.
 *
 * With up to four columns each quarter of a stage has columns of the tensor core of its own, six of
 * whose eight read zeros (gemv_column.cuh). Eight columns fill it: so all of a product's 16
 * elements must have one scale. Lane t of a quad takes quad t of every 16 elements that lie
 * together, and has the sums of rows g and g + 8, columns 2 t and 2 t + 1. Sixteen columns are two
 * products with the same codes: then it has those of columns 2 t + 8 and 2 t + 9, too.
 *
 *     16 elements   | quad 0 | quad 1 | quad 2 | quad 3 |
 *     lane t          0        1        2        3           the same scale for all of them
 *
 * Any 16 will do that have one scale. Where 32 have it and their bytes lie one behind the other
 * (q4_k, q5_k), the lane takes octet t of 32: two quads, each for a product, whose codes and whose
 * x are one read of shared memory instead of two.
 *
 * Scales are found as before, a quarter of a stage by each lane, which hands them to the others. */
#ifndef KERF_BLOCKS_EIGHT_CUH
#define KERF_BLOCKS_EIGHT_CUH

#include "cuda/few/blocks_scales.cuh"
#include "cuda/few/gemv_column_x.cuh"

namespace
{

/* Where codes lie in a whole block. */
constexpr kf_place WHOLE = BLOCK.low;
constexpr bool IN_TWOS = WHOLE.run == 8; /* 16 elements are low and high nibbles of 8 bytes */
constexpr int STAGE_BLOCKS = STAGE_CODES / (int)BLOCK.elements;

/* A lane's words of codes that are read at once, for so many products; of x, FULL_PIECE is. */
constexpr int LANE_WORDS = TILING.by_octets ? 2 : 1;

__device__ __forceinline__ void load_lane_words(uint32_t *w, uint32_t at)
{
    if constexpr (ALIGNED == 16) /* as all that have two are */
        shared_bytes<LANE_WORDS * 4>(w, at);
    else
        load_words<LANE_WORDS>(w, at);
}

/* The lane's words of a row's block: those that hold the bits of its quads. */
struct own_words {
    static constexpr int LOWS = BLOCK.elements * WHOLE.bits / 8 / 16 + (IN_TWOS ? 2 : 0);
    static constexpr int HIGHS = HIGH_BYTES ? BLOCK.elements * HIGH.bits / 8 / 16 : HIGH_WORDS;
    uint32_t low[BLOCK.book ? 2 * LOWS : LOWS], high[HIGHS ? HIGHS : 1];

    /* block: its first byte. */
    __device__ __forceinline__ void load(uint32_t block, uint32_t t)
    {
#pragma unroll
        for (int i = 0; i < LOWS; i += LANE_WORDS) {
            uint32_t w[LANE_WORDS];
            if constexpr (IN_TWOS) { /* of 16 elements i: the lane's four, in low nibbles */
                load_lane_words(w, block + WHOLE.at + 8 * i + t % 2 * 4);
                w[0] >>= t / 2 * 4;
            } else {
                load_lane_words(w, block + WHOLE.at + 16 * i + 4 * LANE_WORDS * t);
            }
#pragma unroll
            for (int k = 0; k < LANE_WORDS; k++)
                if constexpr (BLOCK.book)
                    look_up_book(w[k], low + 2 * (i + k));
                else
                    low[i + k] = w[k];
        }
        if constexpr (HIGH_BYTES)
#pragma unroll
            for (int i = 0; i < HIGHS; i += LANE_WORDS)
                load_lane_words(high + i, block + HIGH.at + 16 * i + 4 * LANE_WORDS * t);
        else if constexpr (HIGHS) {
            load_lane_words(high, block + HIGH.at);
            high[0] >>= 4 * t;
        }
    }

    static __device__ __forceinline__ int shift_of(int sixteen)
    {
        return IN_TWOS ? 0 : (int)kf_place_shift(WHOLE, 16 * sixteen);
    }
    /* The lane's quad of the block's 16 elements of that number. */
    __device__ __forceinline__ void quad(int sixteen, uint32_t zero, uint32_t p[2]) const
    {
        const int i = 16 * sixteen, shift = shift_of(sixteen);
        const int word = IN_TWOS ? sixteen : (int)(kf_place_byte(WHOLE, i) - WHOLE.at) / 16;
        uint32_t above = 0;
        if constexpr (HIGH_BYTES)
            above = high_above(high[(kf_place_byte(HIGH, i) - HIGH.at) / 16],
                               (int)kf_place_shift(HIGH, i));
        else if constexpr (HIGHS != 0)
            above = four_above(high[0] >> 16 * sixteen);
        if constexpr (BLOCK.book)
            halves_of_book(low + 2 * word, shift, zero, p);
        else
            halves_of_quad(low[word], shift, above, zero, p);
    }
};

/* Which lane of a quad has group i of a stage's, and as which of its own. */
KF_HD_CONST int owner_of(int i)
{
    return IS_SPLIT ? i / 8 * 2 + i % 4 / 2 : i / OWN_GROUPS;
}
KF_HD_CONST int place_of(int i)
{
    return IS_SPLIT ? i % 8 / 4 * 2 + i % 2 : i % OWN_GROUPS;
}

/* The scales of both rows' groups that a lane finds, for all lanes of its quad. */
struct shared_scales {
    group_scale own[2][OWN_GROUPS];
    uint32_t lane;

    /* block: the lane's own, of both rows. */
    __device__ __forceinline__ void find(const uint32_t block[2], uint32_t of_lane)
    {
        lane = of_lane;
#pragma unroll
        for (int row = 0; row < 2; row++) {
            row_scales s;
#pragma unroll
            for (int run = 0; run < RUNS; run++) {
                s.load(block[row], run, own_part(lane));
#pragma unroll
                for (int i = 0; i < RUN_GROUPS; i++) own[row][run * RUN_GROUPS + i].find(s, run, i);
            }
        }
    }
    __device__ __forceinline__ group_scale get(int row, int i) const
    {
        const uint32_t from = (lane & ~3u) + owner_of(i);
        group_scale s = own[row][place_of(i)];
        s.scale = __shfl_sync(0xffffffffu, s.scale, from);
        if (HAS_MINIMA) s.zero = __shfl_sync(0xffffffffu, s.zero, from);
        return s;
    }
};

/* --- rests of minima ----------------------------------------------------------------------------
 *
 * What minima leave is a product, too: rests [row][group] times sums of x [group][column]. The
 * tensor core takes eight groups at a time, two of each lane of a quad, so a lane multiplies by the
 * rests that it found itself. Both factors are fp32, of which the tensor core takes eleven bits: so
 * each is two numbers, the first with its upper bits, and of the four products all but that of both
 * second ones are added up. What is left out is at most 2^-22 of a term.
 *
 *     sums of x   [stage][run of a lane's groups][column][lane t][group of the run]
 */
constexpr int SUMS_RUN = OWN_GROUPS < 4 ? OWN_GROUPS : 4; /* of one read */
constexpr uint32_t SUMS_BYTES = 4 * SUMS_RUN * 4;         /* of a column and run */

/* Where the first column's sum of x over a group lies, from the first of all sums on. */
template <int N> __device__ __forceinline__ uint32_t sums_at(uint32_t group)
{
    const uint32_t stage = group / STAGE_GROUPS, t = group % STAGE_GROUPS / OWN_GROUPS;
    const uint32_t run = group % OWN_GROUPS / SUMS_RUN;
    return ((stage * (OWN_GROUPS / SUMS_RUN) + run) * (N * 4) + t) * (SUMS_RUN * 4) +
           group % SUMS_RUN * 4;
}

/* An fp32 as two numbers of the tensor core. */
struct two_parts {
    uint32_t high, low;

    __device__ __forceinline__ explicit two_parts(float v)
    {
        high = __float_as_uint(v) & 0xffffe000u;
        low = __float_as_uint(v - __uint_as_float(high));
    }
};

/* Adds rests times sums of x to the lane's sums of a unit. x: where the lane's sums of it are. */
template <int EIGHTS>
__device__ __forceinline__ void add_rests(const shared_scales &scales, uint32_t x,
                                          float sum[2 * EIGHTS][2])
{
    float c[EIGHTS][4] = {};
#pragma unroll
    for (int run = 0; run < OWN_GROUPS / SUMS_RUN; run++) {
        uint32_t of_x[EIGHTS][SUMS_RUN];
#pragma unroll
        for (int e = 0; e < EIGHTS; e++)
            shared_bytes<SUMS_RUN * 4>(of_x[e], x + (run * EIGHTS + e) * (8 * SUMS_BYTES));
#pragma unroll
        for (int i = 0; i < SUMS_RUN; i += 2) {
            uint32_t high[4], low[4]; /* [group][row] */
#pragma unroll
            for (int k = 0; k < 4; k++) {
                const two_parts p(scales.own[k % 2][run * SUMS_RUN + i + k / 2].rest);
                high[k] = p.high, low[k] = p.low;
            }
#pragma unroll
            for (int e = 0; e < EIGHTS; e++) {
                const two_parts a(__uint_as_float(of_x[e][i]));
                const two_parts b(__uint_as_float(of_x[e][i + 1]));
                multiply_tf32(c[e], low, a.high, b.high);
                multiply_tf32(c[e], high, a.low, b.low);
                multiply_tf32(c[e], high, a.high, b.high);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 4 * EIGHTS; i++) sum[i / 4 * 2 + i % 2][i / 2 % 2] += c[i / 4][i % 4];
}

/* A unit an element at a time, as consume_slowly(): the sums of two columns, from x of the first.
 */
__device__ __noinline__ lane_sums<2> consume_eight_slowly(uint32_t row_g, uint32_t row_g8,
                                                          uint32_t x, uint32_t step)
{
    lane_sums<2> sum = {};
#pragma unroll 1
    for (int i = 0; i < STAGE_CODES; i++)
#pragma unroll
        for (int row = 0; row < 2; row++) {
            const float w = weight_at(row ? row_g8 : row_g, i);
            const uint32_t of_x = x + i / 8 * 16 + octet_order(i % 8) * 2;
#pragma unroll
            for (int c = 0; c < 2; c++)
                sum.of[c][row] = __fmaf_rn(w, half_at(of_x + c * step), sum.of[c][row]);
        }
    return sum;
}

/* Adds a unit to the lane's sums: [column][row], of so many eights of columns. x: the lane's, of
 * column g. */
template <int EIGHTS>
__device__ __forceinline__ void consume_eights(const column_worker &me, uint32_t slot, uint32_t x,
                                               const beside &b, float sum[2 * EIGHTS][2])
{
    const uint32_t t = me.lane % 4, first = slot + me.lane / 4 * PITCH;
    const uint32_t row[2] = {first + (HAS_SKEW ? b.skew[0] : 0),
                             first + 8 * PITCH + (HAS_SKEW ? b.skew[1] : 0)};
    if (HAS_MINIMA && me.is_odd) {
        const uint32_t step = me.x_pair / 2, of_row = x - me.lane / 4 * step - t * FULL_PIECE;
#pragma unroll
        for (int e = 0; e < EIGHTS; e++) {
            const lane_sums<2> a =
                consume_eight_slowly(row[0], row[1], of_row + (8 * e + 2 * t) * step, step);
#pragma unroll
            for (int i = 0; i < 4; i++) sum[2 * e + i / 2][i % 2] += a.of[i / 2][i % 2];
        }
        return;
    }
    const uint32_t own[2] = {row[0] + own_block(me.lane), row[1] + own_block(me.lane)};
    const uint32_t sums = me.sums + (x - me.x) / (X_STAGE / STAGE_GROUPS / 4) * (8 * EIGHTS);
    shared_scales scales;
    scales.find(own, me.lane);
    if constexpr (HAS_MINIMA) add_rests<EIGHTS>(scales, sums, sum);
    float c[EIGHTS][4];
    group_scale group[2];
    uint32_t v[EIGHTS][2 * LANE_WORDS];
#pragma unroll
    for (int block = 0; block < STAGE_BLOCKS; block++) {
        own_words words[2];
#pragma unroll
        for (int r = 0; r < 2; r++) words[r].load(row[r] + block * BLOCK.bytes, t);
#pragma unroll
        for (int k = 0; k < (int)BLOCK.elements / 16; k++) {
            const int sixteen = block * (int)BLOCK.elements / 16 + k, i = sixteen * 16 / GROUP;
            if (sixteen * 16 % GROUP == 0) {
#pragma unroll
                for (int r = 0; r < 2; r++) group[r] = scales.get(r, i);
#pragma unroll
                for (int e = 0; e < EIGHTS; e++) c[e][0] = c[e][1] = c[e][2] = c[e][3] = 0;
            }
            const int shift = SWAPS ? own_words::shift_of(k) : 0;
            uint32_t p[2], q[2];
            words[0].quad(k, group[0].zero_at(shift), p);
            words[1].quad(k, group[1].zero_at(shift), q);
            const int half = sixteen % LANE_WORDS;
#pragma unroll
            for (int e = 0; e < EIGHTS; e++) {
                if (half == 0) shared_bytes<FULL_PIECE>(v[e], x + e * 4 * me.x_pair + sixteen * 32);
                multiply(c[e], p[0], q[0], p[1], q[1], v[e][2 * half], v[e][2 * half + 1]);
            }
            if ((sixteen + 1) * 16 % GROUP) continue;
#pragma unroll
            for (int n = 0; n < 2 * EIGHTS; n++)
#pragma unroll
                for (int r = 0; r < 2; r++)
                    sum[n][r] = __fmaf_rn(c[n / 2][r * 2 + n % 2], group[r].scale, sum[n][r]);
        }
    }
}

} // namespace

#endif
