/* gemv_tiles_fit.h - what tiles must know of a format (gemv_tiles.h), found from its row of
 * formats.def and its arithmetic. */
#ifndef KERF_GEMV_TILES_FIT_H
#define KERF_GEMV_TILES_FIT_H

#include "cpu/gemv_layout.h"

#define TILE_ROWS 32 /* done at a time, two tiles: so that x is loaded once for them */
#define STRIP 32     /* elements of a tile of W                          */
#define STAGE 256    /* elements that are decoded before they are multiplied */
#define STORED 8     /* groups that are stored before they are added, at most */
#define STRIPS (STAGE / STRIP)
#define CHUNK 8 /* stages whose scales are found at once            */
#define CHUNK_GROUPS (CHUNK * STAGE / 16)
#define STAGE_BYTES 320 /* of codes, and of scales in structs, at most      */

/* What codes become, bfloat16 or, at the end of the list, bytes. Codes of up to 5 bits are
 * bytes beside zero points, and where x of F32 has up to eight columns. */
typedef enum kf_tile_kind {
    KF_TILE_NIBBLES,        /* 4 bits: a table of 16                                       */
    KF_TILE_FOLDED,         /* the same, times the scales of groups of 16, one byte each   */
    KF_TILE_BYTES,          /* two's complement                                            */
    KF_TILE_MINIS,          /* 8 bits: a sign and a table of 128                           */
    KF_TILE_SIXES,          /* 6 bits: a table of 64                                       */
    KF_TILE_QUARTERS,       /* 2 bits: a table of 4                                        */
    KF_TILE_SPLIT,          /* 4 bits: any 16 numbers, each the sum of two of bfloat16     */
    KF_TILE_SUPER,          /* blocks of two levels: a table of up to 64                   */
    KF_TILE_WHOLE_NIBBLES,  /* 4 bits, as bytes: a table of 16                       */
    KF_TILE_WHOLE_QUARTERS, /* 2 bits, as bytes: a table of 4                        */
    KF_TILE_WHOLE_BYTES,    /* two's complement, the bytes that they are             */
    KF_TILE_WHOLE_SUPER,    /* blocks of two levels in groups of 32                  */
    KF_TILE_LEVELS,         /* the same in blocks with minima: codes times levels    */
    KF_TILE_KINDS
} kf_tile_kind;

typedef struct kf_tile_layout {
    kf_gemv_layout l; /* in which order places lie, and where scales are     */
    kf_tile_kind kind;
    size_t stages, whole;          /* of a row; those with all their bytes   */
    size_t row_bytes, stage_bytes; /* from one to the next                   */
    size_t strip_at[STRIPS];       /* where the codes of a strip begin       */
    size_t group;                  /* elements of which sums are stored: 2^group_shift */
    unsigned group_shift;
    size_t wide;              /* terms, or bytes, of x side by side     */
    size_t passes;            /* those one after the other              */
    size_t together;          /* groups whose sums lie side by side     */
    size_t sums_together;     /* groups whose sums of x lie side by side */
    size_t lanes;             /* of a tile of sums: columns * wide * together */
    unsigned strips;          /* of `together` groups; 0: half of one   */
    size_t entry;             /* elements that a scale serves; 0: all of a row */
    size_t parts;             /* of a stage, multiplied and added one after the other */
    size_t terms;             /* of x, as bfloat16                      */
    size_t depth;             /* as bytes: elements of a tile           */
    size_t ahead;             /* bytes to the rows that come next, prefetched as they lie; 0: not */
    size_t across;            /* the same, prefetched row by row where their codes are read */
    int rounds;               /* x is of F32, of which terms or bytes lose something */
    int offsets, zeros;       /* groups have minima; zero points        */
    unsigned book;            /* elements of blocks whose codes are indices, or 0 */
    float zero_is;            /* what zero points as they are found are multiplied by */
    uint16_t order[STRIP];    /* the elements of a strip, as they lie in a row of a tile */
    uint16_t table[2][32];    /* bfloat16 of codes; the upper 32 codes, or SPLIT: the rest */
    uint16_t folded[256][16]; /* bfloat16 of codes times a stored scale */
    uint8_t level_place[STAGE]; /* by bytes: which level a code has */
    uint8_t bytes[256];         /* low bytes of up to 128, then high bytes; or a table of bytes */
} kf_tile_layout;

/* FOLDED: what stored scales are multiplied by, and sums divided. */
#define KF_TILE_FOLDS 0x1p8f

/* Whether codes become bytes and x integers (gemv_tiles_bytes.h). */
static inline int kf_tile_is_whole(const kf_tile_layout *l)
{
    return l->kind >= KF_TILE_WHOLE_NIBBLES;
}

/* Whether scales enter sums of groups; those of a row do at its end. */
static inline int kf_tile_is_scaled(const kf_tile_layout *l)
{
    return l->entry && l->kind != KF_TILE_FOLDED;
}

/* 0: not for this format, shape or number of columns. */
int kf_tile_layout_init(kf_tile_layout *l, const kerf_gemv *plan);
size_t kf_tile_workspace(const kf_tile_layout *l);

/* The factors of the error bound (kerf/gemv.h). */
double kf_tile_bound(const kf_tile_layout *l);
double kf_tile_x_bound(const kf_tile_layout *l, kerf_dtype x);

/* x in a workspace: what tiles load; sums by groups, V lanes for those that are together; where
 * codes are bytes what an integer of a stage stands for, V lanes each. */
static inline size_t kf_tile_x_stage(const kf_tile_layout *l)
{
    return STAGE * l->lanes * l->passes * (kf_tile_is_whole(l) ? 1 : 2);
}

static inline size_t kf_tile_x_bytes(const kf_tile_layout *l)
{
    return l->stages * kf_tile_x_stage(l);
}

static inline size_t kf_tile_x_sums_count(const kf_tile_layout *l)
{
    return l->offsets || l->zeros ? l->stages * STAGE / l->group / l->sums_together * 16 : 0;
}

static inline float *kf_tile_x_sums(const kf_tile_layout *l, void *workspace)
{
    return (float *)((uint8_t *)workspace + kf_tile_x_bytes(l));
}

static inline float *kf_tile_units(const kf_tile_layout *l, void *workspace)
{
    return kf_tile_x_sums(l, workspace) + kf_tile_x_sums_count(l);
}

#endif
