/* experts_rests.cuh - the product of a unit with several tokens, and what rests of minima add to
 * it.
 *
 * Groups of up to two tokens are multiplied as two columns of cuda/few are. With four tokens rests
 * go by the tensor core: times sums of x over groups they are a product of their own, [row][group]
 * by [group][token], as for eight columns (blocks_eight.cuh). Each lane multiplies by the rests
 * that it found itself, of its quarter of a stage, and the tensor core adds up all quarters. Four
 * tokens leave half of its eight columns, so both parts of an fp32 sum of x have one: upper bits
 * of token n column n, what is left of them column n + 4. So two products of 16 x 8 x 8, for two
 * groups of each lane, are all four of rests in two parts by sums in two parts.
 *
 *     lane t has columns 2 t and 2 t + 1 of rows g and g + 8
 *     t = 0: tokens 0, 1    1: tokens 2, 3    2, 3: the same, of what is left of the sums
 *
 * What comes out has four registers until a result ends, where sums of x took 16. Codes that share
 * their bytes are read again, and x is not read ahead: with that, no register of the loop goes to
 * local memory. */
#ifndef KERF_EXPERTS_RESTS_CUH
#define KERF_EXPERTS_RESTS_CUH

#include "cuda/experts/experts_few_y.cuh"

namespace
{

/* few_way<N>: how a unit meets N tokens. AHEAD: octets of x that a lane reads ahead; rests: what it
 * keeps of rests for a unit.
 * consume_few: consume_unit() so.
 * sum_stage_of_token: sum_stage() of token c of a part, and where the sums go.
 * result_rests<N>: what the lane keeps of rests for a result. */

#if KF_FOURS

/* Bytes of a stage's sums of x, of all tokens: add_rests() says how they lie. */
constexpr int FOUR_SUMS = STAGE_GROUPS * 4 * KF_EXPERTS_FOURS;

__device__ __forceinline__ bool sum_stage_of_token(const kf_experts_job &j, uint32_t x,
                                                   uint32_t base, uint32_t c, uint32_t step,
                                                   uint32_t lane)
{
    const uint32_t to = base + j.x_sums_at + step * FOUR_SUMS + c * SUMS_BYTES;
    return sum_stage<KF_EXPERTS_FOURS>(x, to, lane);
}

__device__ __forceinline__ void settle_few_sums(column_worker &me, const kf_experts_job &j,
                                                uint32_t base)
{
    me.sums = base + j.x_sums_at + me.lane % 4 * (SUMS_RUN * 4);
    me.is_odd = false;
}

/* Where the lane's sums of the first token lie, of the unit whose x is here. */
__device__ __forceinline__ uint32_t sums_of_unit(const column_worker &me, uint32_t x)
{
    static_assert(X_STAGE % FOUR_SUMS == 0, "or x - me.x is not a multiple");
    return me.sums + (x - me.x) / (X_STAGE / FOUR_SUMS);
}

/* One or two tokens: own_sums, from where four tokens' lie. */
struct two_rests : own_sums<2> {
    __device__ __forceinline__ void load(const column_worker &me, uint32_t x)
    {
        if constexpr (HAS_MINIMA)
#pragma unroll
            for (int c = 0; c < 2; c++)
#pragma unroll
                for (int run = 0; run < OWN_GROUPS / SUMS_RUN; run++)
                    shared_bytes<SUMS_RUN * 4>(of[c] + run * SUMS_RUN,
                                               sums_of_unit(me, x) +
                                                   (run * KF_EXPERTS_FOURS + c) * SUMS_BYTES);
    }
};

/* Four tokens: in place of own_sums, by the tensor core. */
struct four_rests {
    uint32_t from; /* the lane's sums of x */
    bool is_left;  /* ... of which it takes what is left */
    float first[2], c[4];

    __device__ __forceinline__ void load(const column_worker &me, uint32_t x)
    {
        const uint32_t column = me.lane / 4;
        from = sums_of_unit(me, x) + column % KF_EXPERTS_FOURS * SUMS_BYTES;
        is_left = column >= KF_EXPERTS_FOURS;
        c[0] = c[1] = c[2] = c[3] = 0;
    }
    /* The lane's group i of both rows; two groups are a product. */
    __device__ __forceinline__ void meet(int i, const group_scale group[2])
    {
        if (!HAS_MINIMA) return;
        if (i % 2 == 0) {
            first[0] = group[0].rest, first[1] = group[1].rest;
            return;
        }
        uint32_t high[4], low[4], of_x[2]; /* of rests: [group][row] */
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const two_parts p(k < 2 ? first[k] : group[k - 2].rest);
            high[k] = p.high, low[k] = p.low;
        }
        const int run = i / SUMS_RUN;
        shared_bytes<8>(of_x, from + run * (KF_EXPERTS_FOURS * SUMS_BYTES) + i % SUMS_RUN / 2 * 8);
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const two_parts p(__uint_as_float(of_x[k]));
            of_x[k] = is_left ? p.low : p.high;
        }
        multiply_tf32(c, low, of_x[0], of_x[1]);
        multiply_tf32(c, high, of_x[0], of_x[1]);
    }
    __device__ __forceinline__ void add(float &, int, int, const group_scale &) const {}
};

/* SAVES: where a lane has many words of codes, or many groups. */
template <bool SAVES> struct few_codes {
    typedef raw_codes type;
};
template <> struct few_codes<true> {
    typedef pieces_of_codes type;
};

static_assert(!HAS_MINIMA || (!BLOCK.book && !IS_SPLIT), "pieces_of_codes has neither");

template <int N> struct few_way {
    static constexpr int AHEAD = X_AHEAD<N>;
    typedef few_codes<HAS_MINIMA && (OWN_GROUPS > 4)>::type codes;
    typedef two_rests rests;
};
template <> struct few_way<KF_EXPERTS_FOURS> {
    static constexpr int AHEAD = HAS_MINIMA ? 1 : X_AHEAD<KF_EXPERTS_FOURS>;
    typedef few_codes<HAS_MINIMA && LOW_WORDS >= 8>::type codes;
    typedef four_rests rests;
};

template <int N>
__device__ __forceinline__ void
consume_few(const column_worker &me, uint32_t slot, uint32_t x, const column_beside &,
            float sum[N][2], float (*)[2][4], uint32_t v[few_way<N>::AHEAD][PAIRS<N>][4],
            const skewed_scales &s, typename few_way<N>::rests &rests)
{
    consume_quarters<N, few_way<N>::AHEAD, typename few_way<N>::codes>(me, slot, x, skews_of(s),
                                                                       sum, v, rests);
}

template <int N> struct result_rests {
    __device__ __forceinline__ void add(const two_rests &, uint32_t, uint32_t, uint32_t) {}
    __device__ __forceinline__ void leave(float[N][2], uint32_t) {}
};
template <> struct result_rests<KF_EXPERTS_FOURS> {
    float of[4]; /* [row][column] */

    /* A unit's, each token's times what `backs` has for it. odd: tokens, as bits, of which
     * replace_odd() has whole sums. */
    __device__ __forceinline__ void add(const four_rests &u, uint32_t backs, uint32_t lane,
                                        uint32_t odd)
    {
        if (!HAS_MINIMA) return;
        const uint32_t token = lane % 2 * 2;
        uint32_t back[2];
        shared_bytes<8>(back, backs + token * 4);
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (!(odd >> (token + i % 2) & 1))
                of[i] = __fmaf_rn(u.c[i], __uint_as_float(back[i % 2]), of[i]);
    }
    /* To the lane's sums of the result, whose quads are still to be added up; and anew. */
    __device__ __forceinline__ void leave(float total[KF_EXPERTS_FOURS][2], uint32_t lane)
    {
        if (!HAS_MINIMA) return;
#pragma unroll
        for (uint32_t i = 0; i < 2 * KF_EXPERTS_FOURS; i++) {
            const uint32_t token = i / 2, row = i % 2;
            if (lane % 2 == token / 2) total[token][row] += of[row * 2 + token % 2];
        }
        of[0] = of[1] = of[2] = of[3] = 0;
    }
};

#else

struct no_rests {
};

template <int N> struct few_way {
    static constexpr int AHEAD = X_AHEAD<N>;
    typedef no_rests rests;
};

__device__ __forceinline__ bool sum_stage_of_token(const kf_experts_job &j, uint32_t x,
                                                   uint32_t base, uint32_t c, uint32_t step,
                                                   uint32_t lane)
{
    const uint32_t sums = (c * j.chunk_stages + step) * (STAGE_GROUPS * 4);
    return sum_stage(x, base + j.x_sums_at + sums, lane);
}

__device__ __forceinline__ void settle_few_sums(column_worker &me, const kf_experts_job &j,
                                                uint32_t base)
{
    settle_sums(me, base + j.x_sums_at, j.chunk_stages * (STAGE_GROUPS * 4));
}

template <int N>
__device__ __forceinline__ void
consume_few(const column_worker &me, uint32_t slot, uint32_t x, const column_beside &now,
            float sum[N][2], float (*whole)[2][4], uint32_t v[X_AHEAD<N>][PAIRS<N>][4],
            const skewed_scales &s, no_rests &)
{
    consume_unit<N>(me, slot, x, now, sum, whole, v, s);
}

template <int N> struct result_rests {
    __device__ __forceinline__ void add(const no_rests &, uint32_t, uint32_t, uint32_t) {}
    __device__ __forceinline__ void leave(float[N][2], uint32_t) {}
};

#endif

} // namespace

#endif
