/* experts_one_feed.cuh - one token of a mixture-of-experts layer: its experts, which units a warp
 * has of them, and how these come into its ring.
 *
 * A result is 16 sums: a tile of gate or of up, or of y. It takes `steps` units, each a stage of
 * one expert's matrix: all stages of a row for gate and up; for y those of all experts one after
 * another, or a part of them where a team of blocks shares rows. */
#ifndef KERF_EXPERTS_ONE_FEED_CUH
#define KERF_EXPERTS_ONE_FEED_CUH

#include "cuda/experts/experts_feed.cuh"

namespace
{

/* Until all but the last N groups of copies have arrived. */
template <int N> __device__ __forceinline__ void wait_groups()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* --- the token's experts ------------------------------------------------------------------------
 */

/* Lane i of every warp has the i-th expert and its weight, in the order in which slots first name
 * them: no shared memory, and nobody waits for another. */
struct token_experts {
    uint32_t expert, count;
    float weight;

    /* Of the lane's slot; nothing that counts where it has none. */
    __device__ __forceinline__ void load(const kf_experts_job &j, uint32_t lane)
    {
        expert = ~0u;
        weight = 0;
        if (lane >= j.top_k) return;
        expert = __ldcg((const uint32_t *)j.ids + lane);
        weight = __ldcg(j.weights + lane);
    }
    __device__ __forceinline__ void resolve(const kf_experts_job &j, uint32_t lane)
    {
        const bool counts = expert < j.experts && weight != 0;
        const uint32_t same = __match_any_sync(0xffffffffu, counts ? expert : ~lane);
        const bool is_first = counts && lane + 1 == (uint32_t)__ffs((int)same);
        const uint32_t firsts = __ballot_sync(0xffffffffu, is_first);
        count = __popc(firsts);
        if (count < j.top_k) gather(j, lane, same, firsts);
    }
    /* Some slots count for nothing, or for the same expert as another. */
    __device__ __forceinline__ void gather(const kf_experts_job &j, uint32_t lane, uint32_t same,
                                           uint32_t firsts)
    {
        float sum = 0;
#pragma unroll 1
        for (uint32_t i = 0; i < j.top_k; i++) {
            const float other = __shfl_sync(0xffffffffu, weight, i);
            if (same >> i & 1) sum += other;
        }
        const uint32_t from = lane < count ? __fns(firsts, 0, lane + 1) : 0;
        expert = __shfl_sync(0xffffffffu, expert, from);
        weight = __shfl_sync(0xffffffffu, sum, from);
    }
    /* All lanes of a warp ask, each for any. */
    __device__ __forceinline__ uint32_t expert_at(uint32_t i) const
    {
        return __shfl_sync(0xffffffffu, expert, i);
    }
    __device__ __forceinline__ float weight_at(uint32_t i) const
    {
        return __shfl_sync(0xffffffffu, weight, i);
    }
};

/* --- places -------------------------------------------------------------------------------------
 */

/* What a block has to do, if the token has so many experts. Which numbers of h it writes does not
 * depend on that: fewer experts leave some blocks without work. */
struct one_block {
    uint32_t item, items;  /* 16 numbers of h, counted over experts; of y */
    uint32_t results;      /* an item has two where it is gate and up     */
    uint32_t steps;        /* of each result ...                          */
    uint32_t group, stage; /* ... of which the first is of                */

    __device__ __forceinline__ void find(const kf_experts_job &j, uint32_t count)
    {
        const uint32_t teams = gridDim.x / j.team, team = blockIdx.x / j.team;
        const uint32_t all = j.is_down ? j.tiles : j.top_k * j.tiles;
        const uint32_t each = all / teams, rest = all % teams;
        const uint32_t rank = blockIdx.x % j.team;
        item = team * each + min(team, rest);
        items = each + (team < rest);
        if (!j.is_down) items = min(items, max(count * j.tiles, item) - item);
        results = j.is_down ? items : 2 * items;
        const uint32_t stages = j.is_down ? count * j.slices : j.slices;
        const uint32_t first = stages * rank / j.team;
        steps = stages * (rank + 1) / j.team - first;
        group = first / j.slices;
        stage = first - group * j.slices;
    }
};

/* A unit: which result, which of its steps, and what that is of. */
struct one_place {
    uint32_t result, step; /* of the block */
    uint32_t group, stage; /* of the token's experts; of a row */
    uint32_t tile, mat;

    __device__ __forceinline__ void begin(const kf_experts_job &j, const one_block &b,
                                          uint32_t unit)
    {
        result = b.steps ? unit / b.steps : 0;
        step = unit - result * b.steps;
        const uint32_t at = b.item + result / (j.is_down ? 1 : 2), stages = b.stage + step;
        const uint32_t before = (j.is_down ? stages : at) / (j.is_down ? j.slices : j.tiles);
        mat = j.is_down ? 0 : result % 2;
        group = j.is_down ? b.group + before : before;
        stage = j.is_down ? stages - before * j.slices : stages;
        tile = j.is_down ? at : at - before * j.tiles;
    }
    /* On to the next; whether that is of another matrix, or of other rows. */
    __device__ __forceinline__ bool go_on(const kf_experts_job &j, const one_block &b)
    {
        step++;
        stage++;
        if (step < b.steps && stage < j.slices) return false;
        if (step < b.steps) { /* of y: the next expert */
            stage = 0;
            group++;
            return true;
        }
        step = 0;
        stage = b.stage;
        result++;
        if (j.is_down) {
            group = b.group;
            tile++;
        } else if (mat ^= 1, mat == 0 && ++tile == j.tiles) {
            tile = 0;
            group++;
        }
        return true;
    }
    __device__ __forceinline__ bool ends_result(const one_block &b) const
    {
        return step + 1 == b.steps;
    }
};

/* --- weights into the ring ----------------------------------------------------------------------
 */

/* Rows of scales that begin at multiples of 4 bytes are copied in words, which lie in the ring as
 * pieces would. */
constexpr uint32_t ROW_WORDS = ROW_SCALES >= 4 ? ROW_SCALES / 4 : 1;
constexpr bool HAS_WORDS = MAY_SKEW && ROW_SCALES >= 8 && 32 % ROW_WORDS == 0;

/* How the scales of a tile are copied: as cuda/few does; in words; as they lie. */
enum { SCALES_PLAIN, SCALES_WORDS, SCALES_RAW };

__device__ __forceinline__ uint32_t way_of_scales(const kf_experts_job &j, uint32_t rows)
{
    if (rows < TILE) return SCALES_RAW;
    return j.plain_scales ? SCALES_PLAIN : HAS_WORDS && j.words ? SCALES_WORDS : SCALES_RAW;
}

/* Copies a warp's run of units into its ring, one after another. */
struct one_feed {
    one_place at;
    uint32_t left; /* units of the run */
    uint32_t rows; /* of the matrix, from the tile's first on */
    uint32_t way;  /* of scales */
    uint32_t expert;
    uint64_t codes_at, scales_at; /* of the lane's first copies in an expert's planes */
    const uint8_t *codes, *scales;

    /* What does not depend on which expert it is. */
    __device__ __forceinline__ void aim_rows(const kf_experts_job &j, uint32_t lane)
    {
        const uint32_t first = first_row(j, (int)at.mat, at.tile);
        rows = j.rows - first;
        codes_at = (uint64_t)(first + lane / PIECES) * j.strides.row_bytes +
                   (at.stage * ROW_STAGE + lane % PIECES * 16);
        if constexpr (HAS_GROUPS) {
            const uint32_t all = (uint32_t)j.strides.row_groups * SCALE_SIZE;
            way = way_of_scales(j, rows);
            const bool is_plain = way == SCALES_PLAIN;
            const uint32_t row =
                SHARED_ROW ? first / TILE_ROWS : first + lane / (is_plain ? ROW_PIECES : ROW_WORDS);
            scales_at = (uint64_t)row * all + at.stage * ROW_SCALES +
                        (is_plain ? lane % ROW_PIECES * SCALE_PIECE : lane % ROW_WORDS * 4);
        }
    }
    __device__ __forceinline__ void aim_expert(const kf_experts_job &j, const token_experts &e)
    {
        expert = e.expert_at(at.group);
        const kf_experts_planes &s = j.stack[at.mat];
        codes = s.plane[KERF_PLANE_CODES] + expert * s.stride[KERF_PLANE_CODES] + codes_at;
        if constexpr (HAS_GROUPS)
            scales = s.plane[KERF_PLANE_SCALES] + expert * s.stride[KERF_PLANE_SCALES] + scales_at;
    }

    __device__ __forceinline__ void fetch_codes(const kf_experts_job &j, uint32_t to, uint32_t lane)
    {
        const uint32_t row = lane / PIECES, piece = lane % PIECES;
        if (j.aligned && rows >= TILE) {
            const bool inside = at.stage * ROW_STAGE + piece * 16 < (uint32_t)j.strides.row_bytes;
            const uint32_t there = to + unit_place(row, piece);
            const uint32_t step = ROWS_AT_ONCE * (uint32_t)j.strides.row_bytes;
            if (PIECES * ROWS_AT_ONCE == 32 || lane < PIECES * ROWS_AT_ONCE)
#pragma unroll
                for (uint32_t i = 0; i < COPIES; i++)
                    copy_async(there + i * (ROWS_AT_ONCE * ROW_STAGE), codes + (uint64_t)step * i,
                               inside);
        } else {
            copy_codes_slowly(j, to, lane, at.stage, rows, codes);
        }
    }

    __device__ __forceinline__ void fetch_scales(const kf_experts_job &j, uint32_t to,
                                                 uint32_t lane)
    {
        const uint32_t all = (uint32_t)j.strides.row_groups * SCALE_SIZE;
        if (way == SCALES_PLAIN) {
            const bool inside =
                at.stage * ROW_SCALES + (SHARED_ROW ? 0 : lane % ROW_PIECES * SCALE_PIECE) < all;
            if (SCALE_LANES == 32 || (int)lane < SCALE_LANES)
                copy_scales<SCALE_PIECE>(to + lane * SCALE_PIECE, scales, inside);
        } else if (HAS_WORDS && way == SCALES_WORDS) {
            fetch_words(to, lane, all);
        } else {
            fetch_scales_slowly(j, to, lane, at.stage, j.rows - rows, j.stack[at.mat], expert);
        }
    }
    __device__ __forceinline__ void fetch_words(uint32_t to, uint32_t lane, uint32_t all)
    {
        if constexpr (HAS_WORDS) {
            constexpr uint32_t AT_ONCE = HAS_WORDS ? 32 / ROW_WORDS : 1; /* rows */
            const bool inside = at.stage * ROW_SCALES + lane % ROW_WORDS * 4 < all;
#pragma unroll
            for (uint32_t i = 0; i < TILE / AT_ONCE; i++)
                copy_scales<4>(to + lane * 4 + i * 128, scales + (uint64_t)(AT_ONCE * all) * i,
                               inside);
        }
    }
    static __device__ __noinline__ void
    fetch_scales_slowly(const kf_experts_job &j, uint32_t to, uint32_t lane, uint32_t stage,
                        uint32_t first, const kf_experts_planes &planes, uint32_t expert)
    {
        const kf_gemv_matrix m = matrix_of(j, planes, expert);
        if constexpr (SHARED_ROW)
            copy_scales_at_edge<ROW_SCALES>(j, to, lane, stage, j.rows - first,
                                            stage_scales(j, m, first / TILE_ROWS, stage));
        else if constexpr (MAY_SKEW)
            copy_raw(j, m, first, stage, to, lane);
    }

    /* The unit into the ring at `to`, and on to the next. */
    __device__ __forceinline__ void fetch(const kf_experts_job &j, const one_block &b,
                                          const token_experts &e, uint32_t to, uint32_t lane)
    {
        fetch_codes(j, to, lane);
        if constexpr (HAS_GROUPS) fetch_scales(j, to + CODE_BYTES, lane);
        codes += ROW_STAGE;
        if constexpr (HAS_GROUPS) scales += ROW_SCALES;
        left--;
        if (at.go_on(j, b) && left) {
            aim_rows(j, lane);
            aim_expert(j, e);
        }
    }
};

} // namespace

#endif
