/* gemv_team.cuh - y of five columns and more where two, four or eight blocks, a cluster, share rows
 * and have a part of K each.
 *
 * A long x of many columns finds room so, in one step, and a block brings in only its part: with
 * one block for each tile all of them together would read more of x than of W.
 *
 *   sums of a tile over the block's warps -> the tile's owner     16 bytes a thread and store
 *   sums of all blocks, in their order, of own tiles -> y         once all have come
 *
 * The first tiles belong to the first block, and so on. What comes lies in the mail as it lay in
 * the sender's slots: [sender][tile of y][part][column][row]. */
#ifndef KERF_GEMV_TEAM_CUH
#define KERF_GEMV_TEAM_CUH

#include "cuda/few/gemv_column_y.cuh"

namespace
{

struct team_mail {
    uint32_t box, arrivals; /* addresses */
    uint32_t blocks, rank;  /* of the cluster; of this one */
    uint32_t tiles, parts;  /* of y, that the team has; 2 with SwiGLU */
    uint32_t part_bytes;    /* of a tile's sums in all columns */

    /* The first tile of a block; of `blocks`, the end. */
    __device__ __forceinline__ uint32_t first(uint32_t r) const { return tiles * r / blocks; }
    __device__ __forceinline__ uint32_t owner(uint32_t tile) const
    {
        return ((tile + 1) * blocks - 1) / tiles;
    }
    /* Where block `to` has what block `from` sends of its n-th tile. */
    __device__ __forceinline__ uint32_t place(uint32_t from, uint32_t to, uint32_t n,
                                              uint32_t part) const
    {
        const uint32_t most = (tiles + blocks - 1) / blocks, sender = from - (from > to);
        return box + ((sender * most + n) * parts + part) * part_bytes;
    }
    /* By one thread, before any block may send. */
    __device__ __forceinline__ void expect() const
    {
        expect_mail(arrivals, (blocks - 1) * (first(rank + 1) - first(rank)) * parts * part_bytes);
    }
    /* Four rows of a column, of a tile that another block owns. */
    __device__ __forceinline__ void send(uint32_t tile, uint32_t part, uint32_t at,
                                         const float v[4]) const
    {
        const uint32_t to = owner(tile);
        send_four(in_block(place(rank, to, tile - first(to), part) + at, to), v,
                  in_block(arrivals, to));
    }
    __device__ __forceinline__ void wait() const { wait_for_mail(arrivals); }

    /* The sums of all blocks, in their order, of what lies at `at` in the n-th own tile. */
    __device__ __forceinline__ float add(float own, uint32_t n, uint32_t part, uint32_t at) const
    {
        float sum = 0;
#pragma unroll 1
        for (uint32_t r = 0; r < blocks; r++)
            sum += r == rank ? own : __uint_as_float(shared_word(place(r, rank, n, part) + at));
        return sum;
    }
};

/* Sends what belongs to others: these wait for it. */
template <int N>
__device__ __forceinline__ void send_rows(const column_block &b, const team_mail &mail,
                                          const uint32_t *largest)
{
    const uint32_t pieces = mail.part_bytes / 16, all = b.span.tiles * pieces;
#pragma unroll 1
    for (uint32_t i = b.thread; i < all; i += THREADS) {
        const uint32_t tile = i / pieces, at = (i - tile * pieces) * 16;
        const uint32_t of_y = mail.parts > 1 ? tile / 2 : tile;
        if (mail.owner(of_y) == mail.rank) continue;
        const uint32_t runs = shared_word(b.runs + tile * 4);
        const float back = back_of(largest[at / (TILE * 4)]);
        float sum[4] = {};
#pragma unroll
        for (uint32_t w = 0; w < WARPS; w++) {
            uint32_t v[4];
            shared_bytes<16>(v, b.slots + (tile + w) * SLOT_BYTES<N> + at);
            if (!(runs >> w & 1)) continue;
#pragma unroll
            for (int e = 0; e < 4; e++) sum[e] += __uint_as_float(v[e]);
        }
#pragma unroll
        for (int e = 0; e < 4; e++) sum[e] *= back;
        mail.send(of_y, tile - of_y * mail.parts, at, sum);
    }
}

/* y of the block's own tiles. largest: of each column of x, of which each block has a power of two
 * of its own. */
template <int N>
__device__ __forceinline__ void write_team(const kf_gemv_job &j, const column_block &b,
                                           const team_mail &mail, const uint32_t *largest)
{
    __syncthreads();
    send_rows<N>(b, mail, largest);
    const uint32_t first = mail.first(mail.rank), tiles = mail.first(mail.rank + 1) - first;
    const uint32_t all = tiles * j.columns * TILE;
    row_end<N> e = {};
    uint32_t n, at;
    auto aim = [&](uint32_t i) {
        const uint32_t column = i / TILE % j.columns, row = i % TILE;
        n = i / TILE / j.columns;
        at = (column * TILE + row) * 4;
        e.aim(j, b, column * b.rows + (first + n) * TILE + row);
        e.load(j);
    };
    auto sum_of = [&](uint32_t part) {
        const float own =
            sum_runs<N>(e.slot + part * SLOT_BYTES<N>, shared_word(e.runs + part * 4));
        return mail.add(own * back_of(largest[e.column]), n, part, at);
    };
    if (b.thread < all) aim(b.thread);
    mail.wait();
#pragma unroll 1
    for (uint32_t i = b.thread; i < all;) {
        const float v = sum_of(0), up = b.unit > 1 ? sum_of(1) : 0;
        const float factor = __uint_as_float(shared_word(b.factors + e.local * 4));
        const float factor_up =
            b.unit > 1 ? __uint_as_float(shared_word(b.factors + (b.rows + e.local) * 4)) : 0;
        e.settle(j);
        if (e.y) e.write(j, v * factor, up * factor_up);
        if ((i += THREADS) < all) aim(i);
    }
}

} // namespace

#endif
