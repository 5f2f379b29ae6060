/* gemv_rows.h - the matrix-vector product for one instruction set. A file for an instruction set
 * says what a vector is, names its functions, and includes this:
 *
 *   KF_ISA(name)           the name of a function or table of this instruction set
 *   V                      lanes of fp32
 *   vf, vi                 V floats, V dwords; vh: V 16-bit words; vt: a table of 16 floats
 *   vf_load, vf_set1, vf_add, vf_sub, vf_mul, vf_fma(a, b, c) = a * b + c, vf_sum (fixed tree)
 *   vf_spread(p, vi i)     lane l: p[i[l]]; reads V floats
 *   vf_of_int, vf_of_half, vf_of_bits, vt_load, vf_look_up(vt, vi): by the low 4 bits of lanes
 *   vf_spread_bytes(p, mask, factor, last): V bytes b as the fp16 b << 7 & mask, times factor;
 *                          last[0] and last[1] instead of 0x7F and 0xFF
 *   vi_load, vi_set1, vi_shl, vi_shr, vi_and, vi_load_pieces(p, stride, bytes),
 *   vi_top_byte(v, j)      byte j of each lane moved to its top, zeros below
 *   vh_load, vh_load6: 2V bytes; 3V/2 bytes, three to every dword
 *   vh_set1, vh_and, vh_or, vh_shl32, vh_shl16, vh_sra16(v, count), vh_max8, vh_has8(v, byte)
 *
 *   vf_dot(c, a, b)        with PAIRS: c + the products of two bfloat16 in each lane;
 *                          vi_table16(16 floats as bfloat16), vi_look_up16(table, vi)
 *
 * Each row is summed in an order that depends on the layout alone: lanes of a step over their
 * codes, steps of a chunk, chunks of a row, lanes by a fixed tree. Neither the rows nor the columns
 * that are done beside it change a bit.
 *
 * CMake compiles the file once for each row of gemv_decodes.def and once for what all of them share
 * (COMMON); codecs/cpu/unit.h tells how. Compiled as it stands, it holds everything. */
#ifndef KERF_GEMV_ROWS_H
#define KERF_GEMV_ROWS_H

#include "cpu/gemv_layout.h"
#include "cpu/unit.h"
#include "format/format.h"

#define ROWS 4 /* done at a time, so that each x is loaded once for them */
#define WIDE 4 /* columns done at a time, so that each weight is decoded once for them */
#ifdef PAIRS
#define PAIRED 1
#else
#define PAIRED 0
#endif
#define ENTRIES (KF_GEMV_CHUNK * KF_GEMV_LANES)

/* Scales and zero points of entries [first, first + n) of row r as fp32, zero past its end. An
 * entry is what one scale serves of one step. */
typedef void kf_gemv_widen(const kf_gemv_layout *l, const kf_matrix *w, size_t r, size_t first,
                           size_t n, float *scales, float *zeros);

/* Rows [r0, r1) of all columns. */
typedef void kf_gemv_rows_function(const kf_gemv_call *c, size_t r0, size_t r1);

/* By format; in the common unit. */
extern kf_gemv_widen *const KF_ISA(widen)[];

/* Of each decode, by scaling; NULL: none. */
#define KF_GEMV_DECODE(kind, decode, ...) \
    extern kf_gemv_rows_function *const KF_ISA(decode)[KF_SCALINGS];
#include "cpu/gemv_decodes.def"
#undef KF_GEMV_DECODE

/* Asks for what lies `ahead` bytes further on: the same place of the rows that come next. Rows are
 * short enough for a prefetcher of the machine to lose them again and again. */
KF_HD void fetch_ahead(const uint8_t *p, size_t ahead)
{
    __builtin_prefetch((const void *)((uintptr_t)p + ahead), 0, 2);
}

#if KF_IN_UNIT(COMMON)
#include "cpu/gemv_scales.h"
#include "cpu/gemv_start.h"
#endif
#include "cpu/gemv_tile.h"

#endif
