/* gemv_rows.h - the matrix-vector product for one instruction set. A file for an instruction set
 * says what a vector is, names its functions, and includes this:
 *
 *   KF_ISA(name)           the name of a function or table of this instruction set
 *   V                      lanes of fp32
 *   vf, vi                 V floats, V dwords; vh: V 16-bit words; vt: a table of 16 floats
 *   vf_load, vf_set1, vf_add, vf_sub, vf_mul, vf_fma(a, b, c) = a * b + c, vf_sum (fixed tree)
 *   vf_two(a, b)           a in the lower half of the lanes, b in the upper
 *   vf_spread(p, vi i)     lane l: p[i[l]]; reads V floats
 *   vf_of_int, vf_of_half, vf_of_bits, vt_load, vf_look_up(vt, vi): by the low 4 bits of lanes
 *   vf_spread_bytes(p, mask, last): V bytes b as the fp16 b << 7 & mask; last[0] and last[1]
 *                          instead of 0x7F and 0xFF
 *   vi_load, vi_set1, vi_shl, vi_shr, vi_and, vi_load_pieces(p, stride, bytes),
 *   vi_top_byte(v, j)      byte j of each lane moved to its top, zeros below
 *   vi_load_bytes(p)       V bytes, each in a dword; vi_or
 *   vi_of_bytes(words, j)  the same from byte j of words of 64 bits on
 *   vi_shr_lanes(v, n)     lane l down by n + l bits
 *   vh_load, vh_load6: 2V bytes; 3V/2 bytes, three to every dword
 *   vh_set1, vh_and, vh_or, vh_shl32, vh_shl16, vh_sra16(v, count), vh_max8, vh_has8(v, byte)
 *
 *   vi_place(p, two, gap, place)  bytes of 8, or of `two` times 8 that are `gap` apart, where place
 *                          says; 0 where that is 128 or more; vh_place: V words
 *   vi_max, vi_shr_each(v, counts), vh_half_down: words, signed; vh_max16, vh_any_above(v, word)
 *
 *   TAKES_BFLOAT           it has kernels of KF_KIND_BFLOAT, which needs TWO_MINIS
 *   TWO_MINIS              a vi is two vh: MINI8 and MINI6 go two steps at a time; then also
 *                          vi_both(vh), vi_part(vi, i), vi_shl16, vi_sra16, vi_max8, and
 *                          vi_load6(p): words of two codes, from their bits 4 and 10 on
 *
 *   vf_dot(c, a, b)        with PAIRS: c + the products of two bfloat16 in each lane;
 *                          vi_table16(16 floats as bfloat16), vi_look_up16(table, vi)
 *
 *   INTEGERS               the order of x (kf_gemv_kind) where codes and x are multiplied as
 *                          integers; then also
 *   vw, vw_tables          the weights of a step; what they are looked up in
 *   vz, vz_of(vf), vz_set1, vz_table, vz_table_of, vz_look_up   zero points of lanes
 *   vw_of(decode, t, codes, zero), vw_dot(decode, w, x): V exact sums as fp32, one rounding each
 *   place_integers(l, n, out): 16-bit integers of a step in the order of the layout
 *   UNIT_OF(decode)        what the sums must be multiplied by
 *
 *   X_STEP, X_UNIT(l, x, step, n)  where a step of x of n * V and its unit lie, if not in two
 *                          arrays, one after the other (gemv_start.h)
 *   ONLY_SIX_BITS          of planes of codes it takes those of 6 bits alone (WHOLE6 and WIDE of
 *                          gemv_decodes.def); blocks of two levels all the same
 *   CAN_DECODE(decode)     if not all: which decodes this machine runs
 *   ONLY_BLOCKS            this unit has no kernels but of blocks of two levels
 *
 * For blocks of two levels INTEGERS needs
 *   BASE, SIGNED_CODES     of the bytes of x (gemv_levels.h); whether codes may be negative
 *   BOOK_BIAS              what makes the numbers of a book positive; 0: they need not be
 *   vi_bytes(n), vi_load16(p)  n in each byte; 16 bytes in each 128 bits
 *   vi_merge(a, b, mask)   a | b & mask, by bytes; vi_sub_bytes; vi_book(table, codes): a look-up
 *   vi_high(p, n0, n1)     32 bytes twice, up by n0 bits and by n1, or down; vectors of fewer than
 *                          64 bytes need neither this nor vi_merge (gemv_level_steps.h)
 *   vi_add16(a, p, stride, v)  16 more in each byte that has a bit: V / 4 blocks, `stride` apart,
 *                          have 32 bits from p on, of which vector v, 0 or 1, has 16
 *   vi_add, vi_sub: dwords
 *   PRODUCTS_ARE_WORDS     1: products of bytes come as words, and so do levels. Then also
 *                          vi_dot_level(sum, codes, x, level, book) and vi_dot_small(codes, x,
 *                          book), which is dot_small of gemv_level_steps.h. 0: vi_dot(sum, codes,
 *                          x) adds products of four bytes to each dword, which are of a book or
 *                          at most 63, vi_dot_level(sum, codes, x, level) those sums times a
 *                          level; vi_mul, vi_times_base: dwords
 *   TAKES_WORDS            1: several columns go by words (gemv_level_words.h); then also
 *                          vi_words(bytes, have_signs, out): even bytes as words, odd ones;
 *                          vi_sub_words(words, n), vi_mul_words; vi_dot_words(sum, words, x): adds
 *                          products of two words to each dword
 *   vi_levels(a, b, bias)  16 bytes less bias in each 128 bits; vi_level(levels, place, size,
 *                          is_signed): integers of `size` bytes, 2 or 4, of bytes where place says
 *   vi_level_sums(levels, p)  the levels times 16 words, in any lanes
 *   vf_halves(p, stride, next)  V / 4 fp16, `stride` apart from p on, each in four lanes; in next
 *                          those that lie behind them
 *
 * Each row is summed in an order that depends on the layout alone: lanes of a step over their
 * codes, steps of a chunk, chunks of a row, lanes by a fixed tree. Neither the rows nor the columns
 * that are done beside it change a bit.
 *
 * CMake compiles the file once for each row of gemv_decodes.def and once for what all of them share
 * (COMMON); codecs/cpu/unit.h tells how. Compiled as it stands, it holds everything. */
#include "cpu/gemv_kernel.h"

#if KF_IN_UNIT(COMMON)
#include "cpu/gemv_scales.h"
#include "cpu/gemv_start.h"
#endif
#ifndef ONLY_BLOCKS
#include "cpu/gemv_few_rows.h"
#endif
#if HAS_LEVELS && KF_IN_UNIT(LEVELS)
#include "cpu/gemv_levels.h"
#endif
#if HAS_SUPER && KF_IN_UNIT(SUPER)
#include "cpu/gemv_super.h"
#endif
