/* encoder.h - what formats.def says of an encoder, as questions about its id.
 *
 * Each question names the family that the encoder is of, as a literal: it becomes a few comparisons
 * of the id with those of the family, and folds away where the id is a literal, too.
 * KERF_FAMILY_NONE stands for every family, where it is not known. The answer is no, or 0, for ids
 * that are no encoder of the family. */
#ifndef KERF_BLOCK_ENCODER_H
#define KERF_BLOCK_ENCODER_H

#include "scalar/bits.h"

#include <kerf/codec.h>

#if defined(__CUDACC__)
#define KF_COLUMN __host__ __device__ constexpr
#else
#define KF_COLUMN KF_HD
#endif

#define KF_OF_FAMILY(f, family) ((f) == KERF_FAMILY_##family || (f) == KERF_FAMILY_NONE)

typedef enum kf_rule { KF_RULE_PLAIN, KF_RULE_PEER } kf_rule;

typedef enum kf_choice {
    KF_CHOICE_NONE,
    KF_CHOICE_AMAX,
    KF_CHOICE_RANGE,
    KF_CHOICE_PAIR,
    KF_CHOICE_SEARCH,
    KF_CHOICE_COLUMNS,
    KF_CHOICE_OTHER
} kf_choice;

typedef enum kf_codes { KF_CODES_SHARED, KF_CODES_OWN } kf_codes;

typedef enum kf_metric {
    KF_METRIC_NONE,
    KF_METRIC_SQUARES,
    KF_METRIC_MAGNITUDES,
    KF_METRIC_LARGEST
} kf_metric;

KF_COLUMN int kf_has_rule(kerf_family f, int encoder, kf_rule wanted)
{
    return
#define KERF_ENCODER(family, ID, name, formats, sources, rule, ...) \
    (KF_OF_FAMILY(f, family) && KF_RULE_##rule == wanted && encoder == KERF_ENC_##family##_##ID) ||
#include <kerf/formats.def>
#undef KERF_ENCODER
        0;
}

KF_COLUMN int kf_has_choice(kerf_family f, int encoder, kf_choice wanted)
{
    return
#define KERF_ENCODER(family, ID, name, formats, sources, rule, choice, ...) \
    (KF_OF_FAMILY(f, family) && KF_CHOICE_##choice == wanted &&             \
     encoder == KERF_ENC_##family##_##ID) ||
#include <kerf/formats.def>
#undef KERF_ENCODER
        0;
}

KF_COLUMN int kf_has_codes(kerf_family f, int encoder, kf_codes wanted)
{
    return
#define KERF_ENCODER(family, ID, name, formats, sources, rule, choice, codes, ...) \
    (KF_OF_FAMILY(f, family) && KF_CODES_##codes == wanted &&                      \
     encoder == KERF_ENC_##family##_##ID) ||
#include <kerf/formats.def>
#undef KERF_ENCODER
        0;
}

KF_COLUMN int kf_has_metric(kerf_family f, int encoder, kf_metric wanted)
{
    return
#define KERF_ENCODER(family, ID, name, formats, sources, rule, choice, codes, metric, ...) \
    (KF_OF_FAMILY(f, family) && KF_METRIC_##metric == wanted &&                            \
     encoder == KERF_ENC_##family##_##ID) ||
#include <kerf/formats.def>
#undef KERF_ENCODER
        0;
}

/* The largest element times the largest block scale. */
KF_COLUMN float kf_range_of(kerf_family f, int encoder)
{
    return
#define KERF_ENCODER(family, ID, name, formats, sources, rule, choice, codes, metric, range, ...) \
    KF_OF_FAMILY(f, family) && encoder == KERF_ENC_##family##_##ID ? (float)range:
#include <kerf/formats.def>
#undef KERF_ENCODER
        0.0f;
}

/* Whether it is another project's rule. */
KF_COLUMN int kf_is_peer(kerf_family f, int encoder)
{
    return kf_has_rule(f, encoder, KF_RULE_PEER);
}

/* Whether it tries two scales, or many, on the elements themselves. */
KF_COLUMN int kf_is_pair(kerf_family f, int encoder)
{
    return kf_has_choice(f, encoder, KF_CHOICE_PAIR);
}
KF_COLUMN int kf_is_search(kerf_family f, int encoder)
{
    return kf_has_choice(f, encoder, KF_CHOICE_SEARCH);
}

/* Whether it needs the importance of each column. */
KF_COLUMN int kf_takes_importance(kerf_family f, int encoder)
{
    return kf_has_choice(f, encoder, KF_CHOICE_COLUMNS);
}

#endif
