/* blocks_codes.cuh - codes of GGUF's blocks as the halves that a tensor core multiplies.
 *
 * Four elements side by side, a quad, are the bytes of a word: in each the same bits, low ones at
 * one place and, with 3, 5 and 6 bits, high ones at another (block/super_layout.h). So a quad is
 * masked out of its words as four bytes; put under the exponent of 1024, two bytes are the halves
 * 1024 + code; taking off 1024 + zero is exact. Other ways, where they are shorter:
 *
 *   2 and 4 bits  two bytes apart are masked into halves as they are: 1024 + 2^shift code, times
 *                 2^-shift, less 1024 x 2^-shift + zero; so elements 1 and 2 of a quad trade places
 *   4 bits E2M1   the byte is made an E4M3 number, which the hardware converts
 *   code book     16 signed bytes, chosen by byte permutation: a word is eight selectors
 *   ... of up to four columns of x: blocks_book.cuh
 *   5 bits q5_0   the high bits of 32 elements are one word: a product spreads four of them
 *
 * A lane reads what it needs of a run of 32, 64 or 128 elements, after which bits come at the same
 * places again, at once. */
#ifndef KERF_BLOCKS_CODES_CUH
#define KERF_BLOCKS_CODES_CUH

#include "cuda/few/blocks_unit.cuh"
#include "cuda/gemv/gemv_multiply.cuh"

namespace
{

/* Of a lane's own elements: a quarter that is split has half of a run. */
constexpr kf_place LOW = {BLOCK.low.at, BLOCK.low.bits, IS_SPLIT ? 32 : BLOCK.low.run};
constexpr kf_place HIGH = BLOCK.high;
constexpr bool IS_E2M1 = KF_ROW.element == KERF_ELEM_E2M1;
constexpr bool HIGH_BYTES = HIGH.bits != 0 && HIGH.run > 1; /* else one bit after another */

/* Elements of a run, and words that hold their bits. */
constexpr int LOW_SPAN = LOW.run * (8 / LOW.bits), RUN = LOW_SPAN > 32 ? LOW_SPAN : 32;
constexpr int RUNS = QUARTER_CODES / RUN, RUN_OCTETS = RUN / 8;
constexpr int LOW_WORDS = RUN * LOW.bits / 32, HIGH_WORDS = HIGH_BYTES ? 8 : HIGH.bits;
static_assert(RUNS * RUN == QUARTER_CODES && LOW_WORDS % 4 == 0, "a quarter is whole runs");
static_assert(!HIGH_BYTES || HIGH.run == 32, "runs of high bits");

/* From one part of a block to the next: bytes of codes; bytes of high bits, or the shift of those
 * in the same bytes. */
constexpr uint32_t part_bytes(kf_place p)
{
    return PARTS > 1 ? kf_place_byte(p, QUARTER_CODES) - kf_place_byte(p, 0) : 0;
}
constexpr uint32_t LOW_PART = part_bytes(LOW), HIGH_PART = IS_SPLIT ? 0 : part_bytes(HIGH);
constexpr uint32_t HIGH_SHIFT = IS_SPLIT    ? HIGH.bits
                                : PARTS > 1 ? kf_place_shift(HIGH, QUARTER_CODES)
                                            : 0;
static_assert(PARTS == 1 || kf_place_shift(LOW, QUARTER_CODES) == 0,
              "parts have bytes of their own");

/* Where the high bits of element i of a lane's are, after that shift. */
KF_HD_CONST int high_shift(int i)
{
    return IS_SPLIT ? i / 32 * 4 : (int)kf_place_shift(HIGH, i);
}

/* N words from any byte of shared memory on. */
template <int N> __device__ __forceinline__ void load_words(uint32_t *w, uint32_t at)
{
    if constexpr (ALIGNED == 16) {
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            const uint4 v = shared_piece(at + 4 * i);
            w[i] = v.x, w[i + 1] = v.y, w[i + 2] = v.z, w[i + 3] = v.w;
        }
    } else if constexpr (ALIGNED == 4) {
#pragma unroll
        for (int i = 0; i < N; i++) w[i] = shared_word(at + 4 * i);
    } else {
        const uint32_t from = at & ~3u, shift = at * 8; /* of which five bits count */
        uint32_t low = shared_word(from);
#pragma unroll
        for (int i = 0; i < N; i++) {
            const uint32_t high = shared_word(from + 4 * i + 4);
            w[i] = __funnelshift_r(low, high, shift);
            low = high;
        }
    }
}

/* Bytes of a and b by four selectors of 4 bits, whose top bits are zero. */
__device__ __forceinline__ uint32_t choose_bytes(uint32_t a, uint32_t b, uint32_t which)
{
    uint32_t r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(which));
    return r;
}

/* What the eight nibbles of w stand for in the book, as bytes 128 more: out[0] of bytes 0 and 1 of
 * w, out[1] of 2 and 3, low nibble before high. */
__device__ __forceinline__ void look_up_book(uint32_t w, uint32_t out[2])
{
    constexpr uint32_t book[4] = {/* -127 -104 -83 -65, -49 -35 -22 -10, 1 13 25 38, 53 69 89 113 */
                                  0x3f2d1801, 0x766a5d4f, 0xa6998d81, 0xf1d9c5b5};
    const uint32_t place = w & 0x77777777u, which = (w >> 1 & 0x44444444u) | 0x32103210u;
#pragma unroll
    for (int i = 0; i < 2; i++)
        out[i] = choose_bytes(choose_bytes(book[0], book[1], place >> 16 * i),
                              choose_bytes(book[2], book[3], place >> 16 * i), which >> 16 * i);
}

/* Where the bits of quad q of a run begin in their bytes. */
KF_HD_CONST int quad_shift(int q)
{
    return (int)kf_place_shift(LOW, 4 * q % LOW_SPAN);
}

/* A quad of looked-up bytes (look_up_book), or of bits of `low` from bit `shift` of each byte on,
 * with `high` above them, as two registers of halves, less what `zero` has: minus_code(zero,
 * shift). */
__device__ __forceinline__ void halves_of_book(const uint32_t found[2], int shift, uint32_t zero,
                                               uint32_t p[2])
{
    const uint32_t which = shift ? 0x4341 : 0x4240;
    p[0] = add_halves(__byte_perm(found[0], 0x64646464u, which), zero);
    p[1] = add_halves(__byte_perm(found[1], 0x64646464u, which), zero);
}
__device__ __forceinline__ void halves_of_quad(uint32_t low, int shift, uint32_t high,
                                               uint32_t zero, uint32_t p[2])
{
    if constexpr (IS_E2M1) {
        const uint32_t four = shift ? and_or(low >> 2, 0x1c1c1c1cu, low & 0x80808080u)
                                    : and_or(low << 2, 0x1c1c1c1cu, low << 4 & 0x80808080u);
        p[0] = halves_of_e4m3(four);
        p[1] = upper_halves_of_e4m3(four);
    } else if constexpr (SWAPS) {
        const uint32_t mask = ((1u << LOW.bits) - 1) * 0x00010001u << shift;
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const uint32_t two = and_or(low >> 8 * i, mask, 0x64006400u);
            p[i] =
                shift ? fma_halves(two, (15u - shift) * 0x04000400u, zero) : add_halves(two, zero);
        }
    } else {
        constexpr uint32_t mask = ((1u << LOW.bits) - 1) * 0x01010101u;
        uint32_t four = LOW.bits == 8 ? low ^ 0x80808080u : low >> shift & mask;
        if constexpr (HIGH_WORDS) four |= high;
        p[0] = add_halves(__byte_perm(four, 0x64646464u, 0x4140), zero);
        p[1] = add_halves(__byte_perm(four, 0x64646464u, 0x4342), zero);
    }
}

/* Bits of a word of high ones, from bit `at` of each byte on, moved above the low ones. */
__device__ __forceinline__ uint32_t high_above(uint32_t w, int at)
{
    constexpr uint32_t mask = ((1u << HIGH.bits) - 1) * 0x01010101u << LOW.bits;
    const int right = at - (int)LOW.bits;
    return (right < 0 ? w << -right : w >> right) & mask;
}
/* The lowest four bits, one after another, the same. */
__device__ __forceinline__ uint32_t four_above(uint32_t w)
{
    return (w & 15) * 0x02040810u & 0x10101010u; /* bit i to byte i */
}

/* The bits of a run as they lie; with a book, what they stand for. */
struct raw_codes {
    static constexpr bool HAS_SCALE = false; /* whether d comes with the codes    */
    static constexpr float BACK = 1;         /* by which the halves are too small */
    uint32_t low[BLOCK.book ? 2 * LOW_WORDS : LOW_WORDS], high[HIGH_WORDS ? HIGH_WORDS : 1];

    /* block: the first of the lane's; part: which one it has. */
    __device__ __forceinline__ void load(uint32_t block, int run, uint32_t part)
    {
        constexpr uint32_t elements = BLOCK.elements;
        const uint32_t in = run * RUN % elements;
        block += run * RUN / elements * BLOCK.bytes;
        load_words<LOW_WORDS>(low, block + kf_place_byte(LOW, in) + part * LOW_PART);
        if constexpr (HIGH_BYTES) {
            const uint32_t bytes = IS_SPLIT ? part / 2 * 32 : part * HIGH_PART;
            load_words<8>(high, block + HIGH.at + bytes);
            if (HIGH_SHIFT)
#pragma unroll
                for (int i = 0; i < 8; i++) high[i] >>= (IS_SPLIT ? part % 2 : part) * HIGH_SHIFT;
        } else if constexpr (HIGH_WORDS) {
            load_words<1>(high, block + HIGH.at);
        }
        if constexpr (BLOCK.book)
#pragma unroll
            for (int i = LOW_WORDS; i--;) {
                uint32_t found[2];
                look_up_book(low[i], found);
                low[2 * i] = found[0], low[2 * i + 1] = found[1];
            }
    }

    __device__ __forceinline__ void fetch(int, int) {}
    /* The quad of elements 4 q and on of the run. */
    __device__ __forceinline__ void quad(int run, int q, uint32_t zero, uint32_t p[2]) const
    {
        const int at = (int)(kf_place_byte(LOW, 4 * q % LOW_SPAN) - LOW.at) / 4;
        const int word = 4 * q / LOW_SPAN * (int)LOW.run / 4 + at, shift = quad_shift(q);
        const int i = run * RUN + 4 * q; /* of the lane's */
        uint32_t above = 0;
        if constexpr (HIGH_BYTES)
            above = high_above(high[(kf_place_byte(HIGH, i) - HIGH.at) / 4], high_shift(i));
        else if constexpr (HIGH_WORDS)
            above = four_above(high[0] >> 4 * q);
        if constexpr (BLOCK.book)
            halves_of_book(low + 2 * word, shift, zero, p);
        else
            halves_of_quad(low[word], shift, above, zero, p);
    }
};

/* The same in fewer registers, of blocks without a book whose quarters are not split: words are
 * read again for each 2, 4 or 8 elements that share their bytes. */
struct pieces_of_codes {
    static constexpr int PIECE = ALIGNED == 16 ? 4 : 2; /* words that are read at once */
    static constexpr bool HAS_SCALE = false;
    static constexpr float BACK = 1;
    static constexpr int HIGH_PIECE = HIGH_BYTES ? PIECE : 1;
    uint32_t low[PIECE], high[HIGH_PIECE], from, from_high, high_shift_of_part;

    __device__ __forceinline__ void load(uint32_t block, int run, uint32_t part)
    {
        constexpr uint32_t elements = BLOCK.elements;
        const uint32_t in = run * RUN % elements;
        block += run * RUN / elements * BLOCK.bytes;
        from = block + kf_place_byte(LOW, in) + part * LOW_PART;
        from_high = block + HIGH.at + (HIGH_BYTES ? part * HIGH_PART : 0);
        high_shift_of_part = HIGH_BYTES && HIGH_SHIFT ? part * HIGH_SHIFT : 0;
        if constexpr (HIGH_WORDS && !HIGH_BYTES) load_words<1>(high, from_high);
    }
    static __device__ __forceinline__ int low_word(int q)
    {
        const int at = (int)(kf_place_byte(LOW, 4 * q % LOW_SPAN) - LOW.at) / 4;
        return 4 * q / LOW_SPAN * (int)LOW.run / 4 + at;
    }
    static __device__ __forceinline__ int high_word(int i)
    {
        return (int)(kf_place_byte(HIGH, i) - HIGH.at) / 4;
    }
    /* Words as they are now: those that were read before are not to be kept for it. */
    static __device__ __forceinline__ void read(uint32_t *w, uint32_t at)
    {
        if constexpr (PIECE == 4)
            asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3])
                         : "r"(at));
        else
            for (int i = 0; i < PIECE; i++)
                asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(w[i]) : "r"(at + 4 * i));
    }
    /* What octet k of the run needs. */
    __device__ __forceinline__ void fetch(int run, int k)
    {
        const int w = low_word(2 * k), i = run * RUN + 8 * k;
        if (w % PIECE == 0) read(low, from + 4 * w);
        if constexpr (HIGH_BYTES)
            if (high_word(i) % PIECE == 0) {
                read(high, from_high + 4 * high_word(i));
                if (HIGH_SHIFT)
#pragma unroll
                    for (int n = 0; n < PIECE; n++) high[n] >>= high_shift_of_part;
            }
    }
    __device__ __forceinline__ void quad(int run, int q, uint32_t zero, uint32_t p[2]) const
    {
        const int i = run * RUN + 4 * q;
        uint32_t above = 0;
        if constexpr (HIGH_BYTES)
            above = high_above(high[high_word(i) % PIECE], high_shift(i));
        else if constexpr (HIGH_WORDS)
            above = four_above(high[0] >> 4 * q);
        halves_of_quad(low[low_word(q) % PIECE], quad_shift(q), above, zero, p);
    }
};

} // namespace

#endif
