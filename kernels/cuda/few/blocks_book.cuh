/* blocks_book.cuh - codes of a book for up to four columns of x, by magnitude and sign.
 *
 * Numbers of the book are a sign and seven bits, and a code's top bit is its sign. A byte
 * permutation gives zeros, eight times the sign of a byte, where the top bit of a selector is set,
 * so the magnitudes of both halves of the book are united without choosing between them. As halves
 * they are subnormal, 2^24 times too small, and exact; nothing need be taken off them.
 *
 * Where blocks are of an odd number of half words (iq4_nl) and rows begin at words, blocks begin at
 * a word and in the middle of one in turns. */
#ifndef KERF_BLOCKS_BOOK_CUH
#define KERF_BLOCKS_BOOK_CUH

#include "cuda/few/blocks_scales.cuh"

namespace
{

constexpr bool HAS_BOOK = BLOCK.book, HAS_ODD_BLOCKS = HAS_BOOK && BLOCK.bytes % 4 == 2;

/* WORDS: the lane's quarter begins at a multiple of four bytes; d comes with the codes. */
template <bool WORDS> struct book_codes {
    static constexpr bool HAS_SCALE = WORDS;
    static constexpr float BACK = 0x1p24f;
    uint32_t found[2 * LOW_WORDS], low_sign[LOW_WORDS], high_sign[LOW_WORDS];
    float d;

    __device__ __forceinline__ void load(uint32_t block, int run, uint32_t part)
    {
        constexpr uint32_t elements = BLOCK.elements;
        const uint32_t in = run * RUN % elements;
        uint32_t low[LOW_WORDS];
        block += run * RUN / elements * BLOCK.bytes;
        if constexpr (WORDS) {
            static_assert(!WORDS || (HAS_ODD_BLOCKS && elements == RUN && BLOCK.d == 0), "iq4_nl");
            uint32_t w[LOW_WORDS + 1];
            block -= run % 2 * 2;
#pragma unroll
            for (int i = 0; i <= LOW_WORDS; i++) w[i] = shared_word(block + 4 * i);
#pragma unroll
            for (int i = 0; i < LOW_WORDS; i++)
                low[i] = run % 2 ? w[i + 1] : __funnelshift_r(w[i], w[i + 1], 16);
            d = run % 2 ? high_half(w[0]) : low_half(w[0]);
        } else if constexpr (BLOCK.bytes % 8 == 0) {
            block += kf_place_byte(LOW, in) + part * LOW_PART;
            shared_bytes<8>(low, block);
            shared_bytes<8>(low + 2, block + 8);
        } else {
            load_words<LOW_WORDS>(low, block + kf_place_byte(LOW, in) + part * LOW_PART);
        }
#pragma unroll
        for (int i = 0; i < LOW_WORDS; i++) {
            /* 127 104 83 65, 49 35 22 10; 1 13 25 38, 53 69 89 113 */
            const uint32_t other = low[i] ^ 0x88888888u;
#pragma unroll
            for (int k = 0; k < 2; k++)
                found[2 * i + k] = choose_bytes(0x4153687fu, 0x0a162331u, low[i] >> 16 * k) |
                                   choose_bytes(0x26190d01u, 0x71594535u, other >> 16 * k);
            high_sign[i] = ~low[i] & 0x80808080u;
            low_sign[i] = ~(low[i] << 4) & 0x80808080u;
        }
    }
    __device__ __forceinline__ void fetch(int, int) {}
    /* Elements 4 q and on: low nibbles of a word's bytes, or high ones. */
    __device__ __forceinline__ void quad(int, int q, uint32_t, uint32_t p[2]) const
    {
        const int i = q % 4;
        if (quad_shift(q)) {
            p[0] = __byte_perm(found[2 * i], high_sign[i], 0x5341);
            p[1] = __byte_perm(found[2 * i + 1], high_sign[i], 0x7361);
        } else {
            p[0] = __byte_perm(found[2 * i], low_sign[i], 0x5240);
            p[1] = __byte_perm(found[2 * i + 1], low_sign[i], 0x7260);
        }
    }
};

} // namespace

#endif
