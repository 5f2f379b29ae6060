/* gemv_tiling.h - into what pieces the matrix-vector kernels of a GPU cut a matrix of a format.
 *
 * One text for both compilers: the host plans launches by these numbers (gemv_divide.c), and the
 * kernels are compiled with them (cuda/gemv/gemv_scales.cuh and after). All follow from the row of
 * formats.def; none depends on a shape or a device. kernels/products.md shows the pieces in one
 * picture. */
#ifndef KERF_GEMV_TILING_H
#define KERF_GEMV_TILING_H

#include "block/struct.h"
#include "block/super_layout.h"

#ifdef __cplusplus
#define KF_TILING static constexpr
#else
#define KF_TILING static inline
#endif

/* Warps of a block, rows of a tile. */
enum { KF_GEMV_WARPS = 8, KF_GEMV_TILE = 16 };

/* The kernel for nine columns of x and more (cuda/wide): warps of a block, units of a warp that are
 * in flight, bytes of 32 inputs of all columns in shared memory. */
enum { KF_GEMV_WIDE_WARPS = 16, KF_GEMV_WIDE_DEPTH = 2, KF_GEMV_WIDE_X = 1040 };

/* The kernel for few columns of x (cuda/few): how many it takes, and where W is of GGUF's blocks;
 * units of a warp that are in flight; blocks that share rows, at most; and bytes between two
 * columns, which keep them out of each other's banks. */
enum {
    KF_GEMV_FEW = 4,
    KF_GEMV_EIGHT = 8,
    KF_GEMV_SIXTEEN = 16,
    KF_GEMV_AHEAD = 2,
    KF_GEMV_TEAM = 8,
    KF_GEMV_GAP = 64
};

/* How codes become halves: cuda/gemv/gemv_decode.cuh. */
typedef enum kf_gemv_way {
    KF_WAY_NONE, /* no kernel for tiles: only the one that takes an element at a time */
    KF_WAY_E2M1,
    KF_WAY_E2M1_SHUFFLED, /* by kernels of their own, over the same pieces */
    KF_WAY_NIBBLE,
    KF_WAY_TWO_BITS,
    KF_WAY_CODEBOOK,
    KF_WAY_E4M3,
    KF_WAY_E5M2,
    KF_WAY_BYTE,
    KF_WAY_E2M3,
    KF_WAY_E3M2,
    KF_WAY_HALF,
    KF_WAY_BF16,
    KF_WAY_BLOCKS /* GGUF's blocks: cuda/few/blocks_codes.cuh */
} kf_gemv_way;

/* Where scales are multiplied in: into the sum of a row at its end; into codes, where both have so
 * few bits that the half is exact; or into the sum of each group. */
typedef enum kf_gemv_scaling_place {
    KF_SCALES_AT_END,
    KF_SCALES_IN_CODES,
    KF_SCALES_IN_GROUPS
} kf_gemv_scaling_place;

/* Bytes unless it says otherwise. */
typedef struct kf_gemv_tiling {
    kf_gemv_way way;
    kf_gemv_scaling_place scaling;
    int is_tiled; /* whether there are kernels for tiles at all ... */
    int has_few;  /* ... among them that for few columns of x ...   */
    unsigned few; /* ... and of how many                            */
    int has_many; /* ... those for more                             */
    int has_wide; /* ... and that for nine columns and more         */
    unsigned bits;
    int has_groups;       /* scales belong to groups within a row                             */
    int is_shared;        /* one row of scales serves as many rows of W as a group has        */
    unsigned scale;       /* one stored scale                                                 */
    unsigned stage;       /* few columns: codes of one row of a unit                          */
    unsigned stage_codes; /* ... elements                                                     */
    unsigned stage_unit;  /* ... 16 rows of that with their scales                            */
    unsigned stage_ring;  /* ... all units of a block that are in flight; 0: no such kernel   */
    unsigned stage_rows;  /* ... rows of which lanes copy pieces of codes at once             */
    unsigned stage_row;   /* ... scales of one row of a unit                                  */
    unsigned stage_copy;  /* ... and how much of them one copy takes                          */
    unsigned stage_pitch; /* blocks: from one row of a unit to the next                       */
    unsigned stage_sums;  /* ... and sums of x of a unit's groups, where these have minima    */
    int by_octets;        /* ... five columns and more: a lane has octets, not quads          */
    unsigned full_gap;    /* ... bytes between two of their columns                           */
    unsigned slice_codes; /* more columns: elements of one row of a unit                      */
    unsigned slice_pitch; /* ... from its first row to its second                             */
    unsigned slice_unit;  /* ... 16 rows with their scales and zero points                    */
    unsigned slice_depth; /* ... units of a warp that are in flight                           */
    unsigned slice_row;   /* ... scales of one row of a unit                                  */
    unsigned slice_copy;  /* ... and how much of them one copy takes                          */
    unsigned table;       /* numbers of all pairs of codes, where codes are looked up         */
    double rounding;      /* relative error of a weight as the kernels have it                */
} kf_gemv_tiling;

/* Whether rows are GGUF's blocks, byte structs that hold codes and scales. */
KF_TILING int kf_gemv_is_blocks(kf_spec s)
{
    return s.geometry == KERF_GROUP_STRUCT || s.geometry == KERF_GROUP_SUPER;
}

/* Such a block in the words of super_layout.h, those of one level too. */
KF_TILING kf_super kf_gemv_block_of(kf_spec s)
{
    if (s.geometry == KERF_GROUP_SUPER) return kf_super_of(s);
    const unsigned scales = kf_struct_groups(s) * kf_scale_bytes(s.scale);
    kf_super k = {0, 0, 0, 0, KF_LEVELS_NONE, 0, {0, 0, 1}, {0, 0, 1}, 0, 0};
    k.elements = kf_struct_elements(s);
    k.bytes = kf_struct_bytes(s);
    k.low.at = scales;
    k.low.bits = s.bits;
    k.low.run = s.group * s.bits / 8;
    k.middle = s.bits == 8 ? 128 : 8; /* signed bytes are read as 128 more */
    return k;
}

KF_TILING kf_gemv_way kf_gemv_way_of(kf_spec s)
{
    if (kf_gemv_is_blocks(s)) return KF_WAY_BLOCKS;
    switch (s.element) {
    case KERF_ELEM_E2M1: return KF_WAY_E2M1;
    case KERF_ELEM_S4:
    case KERF_ELEM_U4: return KF_WAY_NIBBLE;
    case KERF_ELEM_S2:
    case KERF_ELEM_U2: return KF_WAY_TWO_BITS;
    case KERF_ELEM_NF4: return KF_WAY_CODEBOOK;
    case KERF_ELEM_E4M3: return KF_WAY_E4M3;
    case KERF_ELEM_E5M2: return KF_WAY_E5M2;
    case KERF_ELEM_S8:
    case KERF_ELEM_MXI8: return KF_WAY_BYTE;
    case KERF_ELEM_E2M3: return KF_WAY_E2M3;
    case KERF_ELEM_E3M2: return KF_WAY_E3M2;
    case KERF_ELEM_F16: return KF_WAY_HALF;
    case KERF_ELEM_BF16: return KF_WAY_BF16;
    default: return KF_WAY_NONE;
    }
}

KF_TILING unsigned kf_gemv_scale_size(kerf_scale_kind k)
{
    switch (k) {
    case KERF_SCALE_NONE: return 0;
    case KERF_SCALE_F32: return 4;
    case KERF_SCALE_F16:
    case KERF_SCALE_BF16: return 2;
    default: return 1;
    }
}

/* A copy takes 4, 8 or 16 bytes. */
KF_TILING unsigned kf_gemv_copy_size(unsigned bytes)
{
    return bytes < 16 ? bytes : 16;
}

/* GGUF's blocks: 512 elements of 16 rows, 256 with 5 bits and more, so that two blocks of threads
 * find room on a multiprocessor. In shared memory rows of a unit begin up to 15 bytes after a
 * multiple of 16, as they do in memory, and lie an odd number of pieces of 16 bytes apart, so that
 * lanes of different rows read different banks; where GGUF's blocks are whole pieces, both is so
 * by itself. */
KF_TILING kf_gemv_tiling kf_gemv_tiling_of_blocks(kf_spec s)
{
    kf_gemv_tiling t = {.way = KF_WAY_BLOCKS};
    const kf_super k = kf_gemv_block_of(s);
    t.scaling = KF_SCALES_IN_GROUPS;
    t.is_tiled = t.has_few = 1;
    t.few = KF_GEMV_SIXTEEN;
    t.bits = s.bits;
    t.has_groups = 1;
    t.stage_codes = s.bits >= 5 ? 256 : 512;
    t.stage = t.stage_codes / k.elements * k.bytes;
    t.stage_pitch = k.bytes % 16 == 0 ? t.stage : ((t.stage + 15 + 15) / 16 | 1) * 16;
    t.stage_unit = KF_GEMV_TILE * t.stage_pitch;
    t.stage_ring = KF_GEMV_WARPS * KF_GEMV_AHEAD * t.stage_unit;
    t.stage_sums = k.m ? t.stage_codes / s.group * 4 : 0;
    t.by_octets = k.bytes % 16 == 0 && s.group % 32 == 0 && k.low.run >= 32 &&
                  (k.high.bits == 0 || k.high.run >= 32);
    t.full_gap = t.by_octets ? KF_GEMV_GAP : KF_GEMV_GAP / 2;
    t.slice_codes = 256;
    return t;
}

/* Of formats whose codes and scales have planes of their own; others are not tiled so. */
KF_TILING kf_gemv_tiling kf_gemv_tiling_of_planes(kf_spec s)
{
    kf_gemv_tiling t = {.way = KF_WAY_NONE};
    t.way = kf_gemv_is_blocks(s) ? KF_WAY_NONE : kf_gemv_way_of(s);
    t.bits = s.bits;
    t.is_shared = s.geometry == KERF_GROUP_TILE;
    t.has_groups = s.geometry == KERF_GROUP_BLOCK || s.geometry == KERF_GROUP_FLAT || t.is_shared;
    t.scaling = !t.has_groups                                 ? KF_SCALES_AT_END
                : s.group == 16 && s.scale == KERF_SCALE_E4M3 ? KF_SCALES_IN_CODES
                                                              : KF_SCALES_IN_GROUPS;
    t.scale = kf_gemv_scale_size(s.scale);

    t.stage = s.bits == 6 ? 192 : s.bits == 2 ? 128 : 256;
    t.stage_codes = t.stage * 8 / s.bits;
    t.stage_rows = 32 / (t.stage / 16);
    t.stage_row = t.has_groups ? t.stage_codes / s.group * t.scale : 0;
    t.stage_copy = kf_gemv_copy_size(t.stage_row);
    t.stage_unit = KF_GEMV_TILE * t.stage;
    t.stage_unit += t.is_shared ? 64 : KF_GEMV_TILE * t.stage_row;

    t.slice_codes = s.bits == 16 ? 128 : 256;
    t.slice_row = t.has_groups ? t.slice_codes / s.group * t.scale : 0;
    t.slice_copy = kf_gemv_copy_size(t.slice_row);
    /* Rows of 6-bit codes lie 16 bytes further on, against bank conflicts. */
    t.slice_pitch = t.slice_codes * s.bits / 8 + (s.bits == 6 ? 16 : 0);
    unsigned zeros = t.has_groups && s.zero == KERF_ZERO_CODE ? 4 : 0; /* one word of each row */
    unsigned beside = t.is_shared ? t.slice_row : KF_GEMV_TILE * (t.slice_row + zeros);
    t.slice_unit = KF_GEMV_TILE * t.slice_pitch + (beside + 127) / 128 * 128;
    t.slice_depth = s.bits <= 4 ? 3 : 2;

    /* A product of slices sums 32 elements, one of few columns 8; there scales of groups of 16 are
     * short enough beside codes of 2 bits. */
    const int by_slices = t.scaling != KF_SCALES_IN_GROUPS || s.group % 32 == 0;
    const int fits = t.scaling != KF_SCALES_IN_GROUPS || t.slice_codes >= s.group;
    t.is_tiled = t.way != KF_WAY_NONE && fits && (by_slices || (s.bits == 2 && s.group == 16));
    /* bfloat16 weights take x in two parts, for which that kernel has no room. */
    t.has_few = t.is_tiled && t.way != KF_WAY_BF16;
    t.few = KF_GEMV_FEW;
    t.has_many = t.is_tiled && by_slices;
    t.has_wide = t.has_many && s.bits <= 4;
    t.stage_ring = t.has_few ? KF_GEMV_WARPS * KF_GEMV_AHEAD * t.stage_unit : 0;
    t.table = t.way == KF_WAY_CODEBOOK ? 32768 : 0;
    t.rounding = t.table ? 0x1p-11 : 0;
    return t;
}

KF_TILING kf_gemv_tiling kf_gemv_tiling_of(kf_spec s)
{
    return kf_gemv_is_blocks(s) ? kf_gemv_tiling_of_blocks(s) : kf_gemv_tiling_of_planes(s);
}

/* Whether the kernels for tiles of one format serve another too: one scale for all of a matrix is a
 * scale for each row, all of which lie in one place (kf_gemv_strides.row_groups is 0). */
KF_TILING int kf_gemv_lends(kf_spec lender, kf_spec s)
{
    return s.geometry == KERF_GROUP_TENSOR && lender.geometry == KERF_GROUP_ROW &&
           s.element == lender.element && s.scale == lender.scale && s.second == lender.second &&
           s.zero == lender.zero;
}

#endif
