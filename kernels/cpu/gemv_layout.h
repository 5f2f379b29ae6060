/* gemv_layout.h - what a vector kernel must know of a format, found from its row of formats.def and
 * its block arithmetic, never from its name.
 *
 * A kernel of V lanes of fp32 takes codes in steps. In one step lane l holds the codes of places
 * l * n .. l * n + n - 1, and its j-th vector of weights has the number of place l * n + j in lane
 * l. The vectors x are put into that order once per run, so weights stay as the checkpoint has
 * them. A lane never straddles two groups: one vector of scales serves a step.
 *
 * How codes become numbers is one of few ways (kf_gemv_decode), each tried against kf_value for
 * every code; a format that fits none is left to the reference. */
#ifndef KERF_GEMV_LAYOUT_H
#define KERF_GEMV_LAYOUT_H

#include "block/super_layout.h"
#include "cpu/gemv_ops.h"

/* How codes become numbers: gemv_decodes.def. */
typedef enum kf_gemv_decode {
#define KF_GEMV_DECODE(kind, name, ...) KF_DECODE_##name,
#include "cpu/gemv_decodes.def"
#undef KF_GEMV_DECODE
    KF_DECODES
} kf_gemv_decode;

/* What an instruction set multiplies: the kinds of gemv_decodes.def. Of integers it also says how
 * those of x lie: words, in the order in which the codes of a lane are taken apart, or the bytes of
 * words apart, in the order in which two codes come out of a byte. */
typedef enum kf_gemv_kind {
    KF_KIND_SINGLE,
    KF_KIND_BFLOAT, /* fp32 too, of bfloat16 that may be subnormal */
    KF_KIND_PAIR,
    KF_KIND_WORDS,
    KF_KIND_BYTES,
    KF_KIND_VNNI /* ggml's blocks as they lie, bytes that codes of 6 bits become; nothing else */
} kf_gemv_kind;

/* How scales enter a sum. */
typedef enum kf_gemv_scaling {
    KF_SCALING_ROW,  /* one factor for all of a row, applied at its end     */
    KF_SCALING_STEP, /* each step's lanes have scales of their own          */
    KF_SCALING_ZERO, /* and zero points, taken off the number of each code  */
    KF_SCALINGS
} kf_gemv_scaling;

/* Scales that a vector can widen: fp16, or bytes that spread to one as the codes of MINI8 do. */
typedef enum kf_gemv_halves { KF_HALVES_NONE, KF_HALVES_WHOLE, KF_HALVES_BYTES } kf_gemv_halves;

/* Where the scales of a step come from: a loop before a chunk has widened them (gemv_scales.h), or
 * straight from their bytes, a vector at once (gemv_direct.h). */
typedef enum kf_gemv_source {
    KF_SOURCE_WIDENED,
    KF_SOURCE_FLOATS,    /* fp32, one for all lanes                           */
    KF_SOURCE_NESTED,    /* MAP8, one for all lanes, times a factor in fp32   */
    KF_SOURCE_WORDS,     /* bfloat16                                          */
    KF_SOURCE_MAP,       /* bytes, one for all lanes or for each half, by a map of what they mean */
    KF_SOURCE_EXPONENTS, /* E8M0                                              */
    KF_SOURCE_HALVES,    /* fp16                                              */
    KF_SOURCE_BYTES      /* bytes that spread to fp16                         */
} kf_gemv_source;

#define KF_GEMV_LANES 16 /* at most */
#define KF_GEMV_STEP 256 /* elements of a step, at most */
#define KF_GEMV_CHUNK                                                      \
    32 /* steps that are summed up before they are added to the row's sum; \
          twice that where they are short */

typedef struct kf_gemv_layout {
    kf_gemv_decode decode;
    kf_gemv_scaling scaling;
    size_t lanes, codes;         /* V, n                                                 */
    size_t step, step_bytes;     /* elements and bytes of codes of a step                */
    size_t steps, whole;         /* of a row; those with all their bytes                 */
    size_t chunk;                /* steps whose sums are added up first                  */
    size_t row_bytes;            /* from the codes of one row to the next                */
    size_t code_bytes;           /* of a row, scales inside structs not counted          */
    size_t piece, stride, first; /* STRUCT: bytes of codes, from one to the next, offset */
    size_t step_stride;          /* ... and from one step to the next of whole structs   */
    size_t scales;               /* per step: 1, 2, 4 .. V                               */
    size_t scale_elements;       /* elements that one of them serves                     */
    size_t entries;              /* of a row: places of them                             */
    unsigned share;              /* 2^share steps have the same one                      */
    int of_row;                  /* ZERO: a row has one scale and one zero point         */
    float factor;                /* what x is multiplied by: a power of two              */
    float offset;                /* BYTE: added to the byte; taken off zero points       */
    float zero_unit;             /* what zero points are multiplied by                   */
    float table[16];             /* LUT4, LUT2 (repeated)                                */
    int16_t whole_table[32];     /* INT4, INT2, BOOK4, INT6: what is multiplied in place of it */
    double table_error;          /* BOOK4: at most, as a share of the number             */
    unsigned shift;              /* MINI: down from the top of 16 bits ...               */
    uint16_t mask;               /* ... and what is kept                                 */
    uint8_t nan_code;            /* MINI8: the code that is NaN though fp16 has a number */
    int quick;                   /* scales have the quick way of gemv_scales.h           */
    float map[256];              /* MAP8, E8M0: what their bytes mean                    */
    kf_gemv_halves halves;       /* BYTES: fp16 b << 7 & half_mask, times half_factor    */
    uint16_t half_mask;
    float half_factor, half_last[2]; /* last: what 0x7F and 0xFF mean instead            */
    kf_gemv_source source;           /* of whole steps; structs: of at most two in a step */
    size_t scale_bytes;              /* ... from a step's scales to the next different ones */
    size_t scale_gap;                /* ... from its first struct to its second, or 0    */
    uint8_t scale_place[64]; /* ... which of 16 bytes goes where in dwords; from 128 on: none */
    uint8_t half_place[32];  /* ... in words                                     */
    uint8_t zero_place[64];  /* the byte that has a lane's zero point            */
    uint32_t zero_shift[4][KF_GEMV_LANES]; /* ... and its bit there, by the first group's  */
    float zero_of[16];                     /* what zero points mean, as the numbers of codes are */
    uint16_t order[KF_GEMV_STEP];          /* the elements of a step, vector by vector            */
    unsigned level_group;                  /* LEVELS: elements of a group; 0: blocks have none    */
    int level_middle;                      /* ... taken off codes; negative: a book's             */
    uint8_t level_book[16];                /* ... as bytes                                        */
    uint8_t level_place[KF_GEMV_STEP];     /* ... which level goes where, vector by vector        */
    int level_words;         /* ... times x of words (gemv_level_words.h)              */
    size_t x_step, x_column; /* floats from a step of packed x to the next, from a column     */
} kf_gemv_layout;

/* 0: not for this format and shape. */
int kf_gemv_layout_init(kf_gemv_layout *l, const kerf_gemv *plan, size_t lanes, kf_gemv_kind kind);

/* A block of ggml's whose codes are taken as they lie (gemv_levels.h): of two levels; or of one,
 * with codes of 4 or 8 bits under one fp16 (q4_0, q8_0), if they have no more than `most` bits. No
 * elements: not these. */
KF_HD kf_super kf_gemv_level_block(kf_spec s, unsigned most)
{
    kf_super k = kf_super_of(s);
    const unsigned bits = s.element == KERF_ELEM_U4 ? 4 : 8;
    const int is_code = s.element == KERF_ELEM_U4 || s.element == KERF_ELEM_S8;
    if (bits <= most && is_code && s.geometry == KERF_GROUP_STRUCT && s.scale == KERF_SCALE_F16) {
        k.elements = s.group;
        k.bytes = 2 + s.group * bits / 8;
        k.low.at = 2;
        k.low.bits = bits;
        k.low.run = s.group / 2;
        k.middle = 1 << (bits - 1);
    }
    return k;
}

/* From as many columns on codes are words (gemv_level_words.h). */
#define KF_GEMV_WORDS_FROM 3

/* Which of one level go so: all where codes have no other way as integers, and where words are
 * multiplied; where there is another way, those of 4 bits times one column, since a column more
 * costs bytes more than it costs there. */
KF_HD unsigned kf_gemv_small_bits(kf_gemv_kind kind, unsigned columns)
{
    if (kind == KF_KIND_VNNI) return 8;
    if (kind != KF_KIND_WORDS) return 0;
    return columns >= KF_GEMV_WORDS_FROM ? 8 : columns == 1 ? 4 : 0;
}

/* Bytes of x that a step has as words, times a vector of `bytes`: those of a block of 256, sums of
 * its groups and what a number stands for; or of two vectors of codes, sums of lanes, and that. */
KF_HD size_t kf_gemv_words_of_step(unsigned elements, size_t bytes)
{
    return elements == 256 ? 640 : 6 * bytes;
}

/* Of gemv_layout_levels.c: such blocks. 0: not these. */
int kf_gemv_fit_levels(kf_gemv_layout *l, const kerf_gemv *plan, size_t lanes, kf_gemv_kind kind);

/* The element of a block of 256, or of as many of 32 as fill `bytes` by 16, whose low bits are in
 * byte i of vector v: `bytes` in a row at one place of their bits, then those at the next place.
 * Codes of 8 bits have two runs of bytes in place of that. */
KF_HD unsigned kf_gemv_level_element(kf_super k, unsigned bytes, unsigned v, unsigned i)
{
    const unsigned places = k.low.bits == 8 ? 2 : 8 / k.low.bits, run = k.low.run;
    const unsigned at = v / places * bytes + i;
    return at / run * (run * places) + v % places * run + at % run;
}

/* Whether scales of groups have a sign. */
KF_HD_CONST int kf_gemv_has_signs(kf_levels levels)
{
    return levels == KF_LEVELS_SIX || levels == KF_LEVELS_EIGHT || levels == KF_LEVELS_SPLIT;
}

/* Of gemv_layout_scales.c: whether there is a quick way to its scales, and which. */
void kf_gemv_fit_scales(kf_gemv_layout *l, kf_spec s);

static inline int kf_gemv_same(float a, float b)
{
    return a == b || (a != a && b != b);
}

/* Whether codes become bfloat16 as they lie: numbers of 2^-110 and less, subnormal ones among them.
 * x is as much larger. */
KF_HD_CONST int kf_gemv_is_bfloat(kf_gemv_decode decode)
{
    return decode == KF_DECODE_BFLOAT8 || decode == KF_DECODE_BFLOAT6;
}

/* The word that a code of `bits` bits becomes. */
static inline uint16_t kf_gemv_spread(unsigned bits, unsigned shift, uint16_t mask, uint32_t code)
{
    int top = (int16_t)(uint16_t)(code << (16 - bits));
    return (uint16_t)((uint32_t)(top >> shift) & mask);
}

/* Bytes of workspace, and the factor of the error bound. */
size_t kf_gemv_layout_workspace(const kf_gemv_layout *l, const kerf_gemv_shape *s);
double kf_gemv_layout_bound(const kf_gemv_layout *l);

/* x as integers: n * 2^e with |n| <= KF_GEMV_LARGEST and the least e for which the inputs of a step
 * are that. KF_GEMV_LARGEST is what two signed bytes hold. KF_GEMV_X_BOUND: what rounding takes off
 * an x, at most half of 2^e, as a share of the largest of a step, and what the roundings after that
 * one make of it. */
#define KF_GEMV_LARGEST 32639
#define KF_GEMV_X_BOUND 0x1.02p-15
#define KF_GEMV_LEVELS_LARGEST 32512 /* the same, with digits up to 127 to the base of 255 */
#define KF_GEMV_LEVELS_X_BOUND 0x1.03p-15

static inline int kf_gemv_is_whole(const kf_gemv_layout *l)
{
    return l->decode == KF_DECODE_INT4 || l->decode == KF_DECODE_INT2 ||
           l->decode == KF_DECODE_BOOK4 || l->decode == KF_DECODE_INT6 ||
           l->decode == KF_DECODE_WIDE6 || l->decode == KF_DECODE_LEVELS;
}

/* Where packed vector c lies in the workspace, if columns follow each other. x_column says the
 * same, but gcc made a slower loop of that (mxfp4 by four columns with AVX2 took a tenth longer).
 */
static inline float *kf_gemv_packed(const kf_gemv_layout *l, void *workspace, size_t c)
{
    return (float *)workspace + c * l->steps * l->step;
}

/* bfloat16: what the sums of each column must be multiplied by; the factor of x would make large
 * ones infinite. It lies behind what x is widened to. */
static inline float *kf_gemv_backs(const kf_gemv_layout *l, const kf_gemv_call *c)
{
    return kf_gemv_packed(l, c->workspace, c->columns) + c->w.cols;
}

/* Integers take half of that; from here on stands, for each step, what one of them is worth. */
static inline size_t kf_gemv_units(const kf_gemv_layout *l)
{
    return l->steps * l->step / 2;
}

/* A row's codes from step `whole` on, without gaps, zero after them: at most 64 bytes. */
void kf_gemv_tail(const kf_gemv_layout *l, const uint8_t *row, uint8_t out[64]);

#endif
