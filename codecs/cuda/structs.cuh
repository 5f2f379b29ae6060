/* structs.cuh - GGUF's blocks, scale and codes in one struct of 17 to 36 bytes: a thread takes a
 * group. Structs are put together in shared memory and leave it in whole lines, for their own
 * addresses are odd.
 *
 * Codes are those of kf_code() in block/, in fewer instructions:
 *
 *   integers  where block/ cuts a positive number off, adding 2^23 rounded down does the same
 *   E2M1      the nearest code, ties to the lower one: elements are made smaller by a little, so
 *             that ties have moved below themselves and nothing else has crossed one. A bfloat16
 *             divided by a scale of 4 bits is a tie or further than 2^-8 of itself from one: 2^-10
 *             then leaves room for halves. fp16 is further than 2^-11, which 2^-14 and fp32 allow
 *             for. Quotients of fp32 are rounded up, for then they are above a tie when the true
 *             ones are, and up again where a tie has become an integer. All hold while no element
 *             is far above the largest code (FAR): up to there it is rounded to it or to 8, one
 *             more, which is taken back from eight codes at once
 *
 * Groups beyond that, and those whose largest codes overflow, are encoded by block/ itself. */
#ifndef KERF_STRUCTS_CUH
#define KERF_STRUCTS_CUH

#include "cuda/group.cuh"
#include "scalar/pack.h"

namespace
{

/* A thread takes 32 elements: one group, or two. */
constexpr int OWN = 32, OWN_GROUPS = OWN / GROUP, OWN_CHUNKS = OWN / CHUNK;
constexpr unsigned STRUCT_GROUP_BYTES = SCALE_BYTES + GROUP * KF_ROW.bits / 8;
/* Elements of a block of threads: whole structs, and a multiple of 16 bytes. */
constexpr unsigned STRUCT_TILE = THREADS * OWN;
constexpr unsigned STRUCT_TILE_BYTES = STRUCT_TILE / GROUP * STRUCT_GROUP_BYTES;
constexpr int GROUP_WORDS = GROUP * (int)KF_ROW.bits / 32;
/* Codes of a group in shared memory begin at a multiple of this. */
constexpr int STRUCT_ALIGN = KF_ROW.scale == KERF_SCALE_E4M3 ? 4 : SCALE_BYTES;
constexpr float FAR = 10, LEAST = 0x1p-100f; /* elements by scale, scales */

/* n bytes by all threads of a block; one side is shared memory. */
__device__ __forceinline__ void copy_bytes(uint8_t *to, const uint8_t *from, unsigned n)
{
    if (((uintptr_t)to | (uintptr_t)from | n) % 16 == 0) {
        for (unsigned i = threadIdx.x; i < n / 16; i += THREADS)
            ((uint4 *)to)[i] = ((const uint4 *)from)[i];
    } else {
        for (unsigned i = threadIdx.x; i < n; i += THREADS) to[i] = from[i];
    }
}

/* Eight bytes from anywhere in shared memory. */
__device__ __forceinline__ void load_bytes(const uint8_t *p, uint32_t *w)
{
    unsigned shift = (unsigned)((uintptr_t)p % 4);
    const uint32_t *from = (const uint32_t *)(p - shift);
    uint32_t a = from[0], b = from[1], c = from[2];
    w[0] = __funnelshift_r(a, b, 8 * shift);
    w[1] = __funnelshift_r(b, c, 8 * shift);
}

/* --- codes of a group ------------------------------------------------------------------------
 * Of 4-bit codes the first half of a group lies in low nibbles, the second in the high nibbles of
 * the same bytes: eight codes of a word are four neighbours and four more. */

__device__ __forceinline__ void gather_eight(const float *x, int word, float *y)
{
#pragma unroll
    for (int i = 0; i < 8; i++) y[i] = x[4 * word + i / 2 + i % 2 * (GROUP / 2)];
}

__device__ __forceinline__ uint32_t pack_q4(const float *x, float factor)
{
    float s[8];
#pragma unroll
    for (int i = 0; i < 8; i++) s[i] = __fadd_rd(fminf(x[i] * factor + 8.5f, 15.0f), 0x1p23f);
    return pack_whole<4>(s);
}

__device__ __forceinline__ uint32_t pack_q8(const float *x, float factor)
{
    float s[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float y = x[i] * factor, a = __fadd_rd(fabsf(y), 0.5f);
        s[i] = copysignf(__fadd_rd(a, 0x1p23f) - 0x1p23f, y) + MAGIC;
    }
    return (pack_magic<8>(s) + 128 * every_code(8)) ^ 128 * every_code(8);
}

/* The highest bytes of four neighbours. */
template <int D> __device__ __forceinline__ uint32_t high_bytes(const uint32_t *w)
{
    if constexpr (D == KERF_F32)
        return permute(permute(w[0], w[1], 0x0073), permute(w[2], w[3], 0x0073), 0x5410);
    else
        return permute(w[0], w[1], 0x7531);
}

/* What the codes of a group are found with. */
constexpr bool BY_POWERS = KF_ROW.scale == KERF_SCALE_E8M0; /* scales are powers of two */
struct e2m1_scale {
    float one, inverse; /* what the code of 1 stands for; its reciprocal, exact or to 2^-22 */
};
__device__ __forceinline__ e2m1_scale e2m1_scale_of(kf_quant q)
{
    e2m1_scale s = {2 * q.factor, 0};
    if constexpr (BY_POWERS)
        s.inverse = __uint_as_float(0x7f000000u - __float_as_uint(s.one));
    else
        asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(s.inverse) : "f"(s.one));
    if (s.one < LEAST) s.inverse = 0; /* a group of zeros */
    return s;
}

/* |x| / s.one, rounded up, but not zero. A product by a power of two is exact, and a little more is
 * lost in all but small ones. Otherwise what is left after a first quotient is exact, and the true
 * quotient is a float or further from one than the reciprocal is off. */
__device__ __forceinline__ float quotient_up(float x, e2m1_scale s)
{
    if constexpr (BY_POWERS) return __fmaf_rn(fabsf(x), s.inverse, 0x1p-40f);
    float q = fabsf(x) * s.inverse;
    return fmaxf(__fmaf_ru(__fmaf_rn(-q, s.one, fabsf(x)), s.inverse, q), 0x1p-40f);
}

/* Codes without signs of the eight elements of a word. */
template <int D> __device__ __forceinline__ uint32_t low_e2m1(const float *y, e2m1_scale s)
{
    uint32_t codes = 0;
    if constexpr (D == KERF_BF16) {
        float factor = s.inverse * (1 - 0x1p-10f);
#pragma unroll
        for (int i = 0; i < 4; i++)
            codes += e2m1_halves(__floats2half2_rn(fabsf(y[i] * factor), fabsf(y[i + 4] * factor)))
                     << 4 * i;
        return codes;
    }
    float factor = s.inverse * (1 - 0x1p-14f);
    uint32_t half[2] = {0, 0};
#pragma unroll
    for (int h = 0; h < 2; h++)
#pragma unroll
        for (int i = 3; i >= 0; i--)
            half[h] = (half[h] << 4) + code_near(D == KERF_F32
                                                     ? round_half_down(quotient_up(y[4 * h + i], s))
                                                     : round_near(y[4 * h + i] * factor));
    codes = join_near(half[0], half[1]);
    return codes - (codes >> 3 & every_code(4));
}

/* Word `word` of a group x with words w. */
template <int D>
__device__ __forceinline__ uint32_t pack_low_e2m1(const float *x, const uint32_t *w, int word,
                                                  e2m1_scale s)
{
    constexpr int FOUR = source_bytes(D); /* words of four elements */
    float y[8];
    gather_eight(x, word, y);
    uint32_t codes = low_e2m1<D>(y, s);
    uint32_t low = high_bytes<D>(w + FOUR * word);
    uint32_t high = high_bytes<D>(w + FOUR * (word + GROUP / 8));
    uint32_t signs = (permute(low, 0, 0xba98) & 0x08080808u) | (high & 0x80808080u);
    return codes | (signs & (codes + 7 * every_code(4))); /* there is no negative zero */
}

/* Word k of the codes of a group. */
template <int D>
__device__ __forceinline__ uint32_t pack_struct(const float *x, const uint32_t *source, kf_quant q,
                                                int k)
{
    if constexpr (KF_ROW.element == KERF_ELEM_U4) {
        float y[8];
        gather_eight(x, k, y);
        return pack_q4(y, q.factor);
    } else if constexpr (KF_ROW.element == KERF_ELEM_S8) {
        return pack_q8(x + 4 * k, q.factor);
    } else {
        return pack_low_e2m1<D>(x, source, k, e2m1_scale_of(q));
    }
}

/* Where the fast ways hold. */
__device__ __forceinline__ bool is_plain(kf_quant q, float amax)
{
    if constexpr (KF_ROW.element == KERF_ELEM_S8) return amax * q.factor < 127.25f;
    if constexpr (KF_ROW.element == KERF_ELEM_U4) return amax * fabsf(q.factor) < 8.25f;
    float one = 2 * q.factor; /* no code stands for Inf */
    return amax <= FAR * one && one <= 0x1p125f && (one >= LEAST || amax == 0);
}

/* The first element of the largest magnitude: what q4_0 scales by. */
__device__ __forceinline__ float peak_of(const float *x, float amax)
{
    float peak = 0;
#pragma unroll
    for (int k = GROUP - 1; k >= 0; k--)
        if (fabsf(x[k]) == amax) peak = x[k];
    return amax > 0 ? peak : 0;
}

/* --- a group in shared memory ---------------------------------------------------------------- */

__device__ __forceinline__ void put_scale(uint8_t *row, unsigned group, uint32_t scale)
{
    uint8_t *p = row + kf_struct_scale(KF_ROW, group);
    if constexpr (SCALE_BYTES == 2)
        *(uint16_t *)p = (uint16_t)scale;
    else
        *p = (uint8_t)scale;
}

/* Word k of a group's codes. */
__device__ __forceinline__ void put_word(uint8_t *row, unsigned group, int k, uint32_t word)
{
    uint8_t *c = row + kf_struct_code(KF_ROW, (size_t)group * GROUP) * KF_ROW.bits / 8 + 4 * k;
#pragma unroll
    for (int n = 0; n < 4; n += STRUCT_ALIGN) {
        uint32_t part = word >> 8 * n;
        if constexpr (STRUCT_ALIGN == 4)
            *(uint32_t *)(c + n) = part;
        else if constexpr (STRUCT_ALIGN == 2)
            *(uint16_t *)(c + n) = (uint16_t)part;
        else
            c[n] = (uint8_t)part;
    }
}

/* The codes of a group where the fast ways do not hold. */
__device__ __noinline__ void put_slowly(uint8_t *row, unsigned group, const volatile float *x,
                                        kf_quant q)
{
    constexpr int BITS = (int)KF_ROW.bits;
    uint32_t w[GROUP_WORDS] = {};
    for (int i = 0; i < GROUP; i++) {
        int place = BITS == 8 ? i : 2 * (i % (GROUP / 2)) + i / (GROUP / 2);
        w[place * BITS / 32] |= kf_code(KF_ROW, q, x[i]) << place * BITS % 32;
    }
    for (int k = 0; k < GROUP_WORDS; k++) put_word(row, group, k, w[k]);
}

/* A group of elements x with words `source` and extremes e to its place in a row of structs. No
 * array of codes: it would be kept in memory. */
template <int D>
__device__ __forceinline__ void encode_group(const kf_job &j, const float *x,
                                             const uint32_t *source, extremes e, unsigned group,
                                             uint8_t *row)
{
    kf_tensor t = no_tensor(j);
    float largest = KF_ROW.element == KERF_ELEM_U4 ? peak_of(x, e.hi) : e.hi;
    float ends[2] = {largest, largest};
    kf_group g = {ends, 1, 2, 2, 1};
    kf_scale scale = kf_choose(KF_ROW, j.encoder, &t, g);
    kf_quant q = kf_quant_init(KF_ROW, j.encoder, &t, scale, g);
    put_scale(row, group, scale.bits);
#pragma unroll
    for (int k = 0; k < GROUP_WORDS; k++) put_word(row, group, k, pack_struct<D>(x, source, q, k));
    if (!is_plain(q, e.hi)) {
        volatile float y[GROUP]; /* volatile, as in load.cuh */
#pragma unroll
        for (int n = 0; n < GROUP; n++) y[n] = x[n];
        put_slowly(row, group, y, q);
    }
}

/* --- a tile ----------------------------------------------------------------------------------
 * The fp32 of a thread are a line of 128 bytes, and a warp that read a piece of each would ask for
 * 32 lines at once. Such a tile is read as it lies and turned in shared memory, where the pieces
 * of a thread have an order of their own, so that neither side meets a bank twice. 16-bit elements,
 * half as many lines, take an H200 up to a seventh longer that way. */

template <int D> constexpr bool IS_TURNED = D == KERF_F32;
template <int D> constexpr unsigned PIECES = OWN *source_bytes(D) / 16; /* of a thread */

template <int D> __device__ __forceinline__ unsigned place_piece(unsigned thread, unsigned k)
{
    return thread * PIECES<D> + (k ^ thread * PIECES<D> / 8 % PIECES<D>);
}

/* `elements` of a tile at a multiple of 16 bytes. */
template <int D>
__device__ __forceinline__ void turn_tile(const uint8_t *from, unsigned elements, uint4 *to)
{
    constexpr unsigned N = PIECES<D>;
    uint4 v[N];
#pragma unroll
    for (unsigned k = 0; k < N; k++) {
        unsigned i = k * THREADS + threadIdx.x;
        v[k] = make_uint4(0, 0, 0, 0);
        if (i * 16 < elements * source_bytes(D)) v[k] = __ldg((const uint4 *)from + i);
    }
#pragma unroll
    for (unsigned k = 0; k < N; k++) {
        unsigned i = k * THREADS + threadIdx.x;
        to[place_piece<D>(i / N, i % N)] = v[k];
    }
    __syncthreads();
}

/* Chunk k of a thread. */
template <int D> __device__ __forceinline__ raw_chunk<D> load_turned(const uint4 *tile, unsigned k)
{
    constexpr unsigned EACH = raw_chunk<D>::WORDS / 4;
    raw_chunk<D> r;
    r.slow = false;
#pragma unroll
    for (unsigned n = 0; n < EACH; n++) {
        uint4 v = tile[place_piece<D>(threadIdx.x, k * EACH + n)];
        r.w[4 * n] = v.x;
        r.w[4 * n + 1] = v.y;
        r.w[4 * n + 2] = v.z;
        r.w[4 * n + 3] = v.w;
    }
    return r;
}

/* The groups of a thread, in a tile that begins at element `first`. A job is one line, since rows
 * end with a whole struct. */
template <int D>
__device__ __forceinline__ void encode_own(const kf_job &j, uint64_t first, const uint4 *tile,
                                           uint8_t *row)
{
    constexpr int WORDS = raw_chunk<D>::WORDS;
    float x[OWN];
    uint32_t source[OWN_CHUNKS * WORDS];
    raw_chunk<D> raw[OWN_CHUNKS];
    extremes e[OWN_GROUPS] = {};
    uint64_t i = first + threadIdx.x * OWN;
    const uint8_t *from = j.dense + i * source_bytes(D);
    if ((uintptr_t)j.dense % 16 == 0) { /* one branch: loads stay together */
#pragma unroll
        for (int k = 0; k < OWN_CHUNKS; k++)
            raw[k] = IS_TURNED<D> ? load_turned<D>(tile, k)
                                  : load_whole<D>(from + k * CHUNK * source_bytes(D));
    } else {
#pragma unroll
        for (int k = 0; k < OWN_CHUNKS; k++) {
            raw[k] = {};
            raw[k].slow = true;
        }
    }
#pragma unroll
    for (int k = 0; k < OWN_CHUNKS; k++) {
        settle_chunk<D>(j, 0, i + k * CHUNK, &raw[k], &e[k * CHUNK / GROUP]);
        widen_chunk<D>(raw[k], x + k * CHUNK);
#pragma unroll
        for (int n = 0; n < WORDS; n++) source[k * WORDS + n] = raw[k].w[n];
    }
#pragma unroll
    for (int g = 0; g < OWN_GROUPS; g++)
        encode_group<D>(j, x + g * GROUP, source + g * GROUP * source_bytes(D) / 4, e[g],
                        threadIdx.x * OWN_GROUPS + g, row);
}

template <int D>
__global__ void __launch_bounds__(THREADS, 4) encode_structs(const __grid_constant__ kf_job j)
{
    __shared__ uint4 structs[STRUCT_TILE_BYTES / 16];
    __shared__ uint4 tile[IS_TURNED<D> ? PIECES<D> * THREADS : 1];
    uint8_t *row = (uint8_t *)structs;
    uint64_t first = (uint64_t)blockIdx.x * STRUCT_TILE, left = j.width - first;
    unsigned elements = left < STRUCT_TILE ? (unsigned)left : STRUCT_TILE;
    if (IS_TURNED<D> && (uintptr_t)j.dense % 16 == 0)
        turn_tile<D>(j.dense + first * source_bytes(D), elements, tile);
    if (threadIdx.x * OWN < elements) encode_own<D>(j, first, tile, row);
    __syncthreads();
    copy_bytes(j.plane[KERF_PLANE_CODES] + blockIdx.x * (uint64_t)STRUCT_TILE_BYTES, row,
               elements / GROUP * STRUCT_GROUP_BYTES);
}

} // namespace
#endif
