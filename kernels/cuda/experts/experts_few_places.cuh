/* experts_few_places.cuh - several tokens of a mixture-of-experts layer: what a block has to do, in
 * parts, and which units a warp has of each.
 *
 * An item is 16 numbers of h of a group, which are two results, gate and up; or 16 sums of a group
 * for y, one result. A result takes `steps` units, each a stage of one expert's matrix: all stages
 * of a row; for y perhaps those of a chunk of it, where x of whole rows takes too much room. Gate
 * and up may take such chunks one after another, where HAS_FOURS: their sums stay in slots. */
#ifndef KERF_EXPERTS_FEW_PLACES_CUH
#define KERF_EXPERTS_FEW_PLACES_CUH

#include "cuda/experts/experts_feed.cuh"

namespace
{

/* Whether the chunks of a row may come one after another in a block. */
constexpr bool TAKES_TURNS = HAS_FOURS;

/* Which expert a group is of. Tokens have weights of their own, which come in at the end. */
struct group_experts {
    const expert_groups &groups;

    __device__ __forceinline__ uint32_t expert_at(uint32_t group) const
    {
        return groups.expert[group];
    }
    __device__ __forceinline__ float weight_at(uint32_t) const { return 1; }
};

/* n / d by kf_inverse(d): what divides is known before a launch, and a division of its own takes
 * longer than anything else before the first copy. */
__device__ __forceinline__ uint32_t divide(uint32_t n, uint32_t inverse)
{
    return inverse ? __umulhi(n, inverse) : n;
}

/* How all items are numbered and cut into runs, the same for all blocks. Items go expert after
 * expert, of each strip after strip, of each group after group, tile after tile: so h of early
 * experts is there early. A strip is `span` tiles.
 *
 * A block has one run. Where experts mostly have several groups its run is a strip of one group,
 * and blocks side by side read the same weights at about the same time; items that are left over
 * are a second run, of one. */
struct few_runs {
    uint32_t all, each, is_even;

    __device__ __forceinline__ few_runs(const kf_experts_job &j, const expert_groups &g)
        : all(g.count * j.chunks * j.tiles), each(divide(all, j.by_blocks)),
          is_even(!HAS_FOURS && j.tokens * j.top_k <= j.experts)
    {
    }
    __device__ __forceinline__ uint32_t span() const { return max(each, 1u); }
    /* Where run number k of the block begins, and where it ends. */
    __device__ __forceinline__ uint2 bounds(uint32_t k) const
    {
        const uint32_t b = blockIdx.x, whole = gridDim.x * span();
        if (is_even) {
            const uint32_t rest = all - each * gridDim.x, from = b * each + min(b, rest);
            return {from, from + each + (b < rest)};
        }
        if (k == 0) return {min(b * span(), all), min(b * span() + span(), all)};
        return {min(whole + b, all), min(whole + b + 1, all)};
    }
    __device__ __forceinline__ uint32_t count() const { return is_even ? 1 : 2; }
};

/* Items of a run that meet the same x, as many as there is room for sums. */
struct few_part {
    uint32_t run, item, end; /* the part's first item, and where the run ends */
    uint32_t items, results; /* 0: no more parts                         */
    uint32_t group, chunk, tile;
    uint32_t first, steps; /* stages of each result */

    __device__ __forceinline__ void begin(const kf_experts_job &j, const expert_groups &g)
    {
        run = 0;
        enter(j, g);
        settle(j, g);
    }
    /* The run, or the next one that has any items. */
    __device__ __forceinline__ void enter(const kf_experts_job &j, const expert_groups &g)
    {
        const few_runs r(j, g);
        for (item = end = 0; run < r.count(); run++) {
            const uint2 b = r.bounds(run);
            item = b.x, end = b.y;
            if (item < end) return;
        }
    }
    /* Which items they are. */
    __device__ __forceinline__ void settle(const kf_experts_job &j, const expert_groups &g)
    {
        const few_runs r(j, g);
        items = results = 0;
        if (item >= end) return;
        group = divide(item, j.by_tiles); /* and chunk */
        tile = item - group * j.tiles;
        uint32_t left = min(end - item, j.tiles - tile);
        if (!r.is_even) left = settle_strip(j, g, r);
        chunk = first = 0;
        steps = j.slices;
        if constexpr (TAKES_TURNS)
            if (!j.is_down) steps = j.chunk_stages;
        if (j.chunks > 1) {
            const uint32_t at = group;
            group = at / j.chunks;
            chunk = at - group * j.chunks;
            first = chunk * j.chunk_stages;
            steps = min(j.chunk_stages, j.slices - first);
        }
        items = left;
        if (left > j.most_items) { /* parts of one size */
            const uint32_t parts = (left + j.most_items - 1) / j.most_items;
            items = (left + parts - 1) / parts;
        }
        results = j.is_down ? items : 2 * items;
    }
    /* Where groups of an expert take turns; returns how many items are left of the strip. */
    __device__ __forceinline__ uint32_t settle_strip(const kf_experts_job &j,
                                                     const expert_groups &g, const few_runs &r)
    {
        uint32_t from = group / j.chunks, n = 1; /* groups of the expert */
        const uint32_t expert = g.expert[from];
        for (; from && g.expert[from - 1] == expert; n++) from--;
        while (from + n < g.count && g.expert[from + n] == expert) n++;
        from *= j.chunks;
        n *= j.chunks;
        const uint32_t at = item - from * j.tiles, strip = at / (n * r.span());
        const uint32_t in_strip = at - strip * n * r.span();
        const uint32_t width = min(r.span(), j.tiles - strip * r.span());
        const uint32_t before = in_strip / width;
        tile = in_strip - before * width;
        const uint32_t left = min(end - item, width - tile);
        tile += strip * r.span();
        group = from + before;
        return left;
    }
    /* Whether these are the first or the last chunks of its items. */
    __device__ __forceinline__ bool is_first(const kf_experts_job &j) const
    {
        return !TAKES_TURNS || j.is_down || first == 0;
    }
    __device__ __forceinline__ bool is_last(const kf_experts_job &j) const
    {
        return !TAKES_TURNS || j.is_down || first + steps >= j.slices;
    }
    __device__ __forceinline__ void go_on(const kf_experts_job &j, const expert_groups &g)
    {
#if KF_FOURS
        if (!is_last(j)) {
            first += steps;
            return;
        }
#endif
        item += items;
        if (item == end) {
            run++;
            enter(j, g);
        }
        settle(j, g);
    }
    __device__ __forceinline__ uint32_t units() const
    {
        return results * steps;
    }
    /* Which x it meets. */
    __device__ __forceinline__ uint32_t own_x(const kf_experts_job &j) const
    {
        return TAKES_TURNS ? group * j.slices + first : group * j.chunks + chunk;
    }
    /* Whether a warp has units of a result. */
    __device__ __forceinline__ bool has(uint32_t warp, uint32_t result) const
    {
        const uint32_t n = units(), from = result * steps;
        return max(cut(n, warp), from) < min(cut(n, warp + 1), from + steps);
    }
};

/* A unit of a part: the step of a result. */
struct few_place {
    uint32_t result, step;

    __device__ __forceinline__ void begin(const kf_experts_job &j, const few_part &p, uint32_t unit)
    {
        /* The last chunk of a row may have fewer. */
        result = p.steps == j.chunk_stages ? divide(unit, j.by_stages) : unit / p.steps;
        step = unit - result * p.steps;
    }
    __device__ __forceinline__ unit_at where(const kf_experts_job &j, const few_part &p) const
    {
        const uint32_t mats = j.is_down ? 1 : 2;
        return {p.group, result % mats, p.tile + result / mats, p.first + step};
    }
    /* Units from here to the end of the rows. */
    __device__ __forceinline__ uint32_t ahead(const kf_experts_job &, const few_part &p) const
    {
        return p.steps - step;
    }
    /* Over the last units of these rows, on to others. */
    __device__ __forceinline__ void leave_rows(const kf_experts_job &, const few_part &, uint32_t)
    {
        step = 0;
        result++;
    }
};

/* The units of a warp, over all parts of the block, on their way into its ring. */
struct few_feed {
    expert_feed<few_place> units;
    few_part part;

    /* The warp's first unit of the part, or of the next one that has any for it. */
    __device__ __forceinline__ void enter(const kf_experts_job &j, const group_experts &e,
                                          uint32_t warp, uint32_t lane)
    {
        for (; part.items; part.go_on(j, e.groups)) {
            const uint32_t n = part.units(), first = cut(n, warp);
            units.left = cut(n, warp + 1) - first;
            if (!units.left) continue;
            units.at.begin(j, part, first);
            units.aim_rows(j, part, lane);
            units.aim_expert(j, part, e);
            return;
        }
        units.run = 0;
    }
    /* first: what the block begins with. */
    __device__ __forceinline__ void begin(const kf_experts_job &j, const group_experts &e,
                                          const few_part &first, uint32_t warp, uint32_t lane)
    {
        part = first;
        enter(j, e, warp, lane);
    }
    /* The next unit, if there is one. */
    __device__ __forceinline__ void fetch(const kf_experts_job &j, const group_experts &e,
                                          uint32_t to, uint32_t warp, uint32_t lane)
    {
        if (!units.run || !units.fetch(j, part, to, lane) || units.go_on(j, part, e, lane)) return;
        part.go_on(j, e.groups);
        enter(j, e, warp, lane);
    }
};

} // namespace

#endif
