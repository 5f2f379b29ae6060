/* wide_encoders.h - what an encoder needs of the stages of wide.h. */
#ifndef KERF_WIDE_ENCODERS_H
#define KERF_WIDE_ENCODERS_H

#include "cpu/wide_shares.h"

/* Encoders whose scales follow from the extremes of a group, and whose codes follow from the scale.
 */
#define EASY_ENCODERS(X, F) \
    X(F, CAST, RNE)         \
    X(F, FP8, AMAX)         \
    X(F, FP8, TORCHAO)      \
    X(F, FP8, DEEPSEEK)     \
    X(F, MX, FLOOR)         \
    X(F, MX, RCEIL)         \
    X(F, MX, EVEN)          \
    X(F, MX, CEIL)          \
    X(F, NVFP4, AMAX)       \
    X(F, NF4, BNB_CPU)      \
    X(F, INT, AMAX)         \
    X(F, AFFINE, MINMAX)    \
    X(F, GGML, GGML)

/* Of these too, but each has a rounding of its own. */
#define PEER_ENCODERS(X, F)      \
    X(F, FP8, MODELOPT)          \
    X(F, FP8, CT)                \
    X(F, MX, TORCHAO)            \
    X(F, MX, CT)                 \
    X(F, MX, MODELOPT)           \
    X(F, MX, MICROXCALING)       \
    X(F, MX, GGML)               \
    X(F, NVFP4, TE)              \
    X(F, NVFP4, MODELOPT)        \
    X(F, NVFP4, MODELOPT_STATIC) \
    X(F, NVFP4, CT)              \
    X(F, NVFP4, CT_FP32)         \
    X(F, NVFP4, TORCHAO)         \
    X(F, NVFP4, STATIC_6)        \
    X(F, NVFP4, STATIC_4)        \
    X(F, NVFP4, AUTOROUND)       \
    X(F, INT, CT)                \
    X(F, INT, TORCHAO)           \
    X(F, INT, MODELOPT)          \
    X(F, INT, GPTQ)              \
    X(F, INT, BNB)               \
    X(F, AFFINE, CT)             \
    X(F, AFFINE, TORCHAO)        \
    X(F, AFFINE, GPTQ)           \
    X(F, AFFINE, AWQ)            \
    X(F, AFFINE, HQQ)

/* Whether an encoder looks at all elements of a group to choose its scale. */
KF_HD int searches(int encoder)
{
    return kf_nvfp4_is_search(encoder) || is_share_search(encoder) || encoder == KERF_ENC_MX_SEARCH;
}

/* Whether all of an encoder's work is done here; what is not is left to the reference. */
KF_HD int takes_encoder(int encoder)
{
    switch (encoder) {
#define EASY(F, family, ID) case KERF_ENC_##family##_##ID:
        EASY_ENCODERS(EASY, )
        PEER_ENCODERS(EASY, )
#undef EASY
        return 1;
    default: return searches(encoder);
    }
}

/* Whether codes have a rounding of their encoder's own. */
KF_HD int has_rounding(int encoder)
{
    switch (encoder) {
#define PEER(F, family, ID) case KERF_ENC_##family##_##ID:
        PEER_ENCODERS(PEER, )
#undef PEER
        return 1;
    default: return 0;
    }
}

/* Whether a scale depends on more than the largest magnitude of a group. */
KF_HD int needs_signs(kf_spec s, int encoder)
{
    return s.family == KERF_FAMILY_AFFINE || encoder == KERF_ENC_INT_GPTQ ||
           (s.family == KERF_FAMILY_GGML && s.element == KERF_ELEM_U4);
}

#endif
