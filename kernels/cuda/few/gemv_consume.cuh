/* gemv_consume.cuh - a unit of planes, codes and behind them their scales, from shared memory into
 * a lane's sums. */
#ifndef KERF_GEMV_CONSUME_CUH
#define KERF_GEMV_CONSUME_CUH

#include "cuda/few/gemv_column_x.cuh"
#include "cuda/gemv/gemv_sums.cuh"

namespace
{

template <int N>
__device__ __forceinline__ void settle_worker(column_worker &me, const kf_gemv_job &, uint32_t)
{
    me.zero[0] = me.zero[1] = minus_1024(ZERO_OF_ALL);
    me.offset = 0;
}

/* Nothing of x is needed but x. */
template <int N>
__device__ __forceinline__ void settle_x(column_worker &, const kf_gemv_job &, uint32_t, uint32_t,
                                         uint32_t)
{
}

/* Pieces that are exchanged bring their groups along. */
__device__ __forceinline__ void exchange_own(uint32_t w[OWN_WORDS], uint32_t lane)
{
    constexpr int of_piece = PIECE_OCTETS >= OWN_OCTETS ? OWN_BYTES / QUARTER_PIECES : 0;
    if constexpr (EXCHANGES && of_piece > 0 && OWN_GROUPS >= QUARTER_PIECES) {
        uint32_t swap = exchanged(lane % 4) ? of_piece == 2 ? 0x1032 : 0x2301 : 0x3210;
#pragma unroll
        for (int i = 0; i < OWN_WORDS; i++) w[i] = __byte_perm(w[i], 0, swap);
    }
}

/* The lane's scales of a row, in the order of its octets. */
__device__ __forceinline__ void load_own(uint32_t w[OWN_WORDS], uint32_t at, uint32_t lane)
{
    shared_bytes<OWN_BYTES>(w, at);
    exchange_own(w, lane);
}

/* How a unit's scales are read: rows of them lie together. Others say how (load). */
struct plain_scales {
    static constexpr bool IS_PLAIN = true;
};

/* minus_1024() of the lane's group i. */
__device__ __forceinline__ uint32_t own_zero(const column_worker &me, const beside &b, int row,
                                             int i)
{
    constexpr uint32_t flip = KF_ROW.element == KERF_ELEM_S8 ? 0x80 : 0;
    if constexpr (HAS_ZEROS && HAS_GROUPS)
        return minus_1024((b.zero[row] >> i * BITS & ((1u << BITS) - 1)) ^ flip);
    else
        return me.zero[row];
}

/* The words of octet o of a lane's piece(s). */
__device__ __forceinline__ void octet_codes(const uint32_t *w, int o, uint32_t out[4])
{
    if constexpr (BITS == 2) {
        out[0] = halves_of_octet(w[o / 2], o % 2);
    } else if constexpr (BITS == 4) {
        out[0] = w[o];
    } else if constexpr (BITS == 8) {
        out[0] = w[2 * o], out[1] = w[2 * o + 1];
    } else if constexpr (BITS == 6) {
        int first = o * 6 / 4; /* six bytes */
        if (o % 2)
            out[0] = __funnelshift_r(w[first], w[first + 1], 16), out[1] = w[first + 1] >> 16;
        else
            out[0] = w[first], out[1] = w[first + 1];
    } else {
        for (int i = 0; i < 4; i++) out[i] = w[4 * o + i];
    }
}

/* The second-level scale of a lane's group in a row. */
__device__ __forceinline__ float second_of(const column_worker &, const beside &b, int row, int)
{
    return b.second[row];
}
__device__ __forceinline__ float second_of(const column_worker &me, const column_beside &b, int row,
                                           int group)
{
    return group && me.apart ? b.next[row] : b.second[row];
}

/* Adds a unit to the lane's sums of rows g and g + 8: [column][row], or where groups have no scales
 * those of each pair, twice. v: what x comes into. */
template <int N, typename SCALES = plain_scales, typename BESIDE = beside>
__device__ __forceinline__ void
consume_unit(const column_worker &me, uint32_t slot, uint32_t x, const BESIDE &b, float sum[N][2],
             float whole[PAIRS<N>][2][4], uint32_t v[X_AHEAD<N>][PAIRS<N>][4],
             const SCALES &scales = SCALES())
{
    uint32_t at = slot + me.place, t = me.lane % 4, g = me.lane / 4;
    constexpr bool LOOKED_UP = KF_ROW.scale == KERF_SCALE_MAP8; /* in memory: all at once */
    uint32_t w[2][OWN_WORDS];
    float found[2][OWN_GROUPS];
    if constexpr (HAS_GROUPS) {
        if constexpr (SCALES::IS_PLAIN) {
            uint32_t own =
                slot + CODE_BYTES + t / GROUP_LANES * OWN_BYTES + (SHARED_ROW ? 0 : g * ROW_SCALES);
            load_own(w[0], own, me.lane);
            load_own(w[1], own + (SHARED_ROW ? 0 : 8 * ROW_SCALES), me.lane);
        } else {
            scales.load(w, slot, me.lane);
        }
        if constexpr (LOOKED_UP)
#pragma unroll
            for (int i = 0; i < 2 * OWN_GROUPS; i++)
                found[i % 2][i / 2] =
                    scale_in(w[i % 2], i / 2, second_of(me, b, i % 2, i / 2), me.offset);
    }
    constexpr int AT_ONCE = BITS == 6 ? QUARTER_PIECES : 1; /* pieces */
    constexpr int TURNS = QUARTER_PIECES / AT_ONCE, TURN_OCTETS = OCTETS / TURNS;
    /* A product waits for the one before it that adds to the same sums, so a group has two sets of
     * them where columns are one pair, but for groups so short that adding those up costs more. */
    constexpr int SETS = HAS_GROUPS && OWN_OCTETS >= 4 && PAIRS<N> == 1 ? 2 : 1;
    float c[PAIRS<N>][SETS][4];
#pragma unroll
    for (int s = 0; s < TURNS; s++) {
        uint32_t codes[2][4 * AT_ONCE];
#pragma unroll
        for (int k = 0; k < 2 * AT_ONCE; k++) {
            uint32_t from = TWISTED ? at ^ s * 16 : at + k / 2 * 16;
            uint4 piece = shared_piece(from + k % 2 * (8 * ROW_STAGE));
            uint32_t *into = codes[k % 2] + k / 2 * 4;
            into[0] = piece.x, into[1] = piece.y, into[2] = piece.z, into[3] = piece.w;
        }
#pragma unroll
        for (int k = 0; k < TURN_OCTETS; k++) {
            int o = s * TURN_OCTETS + k, group = o / OWN_OCTETS;
            uint32_t a[4], p[4], q[4];
            octet_codes(codes[0], k, a);
            decode(a, own_zero(me, b, 0, group), me.table, p);
            octet_codes(codes[1], k, a);
            decode(a, own_zero(me, b, 1, group), me.table, q);
#pragma unroll
            for (int i = 0; i < PAIRS<N>; i++) {
                uint32_t *w = v[o % X_AHEAD<N>][i];
                live_piece(w, x + i * me.x_pair + o * 64, me.live);
                if (HAS_GROUPS && o % OWN_OCTETS == 0)
                    for (int e = 0; e < SETS * 4; e++) c[i][e / 4][e % 4] = 0;
                float *one = HAS_GROUPS ? c[i][0] : whole[i][0];
                float *other = HAS_GROUPS ? c[i][SETS - 1] : whole[i][1];
                multiply(one, p[0], q[0], p[1], q[1], w[0], w[1]);
                multiply(other, p[2], q[2], p[3], q[3], w[2], w[3]);
            }
            if (HAS_GROUPS && (o + 1) % OWN_OCTETS == 0) {
                float f[2];
#pragma unroll
                for (int row = 0; row < 2; row++)
                    f[row] = LOOKED_UP ? found[row][group]
                                       : scale_in(w[row], group, b.second[row], me.offset);
#pragma unroll
                for (int i = 0; i < N; i++)
#pragma unroll
                    for (int row = 0; row < 2; row++) {
                        const int e = row * 2 + i % 2;
                        const float all =
                            SETS == 2 ? c[i / 2][0][e] + c[i / 2][SETS - 1][e] : c[i / 2][0][e];
                        sum[i][row] = __fmaf_rn(all, f[row], sum[i][row]);
                    }
            }
        }
    }
}

} // namespace

#endif
