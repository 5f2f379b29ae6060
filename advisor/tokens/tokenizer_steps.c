/* tokenizer_steps.c - the normalizers and pre-tokenizers of a tokenizer.json as steps.
 *
 * Source: tokenizers 0.22, src/normalizers and src/pre_tokenizers: names, members, defaults. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "tokenizer.h"
#include "utf8.h"

enum { MOST_DEPTH = 8 };

static const char *text_of(const json_t *j, const char *key)
{
    return json_string_value(json_object_get(j, key));
}

/* A member that is true, or is not there and true by default. */
static int flag_of(const json_t *j, const char *key, int by_default)
{
    const json_t *v = json_object_get(j, key);
    return json_is_boolean(v) ? json_is_true(v) : by_default;
}

static kerf_status refuse(kerf_error *err, const char *what, const char *type)
{
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "%s \"%.*s\" is not read", what,
                   KF_NAME(type ? type : "(no type)"));
}

static kerf_status copy(char **out, const char *text, kerf_error *err)
{
    *out = text ? strdup(text) : NULL;
    if (*out) return KERF_OK;
    return text ? kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a tokenizer")
                : kf_fail(err, KERF_E_DATA, KF_NOWHERE, "a step lacks its text");
}

/* --- patterns --------------------------------------------------------------------------------- */

/* {"String": s} or {"Regex": r}: one of the two. */
static kerf_status take_pattern(const json_t *j, char **text, kf_regex **regex, kerf_error *err)
{
    const json_t *p = json_object_get(j, "pattern");
    const char *r = text_of(p, "Regex"), *s = json_is_string(p) ? json_string_value(p) : NULL;
    if (r) return kf_regex_compile(r, regex, err);
    return copy(text, s ? s : text_of(p, "String"), err);
}

/* --- normalizers ------------------------------------------------------------------------------ */

static kerf_status take_charsmap(kf_normal *s, const json_t *j, kerf_error *err)
{
    const char *map = text_of(j, "precompiled_charsmap");
    s->kind = KF_NORMAL_CHARSMAP;
    if (!map) return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "no precompiled_charsmap");
    return kf_charsmap_read(map, &s->map, err);
}

static kerf_status take_normalizer(kf_normal *s, const json_t *j, kerf_error *err)
{
    const char *type = text_of(j, "type");
    if (!type) return refuse(err, "the normalizer", type);
    if (strcmp(type, "NFC") == 0 || strcmp(type, "NFD") == 0) {
        s->kind = type[2] == 'C' ? KF_NORMAL_NFC : KF_NORMAL_NFD;
        return KERF_OK;
    }
    if (strcmp(type, "Prepend") == 0) {
        s->kind = KF_NORMAL_PREPEND;
        return copy(&s->with, text_of(j, "prepend"), err);
    }
    if (strcmp(type, "Replace") == 0) {
        s->kind = KF_NORMAL_REPLACE;
        KF_TRY(take_pattern(j, &s->what, &s->regex, err));
        return copy(&s->with, text_of(j, "content"), err);
    }
    if (strcmp(type, "Strip") == 0) {
        s->kind = KF_NORMAL_STRIP;
        s->left = flag_of(j, "strip_left", 0);
        s->right = flag_of(j, "strip_right", 0);
        return KERF_OK;
    }
    if (strcmp(type, "Precompiled") == 0) return take_charsmap(s, j, err);
    return refuse(err, "the normalizer", type);
}

static kerf_status take_normalizers(kerf_tokenizer *t, const json_t *j, int depth, kerf_error *err)
{
    const json_t *list = json_object_get(j, "normalizers");
    size_t i;
    json_t *one;
    if (depth > MOST_DEPTH || t->normals == KF_MOST_STEPS)
        return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE, "more normalizers than are read");
    if (!json_is_array(list)) return take_normalizer(&t->normal[t->normals++], j, err);
    json_array_foreach(list, i, one) KF_TRY(take_normalizers(t, one, depth + 1, err));
    return KERF_OK;
}

kerf_status kf_take_normalizers(kerf_tokenizer *t, const json_t *j, kerf_error *err)
{
    return !j || json_is_null(j) ? KERF_OK : take_normalizers(t, j, 0, err);
}

/* --- pre-tokenizers --------------------------------------------------------------------------- */

static const struct {
    const char *name;
    kf_behavior behavior;
} behaviors[] = {
    {"Removed", KF_REMOVED},          {"Isolated", KF_ISOLATED},
    {"Contiguous", KF_CONTIGUOUS},    {"MergedWithPrevious", KF_WITH_PREVIOUS},
    {"MergedWithNext", KF_WITH_NEXT},
};

static kerf_status behavior_of(const json_t *j, kf_behavior by_default, kf_behavior *out,
                               kerf_error *err)
{
    const char *name = text_of(j, "behavior");
    *out = by_default;
    if (!name) return KERF_OK;
    for (size_t i = 0; i < sizeof behaviors / sizeof *behaviors; i++)
        if (strcmp(name, behaviors[i].name) == 0) {
            *out = behaviors[i].behavior;
            return KERF_OK;
        }
    return refuse(err, "the behavior", name);
}

static kerf_status new_step(kerf_tokenizer *t, kf_cut_kind kind, kf_cut_step **out, kerf_error *err)
{
    *out = t->cut;
    if (t->cuts == KF_MOST_STEPS)
        return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE, "more pre-tokenizers than are read");
    *out = &t->cut[t->cuts++];
    (*out)->kind = kind;
    return KERF_OK;
}

kerf_status kf_add_split(kerf_tokenizer *t, const char *pattern, kf_behavior behavior, int invert,
                         kerf_error *err)
{
    kf_cut_step *s;
    KF_TRY(new_step(t, KF_CUT_SPLIT, &s, err));
    s->behavior = behavior;
    s->invert = invert;
    return kf_regex_compile(pattern, &s->regex, err);
}

static kerf_status take_split(kerf_tokenizer *t, const json_t *j, kerf_error *err)
{
    kf_cut_step *s;
    KF_TRY(new_step(t, KF_CUT_SPLIT, &s, err));
    KF_TRY(behavior_of(j, KF_ISOLATED, &s->behavior, err));
    s->invert = flag_of(j, "invert", 0);
    return take_pattern(j, &s->text, &s->regex, err);
}

static kerf_status take_bytes(kerf_tokenizer *t, const json_t *j, kerf_error *err)
{
    kf_cut_step *s;
    t->is_bytes = 1;
    if (flag_of(j, "add_prefix_space", 1)) KF_TRY(new_step(t, KF_CUT_PREFIX, &s, err));
    return flag_of(j, "use_regex", 1) ? kf_add_split(t, KF_GPT2_PATTERN, KF_ISOLATED, 0, err)
                                      : KERF_OK;
}

static kerf_status take_metaspace(kerf_tokenizer *t, const json_t *j, kerf_error *err)
{
    const char *scheme = text_of(j, "prepend_scheme");
    kf_cut_step *s;
    KF_TRY(new_step(t, KF_CUT_METASPACE, &s, err));
    if (!scheme) scheme = flag_of(j, "add_prefix_space", 1) ? "always" : "never";
    s->always = strcmp(scheme, "always") == 0;
    s->first = strcmp(scheme, "first") == 0;
    if (!s->always && !s->first && strcmp(scheme, "never") != 0)
        return refuse(err, "the prepend_scheme", scheme);
    s->splits = flag_of(j, "split", 1);
    s->behavior = KF_WITH_NEXT;
    const char *with = text_of(j, "replacement");
    if (!with || !*with || strlen(with) != kf_utf8_bytes((unsigned char)*with))
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "the replacement is not one character");
    return copy(&s->text, with, err);
}

static kerf_status take_punctuation(kerf_tokenizer *t, const json_t *j, kerf_error *err)
{
    kf_behavior how;
    KF_TRY(behavior_of(j, KF_ISOLATED, &how, err));
    return kf_add_split(t, "[\\p{P}$+<=>^`|~]", how, 0, err);
}

static kerf_status take_cut(kerf_tokenizer *t, const json_t *j, kerf_error *err)
{
    const char *type = text_of(j, "type");
    if (!type) return refuse(err, "the pre-tokenizer", type);
    if (t->is_bytes)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "the pre-tokenizer \"%.*s\" behind ByteLevel is not read", KF_NAME(type));
    if (strcmp(type, "ByteLevel") == 0) return take_bytes(t, j, err);
    if (strcmp(type, "Split") == 0) return take_split(t, j, err);
    if (strcmp(type, "Metaspace") == 0) return take_metaspace(t, j, err);
    if (strcmp(type, "Digits") == 0)
        return kf_add_split(
            t, "\\p{N}", flag_of(j, "individual_digits", 0) ? KF_ISOLATED : KF_CONTIGUOUS, 0, err);
    if (strcmp(type, "WhitespaceSplit") == 0) return kf_add_split(t, "\\s", KF_REMOVED, 0, err);
    if (strcmp(type, "Whitespace") == 0)
        return kf_add_split(t, "\\w+|[^\\w\\s]+", KF_REMOVED, 1, err);
    if (strcmp(type, "Punctuation") == 0) return take_punctuation(t, j, err);
    return refuse(err, "the pre-tokenizer", type);
}

static kerf_status take_cuts(kerf_tokenizer *t, const json_t *j, int depth, kerf_error *err)
{
    const json_t *list = json_object_get(j, "pretokenizers");
    size_t i;
    json_t *one;
    if (depth > MOST_DEPTH)
        return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE, "more pre-tokenizers than are read");
    if (!json_is_array(list)) return take_cut(t, j, err);
    json_array_foreach(list, i, one) KF_TRY(take_cuts(t, one, depth + 1, err));
    return KERF_OK;
}

kerf_status kf_take_cuts(kerf_tokenizer *t, const json_t *j, kerf_error *err)
{
    return !j || json_is_null(j) ? KERF_OK : take_cuts(t, j, 0, err);
}
