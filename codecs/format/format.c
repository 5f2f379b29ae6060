/* format.c - the tables that formats.def becomes, and how they are searched. */
#include "format/format.h"

#include "base/base.h"
#include "block/encoder.h"

#include <stdio.h>
#include <stdlib.h>

static const kerf_format formats[] = {
#define KERF_FORMAT(ID, wire, name, family, elem, geometry, group, scale, second, zero, enc, note) \
    {KERF_FORMAT_##ID,                                                                             \
     name,                                                                                         \
     KERF_FAMILY_##family,                                                                         \
     KERF_ELEM_##elem,                                                                             \
     KF_BITS_##elem,                                                                               \
     KERF_GROUP_##geometry,                                                                        \
     group,                                                                                        \
     KERF_SCALE_##scale,                                                                           \
     KERF_SECOND_##second,                                                                         \
     KERF_ZERO_##zero,                                                                             \
     enc,                                                                                          \
     note},
#include <kerf/formats.def>
#undef KERF_FORMAT
};

static const kerf_encoder encoders[] = {
#define KERF_ENCODER(family, ID, name, formats, sources, rule, choice, codes, metric, range, \
                     origin)                                                                 \
    {KERF_ENC_##family##_##ID, KERF_FAMILY_##family, name, origin},
#include <kerf/formats.def>
#undef KERF_ENCODER
};
#define ENCODERS (sizeof encoders / sizeof encoders[0])

/* A row that promises what no backend does: the GPU rounds all PLAIN encoders of a family in one
 * way, and a choice that tries scales compares errors. */
#define KERF_ENCODER(family, ID, name, formats, sources, rule, choice, codes, metric, ...)  \
    _Static_assert(KF_RULE_##rule != KF_RULE_PLAIN || KF_CODES_##codes == KF_CODES_SHARED,  \
                   #family ":" name ": a PLAIN encoder has SHARED codes");                  \
    _Static_assert(                                                                         \
        (KF_CHOICE_##choice == KF_CHOICE_PAIR || KF_CHOICE_##choice == KF_CHOICE_SEARCH) == \
            (KF_METRIC_##metric != KF_METRIC_NONE),                                         \
        #family ":" name ": PAIR and SEARCH, and no others, have a metric");
#include <kerf/formats.def>
#undef KERF_ENCODER

/* --- formats and encoders -------------------------------------------------------------------- */

size_t kerf_format_count(void)
{
    return KF_FORMATS;
}

const kerf_format *kerf_format_at(size_t i)
{
    return i < KF_FORMATS ? &formats[i] : NULL;
}

const kerf_format *kerf_format_find(const char *name)
{
    for (size_t i = 0; i < KF_FORMATS; i++)
        if (strcmp(name, formats[i].name) == 0) return &formats[i];
    return NULL;
}

size_t kf_format_index(const kerf_format *f)
{
    return (size_t)(f - formats);
}

kf_spec kf_spec_of(const kerf_format *f)
{
    kf_spec s = {f->id,    f->family, f->element, f->bits, f->geometry,
                 f->group, f->scale,  f->second,  f->zero};
    return s;
}

/* The columns `formats` and `sources` of an encoder, as formats.def writes them. */
#define EVERY 1
#define ELEMENT(value) (f->element == KERF_ELEM_##value)
#define GROUP(value) (f->geometry == KERF_GROUP_##value)
#define SCALE(value) (f->scale == KERF_SCALE_##value)

static int encoder_fits(const kerf_format *f, const kerf_encoder *e)
{
    if (e->family != f->family) return 0;
    switch (e->id) {
#define KERF_ENCODER(family, ID, name, formats, ...) \
    case KERF_ENC_##family##_##ID:                   \
        return formats;
#include <kerf/formats.def>
#undef KERF_ENCODER
    case KERF_ENC_NONE: break;
    }
    return 0;
}

static int encoder_takes(const kerf_format *f, const kerf_encoder *e, kerf_dtype source)
{
    enum { ANY, SAME };
    static const unsigned char sources_of[] = {
        ANY,
#define KERF_ENCODER(family, ID, name, formats, sources, ...) sources,
#include <kerf/formats.def>
#undef KERF_ENCODER
    };
    if (sources_of[e->id] == ANY) return 1;
    if (f->scale == KERF_SCALE_BF16) return source == KERF_BF16;
    return f->scale != KERF_SCALE_F16 || source == KERF_F16;
}

kerf_status kf_encoder_check(const kerf_format *f, const kerf_encoder *e, kerf_dtype source,
                             kerf_error *err)
{
    if (!e) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "no encoder is given for %s", f->name);
    if (!encoder_fits(f, e))
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%s is not an encoder of %s", e->name, f->name);
    if (encoder_takes(f, e, source)) return KERF_OK;
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "%s:%s computes its scales in the type of the source, %s, which this format "
                   "cannot hold; choose one with fp16, bfloat16 or fp32 scales to match",
                   f->name, e->name, kerf_dtype_name(source));
}

static const kerf_encoder *find_encoder(const kerf_format *f, const char *name)
{
    for (size_t i = 0; i < ENCODERS; i++)
        if (encoder_fits(f, &encoders[i]) && strcmp(name, encoders[i].name) == 0)
            return &encoders[i];
    return NULL;
}

size_t kerf_encoder_count(const kerf_format *f)
{
    size_t n = 0;
    for (size_t i = 0; i < ENCODERS; i++) n += (size_t)encoder_fits(f, &encoders[i]);
    return n;
}

const kerf_encoder *kerf_encoder_at(const kerf_format *f, size_t i)
{
    const kerf_encoder *first = find_encoder(f, f->default_encoder);
    if (i == 0) return first;
    for (size_t k = 0; k < ENCODERS; k++)
        if (encoder_fits(f, &encoders[k]) && &encoders[k] != first && --i == 0) return &encoders[k];
    return NULL;
}
