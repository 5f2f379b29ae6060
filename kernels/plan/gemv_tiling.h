/* gemv_tiling.h - into what pieces the matrix-vector kernels of a GPU cut a matrix of a format.
 *
 * One text for both compilers: the host plans launches by these numbers (gemv_divide.c), and the
 * kernels are compiled with them (cuda/gemv/gemv_scales.cuh and after). All follow from the row of
 * formats.def; none depends on a shape or a device. kernels/products.md shows the pieces in one
 * picture. */
#ifndef KERF_GEMV_TILING_H
#define KERF_GEMV_TILING_H

#include "block/spec.h"

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

/* The kernel for few columns of x (cuda/few): how many it takes, units of a warp that are in
 * flight, and bytes between two columns, which keep them out of each other's banks. */
enum { KF_GEMV_FEW = 4, KF_GEMV_AHEAD = 2, KF_GEMV_GAP = 64 };

/* How codes become halves: cuda/gemv/gemv_decode.cuh. */
typedef enum kf_gemv_way {
    KF_WAY_NONE, /* no kernel for tiles: only the one that takes an element at a time */
    KF_WAY_E2M1,
    KF_WAY_E2M1_SHUFFLED, /* by kernels of their own, over the same pieces */
    KF_WAY_NIBBLE,
    KF_WAY_CODEBOOK,
    KF_WAY_E4M3,
    KF_WAY_E5M2,
    KF_WAY_BYTE,
    KF_WAY_E2M3,
    KF_WAY_E3M2,
    KF_WAY_HALF,
    KF_WAY_BF16
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
    int has_wide; /* ... and that for nine columns and more         */
    unsigned bits;
    int has_groups;       /* scales belong to groups within a row                             */
    int is_shared;        /* one row of scales serves as many rows of W as a group has        */
    unsigned scale;       /* one stored scale                                                 */
    unsigned stage;       /* few columns: codes of one row of a unit                          */
    unsigned stage_codes; /* ... elements                                                     */
    unsigned stage_unit;  /* ... 16 rows of that with their scales                            */
    unsigned stage_ring;  /* ... all units of a block that are in flight; 0: no such kernel   */
    unsigned stage_row;   /* ... scales of one row of a unit                                  */
    unsigned stage_copy;  /* ... and how much of them one copy takes                          */
    unsigned slice_codes; /* more columns: elements of one row of a unit                      */
    unsigned slice_pitch; /* ... from its first row to its second                             */
    unsigned slice_unit;  /* ... 16 rows with their scales and zero points                    */
    unsigned slice_depth; /* ... units of a warp that are in flight                           */
    unsigned slice_row;   /* ... scales of one row of a unit                                  */
    unsigned slice_copy;  /* ... and how much of them one copy takes                          */
    unsigned table;       /* numbers of all pairs of codes, where codes are looked up         */
    double rounding;      /* relative error of a weight as the kernels have it                */
} kf_gemv_tiling;

KF_TILING kf_gemv_way kf_gemv_way_of(kf_spec s)
{
    if (s.geometry == KERF_GROUP_STRUCT || s.geometry == KERF_GROUP_SUPER) return KF_WAY_NONE;
    switch (s.element) {
    case KERF_ELEM_E2M1: return KF_WAY_E2M1;
    case KERF_ELEM_S4:
    case KERF_ELEM_U4: return KF_WAY_NIBBLE;
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

KF_TILING kf_gemv_tiling kf_gemv_tiling_of(kf_spec s)
{
    kf_gemv_tiling t = {.way = KF_WAY_NONE};
    t.way = kf_gemv_way_of(s);
    t.bits = s.bits;
    t.is_shared = s.geometry == KERF_GROUP_TILE;
    t.has_groups = s.geometry == KERF_GROUP_BLOCK || s.geometry == KERF_GROUP_FLAT || t.is_shared;
    t.scaling = !t.has_groups   ? KF_SCALES_AT_END
                : s.group == 16 ? KF_SCALES_IN_CODES
                                : KF_SCALES_IN_GROUPS;
    t.scale = kf_gemv_scale_size(s.scale);

    t.stage = s.bits == 6 ? 192 : 256;
    t.stage_codes = t.stage * 8 / s.bits;
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
    t.slice_depth = s.bits == 4 ? 3 : 2;

    int fits = !t.has_groups ||
               (t.scaling == KF_SCALES_IN_CODES ? s.scale == KERF_SCALE_E4M3
                                                : t.slice_codes >= s.group && s.group % 32 == 0);
    t.is_tiled = t.way != KF_WAY_NONE && s.bits >= 4 && fits;
    /* bfloat16 weights take x in two parts, for which that kernel has no room. */
    t.has_few = t.is_tiled && t.way != KF_WAY_BF16;
    t.has_wide = t.is_tiled && s.bits == 4;
    t.stage_ring = t.has_few ? KF_GEMV_WARPS * KF_GEMV_AHEAD * t.stage_unit : 0;
    t.table = t.way == KF_WAY_CODEBOOK ? 32768 : 0;
    t.rounding = t.table ? 0x1p-11 : 0;
    return t;
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
