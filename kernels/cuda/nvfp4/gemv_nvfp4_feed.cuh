/* gemv_nvfp4_feed.cuh - how A and b come to the lanes of y = A b with both sides NVFP4: rows of A,
 * and their scales, through the ring of each warp in shared memory; b once, as bytes, into
 * registers. */
#ifndef KERF_GEMV_NVFP4_FEED_CUH
#define KERF_GEMV_NVFP4_FEED_CUH

#include "cuda/nvfp4/gemv_nvfp4_codes.cuh"

namespace
{

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

} // namespace

#endif
