/* gemv_column_y.cuh - from the runs of a block's warps to y, where x has up to four columns.
 *
 * A thread writes a number of y, or several: the block's rows of the first column, then of the
 * next. Nothing else goes on between the last sum and y, so all that does not depend on sums (bias,
 * residual, factors of rows) is loaded before x is known. Atomics on shared memory are avoided: one
 * that comes after the ring's copies took microseconds. */
#ifndef KERF_GEMV_COLUMN_Y_CUH
#define KERF_GEMV_COLUMN_Y_CUH

#include "cuda/gemv/gemv_multiply.cuh"
#include "cuda/gemv/gemv_sums.cuh"

namespace
{

/* What a block knows of its own place. */
struct column_block {
    team_span span;
    uint32_t thread, unit, rows;          /* unit: tiles for 16 rows of y; rows: of y */
    uint32_t items;                       /* numbers of y: rows of all columns */
    uint32_t slots, factors, zeros, runs; /* addresses in shared memory */
};

/* Where warp w of the block begins in n units. */
__device__ __forceinline__ uint32_t cut(uint32_t n, uint32_t w)
{
    return n * w / WARPS;
}

/* Which warps have a part of a tile, a bit for each. */
__device__ __forceinline__ void prepare_runs(const team_span &s, uint32_t stages, uint32_t thread,
                                             uint32_t runs)
{
    uint32_t units = s.tiles * stages;
#pragma unroll 1
    for (uint32_t tile = thread; tile < s.tiles; tile += THREADS) {
        uint32_t from = tile * stages, to = from + stages, mask = 0;
        for (uint32_t w = 0; w < WARPS; w++)
            if (max(cut(units, w), from) < min(cut(units, w + 1), to)) mask |= 1u << w;
        put_word(runs + tile * 4, mask);
    }
}

/* Whether a thread keeps all of its first number's end while weights are read: with more columns
 * registers are full, and what can be found again is. */
template <int N> constexpr bool KEEPS_END = N < 3;

/* A warp's sums of a tile: [column][row]. */
template <int N> constexpr uint32_t SLOT_BYTES = N *TILE * 4;

/* The sum of a row over the warps that had a part of its tile, in their order: those that did not
 * have slots of other tiles in their places. slot: the row's in the first of them. */
template <int N> __device__ __forceinline__ float sum_runs(uint32_t slot, uint32_t runs)
{
    float part[WARPS], sum = 0;
#pragma unroll
    for (uint32_t w = 0; w < WARPS; w++)
        part[w] = __uint_as_float(shared_word(slot + w * SLOT_BYTES<N>));
#pragma unroll
    for (uint32_t w = 0; w < WARPS; w++) sum += runs >> w & 1 ? part[w] : 0.0f;
    return sum;
}

/* Number i of the block's part of y: where it goes (aim), what is loaded for it (load), and the
 * values of that, once it is needed (settle). */
template <int N> struct row_end {
    uint8_t *y; /* where it goes; none past the last row */
    const uint8_t *bias, *residual;
    uint32_t bits[2];   /* of bias and residual */
    float added[2];     /* their values */
    row_scale scale[2]; /* of its sum, and of the second part's */
    float factor, up;
    uint32_t slot, runs;    /* addresses */
    uint32_t part, row;     /* of the matrix */
    uint32_t column, local; /* of y; the row among the block's */

    __device__ __forceinline__ void aim(const kf_gemv_job &j, const column_block &b, uint32_t i)
    {
        column = N == 1 ? 0 : i / b.rows;
        local = i - column * b.rows;
        uint32_t tile = local / TILE * b.unit, size = j.y_type == KERF_F32 ? 4 : 2;
        place p = b.span.at(tile);
        const kf_gemv_matrix &m = b.span.part[p.part];
        row = p.row + local % TILE;
        part = p.part;
        uint64_t at = (column * m.y_stride + row) * size;
        bool inside = row < m.rows;
        y = inside ? m.y + at : nullptr;
        bias = inside && m.bias ? m.bias + (uint64_t)row * size : nullptr;
        residual = inside && m.residual ? m.residual + at : nullptr;
        slot = b.slots + tile * SLOT_BYTES<N> + (column * TILE + local % TILE) * 4;
        runs = b.runs + tile * 4;
    }

    __device__ __forceinline__ void load_scales(const kf_gemv_job &j, const column_block &b)
    {
        if (!y) return;
        scale[0] = load_row_scale(j, b.span.part[part], row);
        if (b.unit > 1) scale[1] = load_row_scale(j, b.span.part[1], row);
    }
    __device__ __forceinline__ void find_factors()
    {
        factor = factor_of(scale[0]);
        up = factor_of(scale[1]);
    }

    /* What the kernel before this one may have written. */
    __device__ __forceinline__ void load(const kf_gemv_job &j)
    {
        bits[0] = bits[1] = j.y_type == KERF_F32 ? 0x80000000u : 0x8000u; /* -0 changes nothing */
        if (bias) bits[0] = load_bits(j, bias, 0);
        if (residual) bits[1] = load_bits(j, residual, 0);
    }
    __device__ __forceinline__ void settle(const kf_gemv_job &j)
    {
        added[0] = value_of(j, bits[0]);
        added[1] = value_of(j, bits[1]);
    }

    __device__ __forceinline__ void write(const kf_gemv_job &j, float sum, float sum_up) const
    {
        float v = activate(j, sum, sum_up);
        v += added[0];
        v += added[1];
        store_y(j, y, 0, v);
    }
};

/* Factors of the rows of y that a thread writes after its first, and zero points of all: what a
 * read of memory in the end would cost. */
template <int N>
__device__ __forceinline__ void prepare_more(const kf_gemv_job &j, const column_block &b)
{
    if constexpr (ROW_ZEROS) {
#pragma unroll 1
        for (uint32_t i = b.thread; i < b.span.tiles * TILE; i += THREADS) {
            place p = b.span.at(i / TILE);
            const kf_gemv_matrix &m = b.span.part[p.part];
            uint32_t zero = row_zero(j, m, min(p.row + i % TILE, m.rows - 1));
            put_word(b.zeros + i * 4, minus_1024(zero));
        }
    }
#pragma unroll 1
    for (uint32_t i = b.thread + (N == 1 ? THREADS : 0);
         i < b.rows && (b.items > THREADS || !KEEPS_END<N>); i += THREADS) {
        row_end<N> e = {};
        e.aim(j, b, i);
        e.load_scales(j, b);
        e.find_factors();
        put_word(b.factors + i * 4, __float_as_uint(e.factor));
        if (b.unit > 1) put_word(b.factors + (b.rows + i) * 4, __float_as_uint(e.up));
    }
}

/* What makes up for the power of two that a column of x was multiplied by. */
__device__ __forceinline__ float back_of(uint32_t largest)
{
    return kf_exp2(-x_shift(largest));
}

/* --- what blocks of a cluster send each other ----------------------------------------------------
 *
 * It goes straight to the other's shared memory, and is counted in there by a barrier that knows
 * how many bytes will come. Addresses with "there" are of another block: in_block(). */

#if __CUDA_ARCH__ >= 900
/* By one thread, before any block may send. */
__device__ __forceinline__ void expect_mail(uint32_t arrivals, uint32_t bytes)
{
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(arrivals) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("{.reg .b64 s; mbarrier.arrive.expect_tx.shared.b64 s, [%0], %1;}" ::"r"(arrivals),
                 "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void send_word(uint32_t there, float v, uint32_t arrivals_there)
{
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, "
                 "[%2];" ::"r"(there),
                 "r"(__float_as_uint(v)), "r"(arrivals_there)
                 : "memory");
}
__device__ __forceinline__ void send_four(uint32_t there, const float v[4], uint32_t arrivals_there)
{
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], "
                 "{%1, %2, %3, %4}, [%5];" ::"r"(there),
                 "r"(__float_as_uint(v[0])), "r"(__float_as_uint(v[1])), "r"(__float_as_uint(v[2])),
                 "r"(__float_as_uint(v[3])), "r"(arrivals_there)
                 : "memory");
}
__device__ __forceinline__ void wait_for_mail(uint32_t arrivals)
{
    uint32_t done;
    do {
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 "
                     "p, [%1], 0; selp.u32 %0, 1, 0, p;}"
                     : "=r"(done)
                     : "r"(arrivals)
                     : "memory");
    } while (!done);
}
#else /* no clusters: never a team */
__device__ __forceinline__ void expect_mail(uint32_t, uint32_t) {}
__device__ __forceinline__ void send_word(uint32_t, float, uint32_t) {}
__device__ __forceinline__ void send_four(uint32_t, const float[4], uint32_t) {}
__device__ __forceinline__ void wait_for_mail(uint32_t) {}
#endif

/* What two blocks that share rows, a half of K each, send each other: sums of the rows that the
 * other one writes, which are the first half of all numbers for the first block and the rest for
 * the second. */
struct pair_mail {
    uint32_t items, parts; /* numbers of y; sums of each: 2 with SwiGLU */
    uint32_t rank;
    uint32_t box, arrivals; /* addresses: [part][item], the barrier */

    __device__ __forceinline__ bool is_own(uint32_t i) const
    {
        return (i >= items - items / 2) == (rank == 1);
    }
    __device__ __forceinline__ uint32_t place(uint32_t i, uint32_t part) const
    {
        return box + (part * items + i) * 4;
    }

    /* By one thread, before the other block may send. */
    __device__ __forceinline__ void expect() const
    {
        expect_mail(arrivals, (rank ? items / 2 : items - items / 2) * parts * 4);
    }
    __device__ __forceinline__ void send(uint32_t i, uint32_t part, float v) const
    {
        send_word(in_block(place(i, part), rank ^ 1), v, in_block(arrivals, rank ^ 1));
    }
    __device__ __forceinline__ void wait() const { wait_for_mail(arrivals); }

    /* Both blocks' sums, in the order of the blocks. */
    __device__ __forceinline__ float add(float own, uint32_t i, uint32_t part) const
    {
        float other = __uint_as_float(shared_word(place(i, part)));
        return rank ? other + own : own + other;
    }
};

/* y of the block's rows; e, back: of the thread's first. largest: of each column of x. With a PAIR
 * of blocks each has sums of its own part of K, and of x a power of two of its own. */
template <int N, bool PAIR>
__device__ __forceinline__ void write_rows(const kf_gemv_job &j, const column_block &b,
                                           const pair_mail &mail, row_end<N> e, float back,
                                           const uint32_t *largest)
{
    uint32_t runs = 0, runs_up = 0;
    auto find_runs = [&] {
        runs = shared_word(e.runs);
        if (b.unit > 1) runs_up = shared_word(e.runs + 4);
    };
    auto find_again = [&](uint32_t i) {
        e.aim(j, b, i);
        back = back_of(largest[e.column]);
        e.factor = __uint_as_float(shared_word(b.factors + e.local * 4));
        if (b.unit > 1) e.up = __uint_as_float(shared_word(b.factors + (b.rows + e.local) * 4));
        find_runs();
    };
    auto sum_of = [&](uint32_t part) {
        float v = sum_runs<N>(e.slot + part * SLOT_BYTES<N>, part ? runs_up : runs);
        return PAIR ? v * back : v;
    };
    uint32_t i = b.thread;
    if (KEEPS_END<N> && i < b.items) find_runs();
    __syncthreads();
    if (i >= b.items) return;
    if (!KEEPS_END<N>) find_again(i);
    if constexpr (PAIR) {
        const row_end<N> first = e;
        const float first_back = back;
        for (;;) { /* before all else: the other block waits for them */
            if (!mail.is_own(i)) {
                mail.send(i, 0, sum_of(0));
                if (b.unit > 1) mail.send(i, 1, sum_of(1));
            }
            if ((i += THREADS) >= b.items) break;
            find_again(i);
        }
        i = b.thread;
        e = first;
        back = first_back;
        find_runs();
    }
    for (;;) {
        if (!PAIR || mail.is_own(i)) {
            float v = sum_of(0), up = b.unit > 1 ? sum_of(1) : 0, rest = PAIR ? 1 : back;
            if constexpr (PAIR) {
                mail.wait();
                v = mail.add(v, i, 0);
                if (b.unit > 1) up = mail.add(up, i, 1);
            }
            v = v * rest * e.factor; /* of both factors the product may be 0 or infinite */
            if (b.unit > 1) up = up * rest * e.up;
            if (e.y) e.write(j, v, up);
        }
        if ((i += THREADS) >= b.items) return;
        find_again(i);
        e.load(j);
        e.settle(j);
    }
}

} // namespace

#endif
