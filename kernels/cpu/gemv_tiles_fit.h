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

/* How codes become bfloat16. */
typedef enum kf_tile_kind {
    KF_TILE_NIBBLES,    /* 4 bits: a table of 16                                    */
    KF_TILE_LESS,       /* the same, a table for each zero point                    */
    KF_TILE_HALVES,     /* the same, groups of 16                                   */
    KF_TILE_FOLDED,     /* the same, times the scales of groups, one byte each      */
    KF_TILE_BYTES,      /* two's complement                                         */
    KF_TILE_BYTES_LESS, /* the same less a zero point                               */
    KF_TILE_MINIS,      /* 8 bits: a sign and a table of 128                        */
    KF_TILE_SIXES,      /* 6 bits: a table of 64                                    */
    KF_TILE_SUPER       /* blocks of two levels: a table of up to 64                */
} kf_tile_kind;

typedef struct kf_tile_layout {
    kf_gemv_layout l; /* in which order places lie, and where scales are     */
    kf_tile_kind kind;
    size_t stages, whole;          /* of a row; those with all their bytes   */
    size_t row_bytes, stage_bytes; /* from one to the next                   */
    size_t strip_at[STRIPS];       /* where the codes of a strip begin       */
    size_t group;                  /* elements of which sums are stored      */
    unsigned strips;               /* of a group; 0: it is half of one       */
    size_t entry;                  /* elements that a scale serves           */
    size_t parts;                  /* of a stage, multiplied and added one after the other */
    size_t terms;                  /* of x                                   */
    size_t ahead;                  /* bytes between codes and what is prefetched meanwhile */
    int offsets;                   /* groups have minima                     */
    uint16_t order[STRIP];         /* the elements of a strip, word by word  */
    uint16_t table[17][32];        /* bfloat16 of codes; by zero point; the upper 32 codes */
    uint16_t folded[256][16];      /* bfloat16 of codes times a stored scale */
    uint8_t bytes[256];            /* low bytes of up to 128, then high bytes */
} kf_tile_layout;

/* What the sums of x of a group, rounded once, take off a product. */
#define KF_TILE_X_BOUND 0x1p-24

/* 0: not for this format, shape or number of columns. */
int kf_tile_layout_init(kf_tile_layout *l, const kerf_gemv *plan);
size_t kf_tile_workspace(const kf_tile_layout *l, const kerf_gemv_shape *s);
double kf_tile_bound(const kf_tile_layout *l);

/* Sums of x by groups, for V columns each; behind x itself. */
static inline size_t kf_tile_x_sums_count(const kf_tile_layout *l)
{
    return l->offsets ? l->stages * STAGE / l->group * 16 : 0;
}

static inline float *kf_tile_x_sums(const kf_tile_layout *l, void *workspace, size_t columns)
{
    return (float *)workspace + (l->stages * STAGE * columns * l->terms + 1) / 2;
}

#endif
