/* wide.h - a band in stages: the backends of processors with vectors.
 *
 * The reference takes one element after another from its source to its bytes. Here 2,048 elements,
 * which fit the first-level cache, take one step together:
 *
 *   encode  range of each group - its scale - widen to fp32 - codes of its elements - pack
 *   decode  unpack - numbers of the codes at scale 1 - scale of each group, narrow to the target
 *
 * Almost every step is a plain loop around the very functions of block/ that the reference calls,
 * so there is no second text of any rule and nothing for an instruction set to get wrong. The loops
 * have neither branches nor calls; compilers turn them into vector code for whatever processor the
 * file that includes this one is compiled for, and IEEE arithmetic gives the same bits in any lane.
 * The steps that they do not find are in wide_vec.h, wide_e2m1.h and wide_pairs.h. bfloat16
 * instructions flush subnormals and so cannot be used where bytes are made.
 *
 * Elements of bfloat16 have shorter ways, on which they stay in pairs: from the source to codes in
 * wide_fp4.h and wide_bisect.h, and from codes of up to 4 bits in wide_nibbles.h.
 *
 * A scale that needs no more than the extremes of its group is chosen from a group that holds just
 * these. Encoders that search look at all of it: NVFP4's in wide_search.h, MX's in
 * wide_exponents.h, those of integers in wide_shares.h.
 *
 * Formats that differ only in what a stage does not look at share it: each stage has a key, and the
 * first row of formats.def with the same key has its code.
 *
 * The file that includes this takes wide_ops, which serves every format. */
#ifndef KERF_WIDE_H
#define KERF_WIDE_H

#include "cpu/unit.h"

#if KF_UNIT_HAS_ROWS
#include "cpu/wide_rows.h"
#endif

#if KF_IN_UNIT(COMMON)
#include "cpu/wide_band.h"
#include "cpu/wide_loss.h"

const kf_codec_ops *KF_ISA(ops)(const kerf_format *f)
{
    static const kf_codec_ops ops = {encode_band, measure_band, decode_band, count_band, lose_band};
    return f->geometry == KERF_GROUP_SUPER ? kf_ref_ops(f) : &ops;
}
#endif

#endif
