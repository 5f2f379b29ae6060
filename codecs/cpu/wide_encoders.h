/* wide_encoders.h - what an encoder needs of the stages of wide.h, by its row of formats.def. f: as
 * in block/encoder.h. */
#ifndef KERF_WIDE_ENCODERS_H
#define KERF_WIDE_ENCODERS_H

#include "block/encoder.h"
#include "block/spec.h"

/* Whether all of an encoder's work is done here; what is not is left to the reference. */
KF_HD int takes_encoder(kerf_family f, int encoder)
{
    return !kf_has_choice(f, encoder, KF_CHOICE_OTHER);
}

/* Whether it looks at all elements of a group to choose its scale. */
KF_HD int searches(kerf_family f, int encoder)
{
    return kf_is_search(f, encoder) || kf_is_pair(f, encoder);
}

/* Whether a scale depends on more than the largest magnitude of a group. That of ggml-q4_0 has the
 * sign of the element with the largest magnitude. */
KF_HD int needs_signs(kf_spec s, int encoder)
{
    return s.family == KERF_FAMILY_AFFINE ||
           kf_has_choice(KERF_FAMILY_NONE, encoder, KF_CHOICE_RANGE) ||
           (s.family == KERF_FAMILY_GGML && s.element == KERF_ELEM_U4);
}

/* Whether codes are rounded in a way of the encoder's own. */
KF_HD int has_own_codes(kerf_family f, int encoder)
{
    return kf_has_codes(f, encoder, KF_CODES_OWN);
}

#endif
