/* gemv_nvfp4.cu - y = A b with both sides NVFP4, on a GPU.
 *
 * b stays, A streams. A warp owns a slice of b for as long as it lives, all of b or an 8th, 4th or
 * half of it: in the registers of a lane, for every 1024 elements, 32 integers 2v and two scales.
 * Row after row of A passes by, a piece of 512 bytes at a time, which is 16 bytes of codes and two
 * scales for a lane. A block has a run of rows, which lie in one piece in memory, and its warps
 * take turns at them, four rows (a quad) each.
 *
 *   half of the ring of each warp is asked for       nothing here depends on b: a kernel may do
 *   b is asked into the second level of the cache    this while the one before it still works
 *   -- griddepcontrol.wait --
 *   b through shared memory into registers, the other half of the ring
 *   rows: codes -> bytes -> DP4A -> fp32; four rows' sums meet by shuffles -> y
 *
 * Half of the ring, because what a kernel asks for early stands in the way of what the one before
 * it asks for at the same time: its b, which all else there waits for. Where all warps share a row,
 * the second half of the blocks ask for half a stage more, if scales are in rows. Two blocks fit a
 * multiprocessor. What binds is the pipe of PRMT, SHF and LOP3, with 28 for 32 elements.
 *
 * Codes become integers without a table in memory: PRMT picks bytes of a table by nibble, and where
 * the nibble has its top bit set it repeats the top bit of the byte; so two tables give two bytes
 * whose sum is 2v (see `tables`), and both go into one chain of DP4A: a block's dot product,
 * exactly. The chain starts from an integer that read as fp32 is 3 * 2^22, units of whose last
 * place it counts: the way to fp32 is one subtraction. The product of two E4M3 scales is exact in
 * fp16 when a quarter of it is taken, and a quarter is due, since both bytes are 2v.
 *
 * Sums of a row meet by shuffles within a warp, and in shared memory where warps share a row: no
 * atomics, one order.
 *
 * Scales in tiles: rows r, r + 32, r + 64, r + 96 of a tile have theirs side by side, so these are
 * a quad there. Quads side by side have theirs in the same line, so these pass through the first
 * level of the cache, where the next warps find them; but not in a chain where all warps work at
 * the same quad. */
#include "block/scale_tiles.h"

#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>

extern "C" {
#include "cuda/handle.h"
#include "gemv_nvfp4_plan.h"
}

namespace
{

enum {
    WARPS = 8,
    THREADS = WARPS * 32,
    OWN = 32,        /* elements of a lane in a piece  */
    PIECE = 32 * OWN /* elements that a warp takes up at once */
};

struct job {
    const uint8_t *a, *sa, *b, *sb;
    const float *second_a, *second_b; /* or NULL */
    void *y;
    uint64_t sa_each, sb_each; /* bytes of the scales of a matrix, of a vector */
    unsigned rows, cols;
    unsigned across;     /* tiles of scales that lie side by side              */
    unsigned blocks;     /* thread blocks of a matrix                          */
    unsigned each, rest; /* quads of every block, and one more of the first so many */
    unsigned part_bits;  /* 2^part_bits warps share a row                      */
    unsigned eager;      /* blocks from this one on ask for more before b      */
    float alpha;
    kerf_dtype type;
    bool b_tiled, early;
    bool near; /* scales of A through the first level of the cache */
};

/* --- pieces ----------------------------------------------------------------------------------- */

__device__ __forceinline__ void launch_dependents()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ __forceinline__ void wait_for_inputs()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* x, but not known to be the same in all threads: a uniform register would be copied into another
 * for each PRMT. */
__device__ __forceinline__ uint32_t kept(uint32_t x)
{
    uint32_t lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return x + (lane >> 5);
}

/* Codes with their signs turned; hidden, lest the compiler turns each half for itself. */
__device__ __forceinline__ uint32_t negated(uint32_t w)
{
    uint32_t r;
    asm("xor.b32 %0, %1, 0x88888888;" : "=r"(r) : "r"(w));
    return r;
}

/* Four nibbles at the low end of w become bytes of a table, which PRMT picks; where a nibble has
 * its top bit set, eight copies of the top bit of that byte. */
template <uint32_t HIGH> __device__ __forceinline__ uint32_t pick(uint32_t low, uint32_t w)
{
    uint32_t r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(low), "n"(HIGH), "r"(w));
    return r;
}

/* For twice the number of a code as two addends:
 *   plus    of the code       2|v| + 1 (0 for 0) for positive codes, 0 for negative ones
 *   minus   of its negative   -1 (0 for 0) for positive codes, -2|v| for negative ones */
constexpr uint32_t PLUS_LOW = 0x04030200, PLUS_HIGH = 0x0d090705;
constexpr uint32_t MINUS_LOW = 0xfdfeff00, MINUS_HIGH = 0xf4f8fafc;
struct tables {
    uint32_t plus, minus;
};

/* 2v of four codes: 2v mod 128 from a table for either sign, where the other one's codes are 0; and
 * seven bits are enough to know the eighth. */
__device__ __forceinline__ uint32_t signed_bytes(uint32_t w)
{
    uint32_t v = pick<0x0c080604>(0x03020100, w) | pick<0x74787a7c>(0x7d7e7f00, w ^ 0x8888);
    return v | (v << 1 & 0x80808080);
}

__device__ __forceinline__ __half2 two_scales(uint32_t codes)
{
    return __half2(__nv_cvt_fp8x2_to_halfraw2((__nv_fp8x2_storage_t)codes, __NV_E4M3));
}

__device__ __forceinline__ void store(const job &j, unsigned matrix, unsigned row, float sum,
                                      float second_a, float second_b)
{
    float v = __fmul_rn(__fmul_rn(__fmul_rn(sum, j.alpha), second_b), second_a);
    uint64_t at = (uint64_t)matrix * j.rows + row;
    if (j.type == KERF_F16)
        ((__half *)j.y)[at] = __float2half_rn(v);
    else if (j.type == KERF_BF16)
        ((__nv_bfloat16 *)j.y)[at] = __float2bfloat16_rn(v);
    else
        ((float *)j.y)[at] = v;
}

/* Row r of a quad. */
template <bool TILED> __device__ __forceinline__ unsigned row_of(unsigned quad, unsigned r)
{
    return TILED ? (quad & ~31u) * 4 + (quad & 31) + 32 * r : 4 * quad + r;
}

/* --- shared memory ---------------------------------------------------------------------------- */

__device__ __forceinline__ uint32_t shared_address(const void *p)
{
    return (uint32_t)__cvta_generic_to_shared(p);
}

__device__ __forceinline__ void copy_16(uint32_t to, const uint8_t *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

/* What other warps will ask for soon: it stays in the first level of the cache. */
__device__ __forceinline__ void copy_16_near(uint32_t to, const uint8_t *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ uint4 load_16(uint32_t at)
{
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(at));
    return v;
}

__device__ __forceinline__ uint32_t load_2(uint32_t at)
{
    uint32_t v;
    asm volatile("{.reg .b16 h; ld.shared.u16 h, [%1]; cvt.u32.u16 %0, h;}" : "=r"(v) : "r"(at));
    return v;
}

__device__ __forceinline__ void store_2(uint32_t to, uint32_t v)
{
    asm volatile("{.reg .b16 h; cvt.u16.u32 h, %1; st.shared.u16 [%0], h;}" ::"r"(to), "r"(v)
                 : "memory");
}

/* A warp's ring: STAGES times the codes of G rows, P pieces each, and the scales of all quads that
 * they are of. */
template <int P> struct ring {
    static constexpr int ROW = P * 512, QUAD = 4 * P * 64; /* bytes */
    static constexpr int G = P <= 2 ? 4 : P <= 4 ? 2 : 1;  /* rows that come and go together */
    static constexpr int STAGES = P == 1 || P == 5 ? 4 : P == 3 || P == 6 ? 3 : 2;
    static constexpr int EARLY = STAGES / 2; /* before b is asked for */
    static constexpr int STAGE = G * ROW, ROWS = G * STAGES;
    static constexpr int QUADS = (ROWS - G + 3) / 4 + 1;
    static constexpr int BYTES = ROWS * ROW + QUADS * QUAD;
};

/* Where row r's two scales of a lane lie in a quad: those of a row side by side, or in tiles four
 * of each row. From a piece to the next: NEXT. */
template <int P, bool TILED> struct quad_scales {
    static constexpr int NEXT = TILED ? 256 : 64, ROW = TILED ? 4 : P * 64;
    static __device__ __forceinline__ unsigned first(unsigned lane)
    {
        return TILED ? lane / 2 * 16 + lane % 2 * 2 : lane * 2;
    }
};

/* --- A ---------------------------------------------------------------------------------------- */

/* A warp's rows on their way into its ring. EDGES: a row ends within the warp's pieces, or scales
 * lie askew. */
template <int P, bool TILED, bool EDGES> struct row_feed {
    typedef ring<P> r;
    typedef quad_scales<P, TILED> q;
    static constexpr int COPIES = (P + 1) / 2; /* of scales of a quad, by a lane */

    const uint8_t *a, *sa; /* of the matrix: the lane's first codes, the part's first scales */
    uint32_t off[COPIES];  /* of the lane's scales within a quad   */
    unsigned first;        /* element that is the lane's first     */
    unsigned have;         /* pieces of the lane that the row has  */
    unsigned quad, row;    /* the next to be asked for             */
    uint32_t scales, slot; /* in shared memory: scales of slot 0; of `quad`, counted from there */

    __device__ __forceinline__ void aim(const job &j, unsigned matrix, unsigned part)
    {
        unsigned lane = threadIdx.x % 32;
        first = part * (P * PIECE) + lane * OWN;
        a = j.a + (uint64_t)matrix * j.rows * (j.cols / 2) + first / 2;
        sa = j.sa + matrix * j.sa_each + (EDGES ? 0 : part * (P * (TILED ? 16 * 512 : 64)));
#pragma unroll
        for (int k = 0; k < COPIES; k++) {
            unsigned i = lane + 32 * k;
            off[k] = TILED ? i * 512 : i / (4 * P) * (j.cols / 16) + i % (4 * P) * 16;
        }
        have = !EDGES ? P : first < j.cols ? min((j.cols - first + PIECE - 1) / PIECE, P) : 0;
        row = 0;
        slot = 0;
        if (EDGES) /* scales past the end of a row stay zero: they might be NaN */
            for (unsigned i = 0; i < r::QUADS * 4 * P; i++)
                store_2(scales + i / (4 * P) * r::QUAD + i % 4 * q::ROW + i / 4 % P * q::NEXT +
                            q::first(lane),
                        0);
    }

    __device__ __forceinline__ void fetch_scales(const job &j)
    {
        unsigned lane = threadIdx.x % 32;
        if (EDGES) {
            for (unsigned i = 0; i < 4 * have; i++) {
                unsigned at = row_of<TILED>(quad, i % 4), block = (first + i / 4 * PIECE) / 16;
                uint64_t from = TILED ? kf_tiled_place(at, block, j.across)
                                      : (uint64_t)at * (j.cols / 16) + block;
                if (at < j.rows)
                    store_2(scales + slot + i % 4 * q::ROW + i / 4 * q::NEXT + q::first(lane),
                            *(const uint16_t *)(sa + from));
            }
            return;
        }
        const uint8_t *from = sa + (TILED ? (uint64_t)(quad / 32) * j.across * 512 + quad % 32 * 16
                                          : (uint64_t)quad * (j.cols / 4));
#pragma unroll
        for (int k = 0; k < COPIES; k++) {
            unsigned i = lane + 32 * k;
            if ((P % 2 == 0 || k < COPIES - 1 || lane < 16) &&
                (TILED || 4 * quad + i / (4 * P) < j.rows))
                copy_scales(j, scales + slot + i * 16, from + off[k]);
        }
    }

    static __device__ __forceinline__ void copy_scales(const job &j, uint32_t to,
                                                       const uint8_t *from)
    {
        if (TILED && j.near)
            copy_16_near(to, from);
        else
            copy_16(to, from);
    }

    /* The next G rows into the ring at `to`, and with the first of a quad the scales of all four.
     * What lies past the last row of a matrix is left as it was. */
    __device__ __forceinline__ void fetch(const job &j, uint32_t to, unsigned step)
    {
        fetch_rows<0, r::G>(j, to, step);
    }

    /* Of these rows [FROM, TO); the last one last. */
    template <int FROM, int TO>
    __device__ __forceinline__ void fetch_rows(const job &j, uint32_t to, unsigned step)
    {
#pragma unroll
        for (int g = FROM; g < TO; g++) {
            unsigned at = row_of<TILED>(quad, row + g);
            const uint8_t *from = a + (uint64_t)at * (j.cols / 2);
#pragma unroll
            for (int i = 0; i < P; i++)
                if (at < j.rows && (!EDGES || i < have))
                    copy_16(to + g * r::ROW + i * 512, from + i * 512);
        }
        if (FROM == 0 && (r::G == 4 || row == 0)) fetch_scales(j);
        if (TO < r::G) return;
        if (r::G == 4 || (row += r::G) == 4) {
            row = 0;
            quad += step;
            slot = slot == (r::QUADS - 1) * r::QUAD ? 0 : slot + r::QUAD;
        }
    }
};

/* --- b ---------------------------------------------------------------------------------------- */

/* Asks for b to be brought to the second level of the cache, where it does not matter who still
 * writes it. */
__device__ __forceinline__ void prefetch_b(const job &j, unsigned matrix)
{
    const uint8_t *b = j.b + (uint64_t)matrix * (j.cols / 2), *sb = j.sb + matrix * j.sb_each;
    unsigned step = j.b_tiled ? 512 : 128, lines = j.b_tiled ? j.across : (j.cols / 16 + 127) / 128;
    for (unsigned i = threadIdx.x; i * 256 < j.cols; i += THREADS)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(b + i * 128));
    for (unsigned i = threadIdx.x; i < lines; i += THREADS)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(sb + i * step));
}

/* A vector on its way into shared memory: 2v in bytes, a quarter of its scales in halves, zeros
 * past its end. A thread asks for its part, word by word, before it looks at any of it. */
struct b_feed {
    enum { WORDS = 8, PAIRS = WORDS / 4, BATCH = WORDS * THREADS }; /* of a thread; of all */
    uint32_t w[WORDS], two[PAIRS];

    __device__ __forceinline__ void load(const job &j, unsigned matrix, unsigned from)
    {
        const uint32_t *b = (const uint32_t *)(j.b + (uint64_t)matrix * (j.cols / 2));
        const uint8_t *sb = j.sb + matrix * j.sb_each;
#pragma unroll
        for (int k = 0; k < WORDS; k++) {
            unsigned i = from + k * THREADS + threadIdx.x;
            w[k] = i < j.cols / 8 ? __ldcg(b + i) : 0;
        }
#pragma unroll
        for (int k = 0; k < PAIRS; k++) {
            unsigned i = from / 4 + k * THREADS + threadIdx.x;
            uint64_t at = j.b_tiled ? kf_tiled_place(0, 2 * i, j.across) : 2 * i;
            two[k] = i < j.cols / OWN ? __ldcg((const uint16_t *)(sb + at)) : 0;
        }
    }

    __device__ __forceinline__ void put(unsigned from, unsigned elements, uint8_t *bytes,
                                        __half2 *scales) const
    {
#pragma unroll
        for (int k = 0; k < WORDS; k++) {
            unsigned i = from + k * THREADS + threadIdx.x;
            if (from + k * THREADS >= elements / 8) break;
            if (i < elements / 8)
                ((uint2 *)bytes)[i] = {signed_bytes(w[k]), signed_bytes(w[k] >> 16)};
        }
#pragma unroll
        for (int k = 0; k < PAIRS; k++) {
            unsigned i = from / 4 + k * THREADS + threadIdx.x;
            if (i < elements / OWN)
                scales[i] = __hmul2_rn(two_scales(two[k]), __float2half2_rn(0.25f));
        }
    }
};

/* A lane's part of b: 2v in bytes, a quarter of its scales. */
template <int P> struct slice {
    uint32_t v[P][8];
    __half2 scales[P];
};

template <int P>
__device__ __forceinline__ void load_slice(slice<P> *s, const uint8_t *bytes, const __half2 *scales,
                                           unsigned first)
{
#pragma unroll
    for (int i = 0; i < P; i++) {
        uint32_t at = shared_address(bytes + first + i * PIECE);
        uint4 x = load_16(at), y = load_16(at + 16);
        s->v[i][0] = x.x, s->v[i][1] = x.y, s->v[i][2] = x.z, s->v[i][3] = x.w;
        s->v[i][4] = y.x, s->v[i][5] = y.y, s->v[i][6] = y.z, s->v[i][7] = y.w;
        s->scales[i] = scales[(first + i * PIECE) / OWN];
    }
}

/* --- the product ------------------------------------------------------------------------------ */

/* Eight codes times eight numbers of b, added to a sum. */
__device__ __forceinline__ int dot_word(tables t, uint32_t w, uint32_t b0, uint32_t b1, int sum)
{
    uint32_t n = negated(w);
    sum = __dp4a((int)pick<PLUS_HIGH>(t.plus, w), (int)b0, sum);
    sum = __dp4a((int)pick<MINUS_HIGH>(t.minus, n), (int)b0, sum);
    sum = __dp4a((int)pick<PLUS_HIGH>(t.plus, w >> 16), (int)b1, sum);
    return __dp4a((int)pick<MINUS_HIGH>(t.minus, n >> 16), (int)b1, sum);
}

constexpr int START = 0x4b400000; /* as fp32 3 * 2^22, whose last place counts ones */

__device__ __forceinline__ float counted(int c)
{
    return __fadd_rn(__int_as_float(c), -__int_as_float(START));
}

/* The lane's part of a row. */
template <int P, bool TILED>
__device__ __forceinline__ float multiply_row(const slice<P> &b, tables t, uint32_t codes,
                                              uint32_t scales)
{
    float sum = 0;
#pragma unroll
    for (int i = 0; i < P; i++) {
        const uint32_t *v = b.v[i];
        uint4 w = load_16(codes + i * 512);
        __half2 f =
            __hmul2_rn(two_scales(load_2(scales + i * quad_scales<P, TILED>::NEXT)), b.scales[i]);
        int c = dot_word(t, w.y, v[2], v[3], dot_word(t, w.x, v[0], v[1], START));
        int d = dot_word(t, w.w, v[6], v[7], dot_word(t, w.z, v[4], v[5], START));
        sum =
            i ? __fmaf_rn(counted(c), __low2float(f), sum) : __fmul_rn(counted(c), __low2float(f));
        sum = __fmaf_rn(counted(d), __high2float(f), sum);
    }
    return sum;
}

/* p[0] becomes the warp's sum of p[lane / 8]. */
__device__ __forceinline__ void sum_over_warp(float p[4], unsigned lane)
{
    bool upper = lane & 16;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float keep = upper ? p[2 + i] : p[i], give = upper ? p[i] : p[2 + i];
        p[i] = keep + __shfl_xor_sync(~0u, give, 16);
    }
    upper = lane & 8;
    float keep = upper ? p[1] : p[0], give = upper ? p[0] : p[1];
    p[0] = keep + __shfl_xor_sync(~0u, give, 8);
#pragma unroll
    for (int half = 4; half >= 1; half /= 2) p[0] += __shfl_xor_sync(~0u, p[0], half);
}

/* Sums over the warps of a row, in their order. */
template <bool TILED>
__device__ __forceinline__ void finish_rows(const job &j, unsigned matrix, const float *partial,
                                            unsigned quad0, unsigned quads, unsigned parts,
                                            float second_a, float second_b)
{
    for (unsigned i = threadIdx.x; i < quads * 4; i += THREADS) {
        unsigned row = row_of<TILED>(quad0 + i / 4, i % 4);
        float sum = 0;
        for (unsigned w = 0; w < parts; w++) sum += partial[i * parts + w];
        if (row < j.rows) store(j, matrix, row, sum, second_a, second_b);
    }
}

/* --- kernels ---------------------------------------------------------------------------------- */

template <int P, bool TILED, bool EDGES>
__global__ void __launch_bounds__(THREADS, 2) multiply(const __grid_constant__ job j)
{
    typedef ring<P> r;
    extern __shared__ __align__(128) uint8_t shared[];
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, matrix = blockIdx.y;
    launch_dependents();
    const unsigned parts = 1u << j.part_bits, part = warp & (parts - 1);
    const unsigned team = warp >> j.part_bits, teams = WARPS >> j.part_bits;
    const unsigned quad0 = blockIdx.x * j.each + min(blockIdx.x, j.rest);
    const unsigned quads = j.each + (blockIdx.x < j.rest);
    uint8_t *bytes = shared + WARPS * r::BYTES;
    __half2 *b_scales = (__half2 *)(bytes + parts * (P * PIECE));
    float *partial = (float *)(b_scales + parts * (P * PIECE / OWN)); /* [row][part] */
    const uint32_t rows = shared_address(shared) + warp * r::BYTES + lane * 16;

    row_feed<P, TILED, EDGES> feed;
    feed.quad = quad0 + team;
    feed.scales = shared_address(shared) + warp * r::BYTES + r::ROWS * r::ROW;
    feed.aim(j, matrix, part);
    unsigned left = quads > team ? (quads - team + teams - 1) / teams * 4 : 0, ask = left;
    const unsigned elements = parts * (P * PIECE);
    b_feed some;
    if (!j.early) { /* b first: later it would stand behind all that the ring asks for */
        wait_for_inputs();
        some.load(j, matrix, 0);
    }
    uint32_t to = rows;
    auto ask_for = [&](int stages) {
#pragma unroll 1
        for (int i = 0; i < stages; i++, to += r::STAGE) {
            if (ask) feed.fetch(j, to, teams), ask -= r::G;
            asm volatile("cp.async.commit_group;" ::: "memory");
        }
    };
    constexpr int HALF = r::G / 2;
    ask_for(r::EARLY);
    const bool eager = !TILED && HALF > 1 && ask && blockIdx.x >= j.eager;
    if (eager) feed.template fetch_rows<0, HALF>(j, to, teams);
    if (j.early) {
        prefetch_b(j, matrix);
        wait_for_inputs();
        some.load(j, matrix, 0);
    }
    if (eager) {
        feed.template fetch_rows<HALF, r::G>(j, to, teams);
        ask -= r::G;
        asm volatile("cp.async.commit_group;" ::: "memory");
        to += r::STAGE;
    }
    ask_for(r::STAGES - r::EARLY - eager);
    some.put(0, elements, bytes, b_scales);
    for (unsigned from = b_feed::BATCH; from < elements / 8; from += b_feed::BATCH) {
        some.load(j, matrix, from);
        some.put(from, elements, bytes, b_scales);
    }
    float second_a = 1, second_b = 1;
    if (j.second_b) second_b = __ldcg(j.second_b + matrix);
    if (j.second_a) second_a = __ldcg(j.second_a + matrix);
    __syncthreads();

    const tables t = {kept(PLUS_LOW), kept(MINUS_LOW)};
    slice<P> b;
    load_slice(&b, bytes, b_scales, part * (P * PIECE) + lane * OWN);
    const uint32_t my_scales = feed.scales + quad_scales<P, TILED>::first(lane);
    uint32_t at = rows, quad_at = my_scales;
    unsigned quad = quad0 + team;
    float p[4] = {};
#pragma unroll 1
    for (unsigned row = 0; left; left -= r::G) {
        asm volatile("cp.async.wait_group %0;" ::"n"(r::STAGES - 1) : "memory");
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 4 - r::G; i++) p[i] = p[i + r::G];
#pragma unroll
        for (int g = 0; g < r::G; g++)
            p[4 - r::G + g] = multiply_row<P, TILED>(
                b, t, at + g * r::ROW, quad_at + (row + g) * quad_scales<P, TILED>::ROW);
        __syncwarp();
        if (ask) feed.fetch(j, at, teams), ask -= r::G;
        asm volatile("cp.async.commit_group;" ::: "memory");
        at = at == rows + (r::STAGES - 1) * r::STAGE ? rows : at + r::STAGE;
        if (r::G < 4 && (row += r::G) < 4) continue;
        sum_over_warp(p, lane);
        unsigned mine = row_of<TILED>(quad, lane / 8);
        if (lane % 8 == 0) {
            if (parts > 1)
                partial[((quad - quad0) * 4 + lane / 8) * parts + part] = p[0];
            else if (mine < j.rows)
                store(j, matrix, mine, p[0], second_a, second_b);
        }
        row = 0;
        quad += teams;
        quad_at = quad_at == my_scales + (r::QUADS - 1) * r::QUAD ? my_scales : quad_at + r::QUAD;
    }
    if (parts == 1) return;
    __syncthreads();
    finish_rows<TILED>(j, matrix, partial, quad0, quads, parts, second_a, second_b);
}

__device__ __forceinline__ uint2 load_block(const uint8_t *p)
{
    uint2 v = {0, 0};
    for (int i = 0; i < 4; i++) {
        v.x |= (uint32_t)p[i] << 8 * i;
        v.y |= (uint32_t)p[i + 4] << 8 * i;
    }
    return v;
}

/* Four times the dot product of four codes of a at the low end of w with those of b. */
__device__ __forceinline__ int dot_four(uint32_t a, uint32_t b, int sum)
{
    return __dp4a((int)signed_bytes(a), (int)signed_bytes(b), sum);
}

/* Any alignment, any number of blocks: a warp for a row, a lane for a block. */
template <bool TILED>
__global__ void __launch_bounds__(256) multiply_any(const __grid_constant__ job j)
{
    wait_for_inputs();
    const unsigned lane = threadIdx.x % 32, blocks = j.cols / 16;
    const unsigned matrix = blockIdx.x / j.blocks;
    const unsigned row = blockIdx.x % j.blocks * 8 + threadIdx.x / 32;
    if (row >= j.rows) return;
    const uint8_t *a = j.a + ((uint64_t)matrix * j.rows + row) * (j.cols / 2);
    const uint8_t *b = j.b + (uint64_t)matrix * (j.cols / 2);
    float sum = 0;
    for (unsigned i = lane; i < blocks; i += 32) {
        uint64_t pa = TILED ? kf_tiled_place(row, i, j.across) : (uint64_t)row * blocks + i;
        uint64_t pb = j.b_tiled ? kf_tiled_place(0, i, j.across) : i;
        uint2 x = load_block(a + 8 * i), y = load_block(b + 8 * i);
        int dot = dot_four(x.x, y.x, dot_four(x.x >> 16, y.x >> 16, 0));
        dot = dot_four(x.y, y.y, dot_four(x.y >> 16, y.y >> 16, dot));
        uint32_t both = j.sa[matrix * j.sa_each + pa] | j.sb[matrix * j.sb_each + pb] << 8;
        float2 s = __half22float2(two_scales(both));
        sum = __fmaf_rn((float)dot, __fmul_rn(s.x, __fmul_rn(0.25f, s.y)), sum);
    }
#pragma unroll
    for (int half = 16; half >= 1; half /= 2) sum += __shfl_xor_sync(~0u, sum, half);
    if (lane == 0)
        store(j, matrix, row, sum, j.second_a ? j.second_a[matrix] : 1.0f,
              j.second_b ? j.second_b[matrix] : 1.0f);
}

/* --- host ------------------------------------------------------------------------------------- */

typedef void (*kernel)(job);

#define INSTANCES(P)                                             \
    {                                                            \
        {multiply<P, false, false>, multiply<P, false, true>},   \
            {multiply<P, true, false>, multiply<P, true, true>}, \
    }
enum { MOST_PIECES = 8, MOST_SHARED_QUADS = 64 /* of a block whose warps share rows */ };
const kernel kernels[MOST_PIECES][2][2] = {INSTANCES(1), INSTANCES(2), INSTANCES(3), INSTANCES(4),
                                           INSTANCES(5), INSTANCES(6), INSTANCES(7), INSTANCES(8)};

#define RING(P)                        \
    {                                  \
        ring<P>::BYTES, 4 / ring<P>::G \
    }
const struct {
    unsigned bytes, steps; /* steps: of a warp for a quad */
} rings[MOST_PIECES] = {RING(1), RING(2), RING(3), RING(4), RING(5), RING(6), RING(7), RING(8)};

struct machine {
    int processors, most_shared, all_shared, reserved; /* bytes of a block, a multiprocessor */
};

/* A launch with 2^part_bits warps to a row and so many blocks on a multiprocessor, and about how
 * many instructions its busiest warp has; 0: not possible. */
static uint64_t lay_out(kf_nvfp4_launch *l, const kerf_gemv_nvfp4_shape *s, unsigned part_bits,
                        unsigned resident, const machine *m)
{
    uint64_t parts = 1u << part_bits, teams = WARPS / parts, batch = s->batch ? s->batch : 1;
    uint64_t quads =
        s->a_scales == KERF_SCALES_TILES ? (s->rows + 127) / 128 * 32 : (s->rows + 3) / 4;
    *l = kf_nvfp4_launch{};
    l->pieces = (unsigned)((s->cols + parts * PIECE - 1) / (parts * PIECE));
    if (l->pieces > MOST_PIECES) return 0;
    uint64_t blocks = (uint64_t)m->processors * resident / batch;
    uint64_t least = parts > 1 ? (quads + MOST_SHARED_QUADS - 1) / MOST_SHARED_QUADS : 1;
    if (blocks > quads) blocks = quads;
    if (blocks < least) blocks = least;
    if (blocks == 0) blocks = 1;
    uint64_t most = (quads + blocks - 1) / blocks;
    l->part_bits = part_bits;
    l->blocks = (unsigned)blocks;
    l->each = (unsigned)(quads / blocks);
    l->rest = (unsigned)(quads % blocks);
    l->elements = (unsigned)parts * l->pieces * PIECE;
    l->shared = WARPS * rings[l->pieces - 1].bytes + l->elements / 8 * 9 +
                (parts > 1 ? (unsigned)(most * 4 * parts * 4) : 0);
    if (l->shared > (unsigned)m->most_shared) return 0;
    return (most + teams - 1) / teams * (216 * l->pieces + 50 * rings[l->pieces - 1].steps + 60) +
           1;
}

/* A third block on a multiprocessor would be one of another call, and leave it with more to do than
 * the others. */
static unsigned room_of_two(unsigned shared, const machine *m)
{
    int third = m->all_shared / 3 - m->reserved + 128;
    return third > (int)shared && third <= m->most_shared ? (unsigned)third : shared;
}

static kerf_status plan_launch(kerf_gemv_nvfp4 *p, kf_nvfp4_tuning t, kerf_error *err)
{
    machine m = {};
    const struct {
        int *value;
        cudaDeviceAttr what;
    } asked[] = {{&m.processors, cudaDevAttrMultiProcessorCount},
                 {&m.most_shared, cudaDevAttrMaxSharedMemoryPerBlockOptin},
                 {&m.all_shared, cudaDevAttrMaxSharedMemoryPerMultiprocessor},
                 {&m.reserved, cudaDevAttrReservedSharedMemoryPerBlock}};
    for (auto &a : asked)
        KF_CUDA(cudaDeviceGetAttribute(a.value, a.what, p->ordinal),
                "asking a GPU for its properties");
    uint64_t best = 0;
    unsigned bits = 0;
    for (unsigned i = 0; i <= 3; i++) {
        uint64_t cost = lay_out(&p->launch, &p->shape, i, 2, &m);
        if (cost && (t.parts == 0 || t.parts == 1u << i) && (!best || cost < best))
            best = cost, bits = i;
    }
    p->fast = best != 0;
    if (!p->fast) return KERF_OK;
    /* Two blocks leave a multiprocessor one after the other, and those of the next call come in one
     * after the other. Where there is no next call yet, one has less to begin with. */
    bool one = !(p->shape.flags & KERF_GEMV_CONSTANT_WEIGHTS) && p->shape.batch &&
               m.processors % p->shape.batch == 0;
    if (!lay_out(&p->launch, &p->shape, bits, t.resident ? t.resident : one ? 1 : 2, &m))
        lay_out(&p->launch, &p->shape, bits, 2, &m);
    p->launch.shared = room_of_two(p->launch.shared, &m);
    bool tiled = p->shape.a_scales == KERF_SCALES_TILES;
    for (int edges = 0; edges < 2; edges++) {
        const void *k = (const void *)kernels[p->launch.pieces - 1][tiled][edges];
        KF_CUDA(cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     (int)p->launch.shared),
                "asking for shared memory");
        /* Launches that divide a multiprocessor's memory otherwise cannot overlap. Scales in tiles
         * want the first level of the cache besides. */
        if (tiled) continue;
        KF_CUDA(cudaFuncSetAttribute(k, cudaFuncAttributePreferredSharedMemoryCarveout,
                                     cudaSharedmemCarveoutMaxShared),
                "asking for shared memory");
    }
    return KERF_OK;
}

static bool aligned(const void *p, unsigned to)
{
    return (uintptr_t)p % to == 0;
}

static bool is_fast(const job &j, bool a_tiled)
{
    return aligned(j.a, 16) && aligned(j.b, 16) && aligned(j.sa, a_tiled ? 16 : 2) &&
           aligned(j.sb, 2);
}

static cudaError_t launch(kernel k, const job &j, dim3 blocks, unsigned threads, unsigned shared,
                          cudaStream_t s)
{
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t c = {};
    c.gridDim = blocks;
    c.blockDim = dim3(threads);
    c.dynamicSmemBytes = shared;
    c.stream = s;
    c.attrs = &early;
    c.numAttrs = j.early;
    return cudaLaunchKernelEx(&c, k, j);
}

} // namespace

extern "C" kerf_status kf_nvfp4_cuda_plan(kerf_gemv_nvfp4 *p, kerf_device *device,
                                          const kf_nvfp4_tuning *tuning, kerf_error *err)
{
    uint64_t steps = p->shape.cols / 512 + 64;
    p->on_gpu = 1;
    p->ordinal = kf_gpu_of(device)->ordinal;
    p->fast = p->shape.cols % OWN == 0 && p->shape.cols <= 32768 && p->shape.cols > 0 &&
              p->shape.batch <= 65535;
    p->bound = (double)steps * 0x1p-24;
    if (p->shape.rows > UINT32_MAX - 4096 || p->shape.batch * ((p->shape.rows + 7) / 8) > INT32_MAX)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "%llu x %llu rows are too many for one launch",
                       (unsigned long long)p->shape.batch, (unsigned long long)p->shape.rows);
    KF_CUDA(cudaSetDevice(p->ordinal), "choosing a GPU");
    return p->fast ? plan_launch(p, tuning ? *tuning : kf_nvfp4_tuning{0, 0}, err) : KERF_OK;
}

extern "C" kerf_status kf_nvfp4_cuda_run(const kerf_gemv_nvfp4 *p, const kerf_gemv_nvfp4_args *x,
                                         void *stream, kerf_error *err)
{
    const kerf_gemv_nvfp4_shape *s = &p->shape;
    const kf_nvfp4_launch *l = &p->launch;
    bool tiled = s->a_scales == KERF_SCALES_TILES;
    job j = {};
    j.a = (const uint8_t *)x->a[KERF_PLANE_CODES].p;
    j.sa = (const uint8_t *)x->a[KERF_PLANE_SCALES].p;
    j.b = (const uint8_t *)x->b[KERF_PLANE_CODES].p;
    j.sb = (const uint8_t *)x->b[KERF_PLANE_SCALES].p;
    j.second_a = (const float *)x->a[KERF_PLANE_SECOND].p;
    j.second_b = (const float *)x->b[KERF_PLANE_SECOND].p;
    j.y = x->y.p;
    j.sa_each = p->a_scales_each;
    j.sb_each = p->b_scales_each;
    j.rows = (unsigned)s->rows;
    j.cols = (unsigned)s->cols;
    j.across = (j.cols / 16 + KF_TILE_COLS - 1) / KF_TILE_COLS;
    j.each = l->each;
    j.rest = l->rest;
    j.part_bits = l->part_bits;
    j.alpha = x->alpha == 0 ? 1 : x->alpha;
    j.type = s->y;
    j.b_tiled = s->b_scales == KERF_SCALES_TILES;
    j.early = s->flags & KERF_GEMV_CONSTANT_WEIGHTS;
    j.near = !j.early || l->part_bits == 0;
    j.eager = j.early && l->part_bits == 3 && s->batch == 1 ? l->blocks / 2 : UINT32_MAX;
    bool fast = p->fast && is_fast(j, tiled);
    kernel k = tiled ? multiply_any<true> : multiply_any<false>;
    j.blocks = (j.rows + 7) / 8;
    dim3 blocks(j.blocks * (unsigned)s->batch);
    if (fast) {
        bool edges = j.cols != l->elements || !aligned(j.sa, 16);
        k = kernels[l->pieces - 1][tiled][edges];
        blocks = dim3(l->blocks, (unsigned)s->batch);
    }
    KF_CUDA(cudaSetDevice(p->ordinal), "choosing a GPU");
    KF_CUDA(launch(k, j, blocks, 256, fast ? l->shared : 0, (cudaStream_t)stream),
            "starting a kernel");
    return KERF_OK;
}
