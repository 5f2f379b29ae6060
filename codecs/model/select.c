/* select.c - which weights are worth quantizing. What runtimes refuse to load quantized, or what
 * costs far more quality than it saves bytes, is left in its source type: its role says so
 * (kerf/roles.h). */
#include "model/select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kerf/words.h>

#include "base/base.h"
#include "layout/arranging.h"
#include "model/not_a_model.h"

int kf_glob_takes_old_name(const char *glob, const kerf_weight *w)
{
    char name[KERF_MAX_NAME_BYTES + 32];
    if (!w->whole || !kerf_glob_matches(glob, w->whole)) return 0;
    return !kf_stacked_singles(w) ||
           kerf_glob_matches(glob, kf_stacked_name(w, 1, name, sizeof name));
}

int kf_glob_takes(const char *glob, const kerf_weight *w)
{
    return kerf_glob_matches(glob, w->name) || kf_glob_takes_old_name(glob, w);
}

const char *kf_select_obstacle(const kerf_weight *w, char *text, size_t size)
{
    char format[64];
    if (w->decoded || (!w->codec.format && kerf_dtype_is_float(w->dtype))) return NULL;
    snprintf(text, size, "%s %s", w->codec.format ? "already" : "type",
             kerf_weight_format(w, format, sizeof format));
    return text;
}

/* Rows that are shorter than the blocks of most formats: convolutions, mostly. */
enum { SHORT_ROW = 16 };

static const char *default_reason(const kerf_weight *w)
{
    const int is_known = w->place.role != KERF_ROLE_OTHER;
    const char *why = kerf_place_keeps(&w->place);
    if (w->shape.rank < 2) return why && is_known ? why : "1-D";
    if (why) return why;
    return w->shape.dim[w->shape.rank - 1] < SHORT_ROW ? "short rows" : NULL;
}

kf_rank kf_select_rank(const kerf_weight *w)
{
    char text[96];
    if (kf_select_obstacle(w, text, sizeof text))
        return w->codec.format ? KF_RANK_USUAL : KF_RANK_SMALL;
    if (!default_reason(w)) return KF_RANK_USUAL;
    return w->shape.rank < 2 ? KF_RANK_SMALL : KF_RANK_KEPT;
}

static const char *first_match(const char *const *glob, size_t count, const kerf_weight *w)
{
    for (size_t i = 0; i < count; i++) {
        if (kf_glob_takes(glob[i], w)) return glob[i];
    }
    return NULL;
}

/* A header may claim any number of rows and matrices without elements, each with a scale. */
enum { EMPTY_MOST = 1 << 16 };

const char *kf_select_empty(const kerf_weight *w)
{
    uint64_t claimed = 1;
    if (kerf_weight_elements(w) > 0) return NULL;
    for (unsigned i = 0; i < w->shape.rank && claimed <= EMPTY_MOST; i++)
        if (w->shape.dim[i] > 1) claimed *= kf_min_u64(w->shape.dim[i], UINT32_MAX);
    return claimed > EMPTY_MOST ? "no elements" : NULL;
}

const char *kf_select_option(const kerf_select *s, const kerf_weight *w, char *text, size_t size)
{
    const char *glob = first_match(s->keep, s->keeps, w);
    if (glob) {
        snprintf(text, size, "--keep %s", glob);
        return text;
    }
    return s->onlys && !first_match(s->only, s->onlys, w) ? "not in --only" : NULL;
}

const char *kf_select_reason(const kerf_select *s, const kerf_weight *w, char *text, size_t size)
{
    const char *why = kf_select_obstacle(w, text, size);
    if (!why) why = kf_select_empty(w);
    if (!why) why = kf_select_option(s, w, text, size);
    return why || s->all ? why : default_reason(w);
}

static size_t count_matches(const kerf_checkpoint *c, const char *glob)
{
    size_t n = 0;
    for (size_t i = 0; i < kerf_weights_count(c->weights); i++)
        n += kf_glob_takes(glob, kerf_weights_at(c->weights, i)) != 0;
    return n;
}

enum { PATTERN = 256 };
static const char regular[] = "re:"; /* as compressed-tensors marks a regular expression */

/* A regular expression as a shell pattern, as far as it has one: ".*" is a star, "\." a dot. */
static void write_glob(const char *text, char *out)
{
    size_t n = 0;
    if (strncmp(text, regular, 3) == 0) text += 3;
    for (; *text && n + 2 < PATTERN; text++) {
        if (strchr("^$", *text)) continue;
        if (text[0] == '.' && text[1] == '*') continue; /* the star follows */
        if (text[0] == '\\' && text[1]) text++;
        if (*text != '*' || !n || out[n - 1] != '*') out[n++] = *text;
    }
    out[n] = 0;
}

/* The pattern that was probably meant by one that matches nothing: names of modules, pieces of
 * names and regular expressions are what other programs take. How many it matches; 0: none is near.
 */
static size_t find_meant(const kerf_checkpoint *c, const char *glob, char *out)
{
    static const char *const ends[][2] = {{"", ""},          {"", ".weight"}, {"", ".*"},
                                          {"*.", ".weight"}, {"*.", ".*"},    {"*.", "*"}};
    char plain[PATTERN];
    size_t n = 0;
    write_glob(glob, plain);
    for (size_t i = 0; plain[0] && i < sizeof ends / sizeof *ends && !n; i++) {
        snprintf(out, PATTERN + 8, "%s%s%s", ends[i][0], plain, ends[i][1]);
        n = count_matches(c, out);
    }
    return n;
}

/* The embedding of a model without an output head, when the pattern is for that. */
static const kerf_weight *find_tied(const kerf_checkpoint *c, const char *glob)
{
    const kerf_weight *embedding = NULL;
    if (!strstr(glob, "lm_head") && strncmp(glob, "output.", 7) != 0) return NULL;
    for (size_t i = 0; i < kerf_weights_count(c->weights); i++) {
        const kerf_weight *w = kerf_weights_at(c->weights, i);
        if (w->place.role == KERF_ROLE_HEAD) return NULL;
        if (w->place.role == KERF_ROLE_EMBEDDING && w->shape.rank == 2) embedding = w;
    }
    return embedding;
}

/* The stack that a pattern for some of its experts is not for; NULL: it is for none. */
static const kerf_weight *find_stack_of(const kerf_checkpoint *c, const char *glob)
{
    char name[KERF_MAX_NAME_BYTES + 32];
    for (size_t i = 0; i < kerf_weights_count(c->weights); i++) {
        const kerf_weight *w = kerf_weights_at(c->weights, i);
        for (uint64_t e = kf_stacked_singles(w); e-- > 0;)
            if (kerf_glob_matches(glob, kf_stacked_name(w, e, name, sizeof name))) return w;
    }
    return NULL;
}

kerf_status kf_glob_check(const kerf_checkpoint *c, const char *what, const char *glob,
                          kerf_error *err)
{
    char meant[PATTERN + 8];
    if (count_matches(c, glob)) return KERF_OK;
    const kerf_weight *stack = find_stack_of(c, glob);
    if (stack)
        return kf_fail(
            err, KERF_E_ARG, KF_NOWHERE,
            "%.200s is for some experts of a layer, and the output has all of them in one "
            "tensor, %.200s",
            what, stack->name);
    const kerf_weight *embedding = find_tied(c, glob);
    if (embedding)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "%.200s matches no tensor: the output head of this model is its embedding, "
                       "%.200s",
                       what, embedding->name);
    const size_t n = find_meant(c, glob, meant);
    if (n)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "%.200s matches no tensor; '%.200s' matches %zu: a shell pattern is of the "
                       "whole name",
                       what, meant, n);
    return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                   "%.200s matches no tensor; kerf inspect %.200s lists them%s", what, c->path,
                   strncmp(glob, regular, 3) == 0 || glob[strcspn(glob, "({|,")]
                       ? ", and patterns are those of a shell, one for each option: [qkv]_proj, "
                         "not (q|k|v)_proj"
                       : "");
}

static kerf_status check_all(const kerf_checkpoint *c, const char *option, const char *const *glob,
                             size_t count, kerf_error *err)
{
    for (size_t i = 0; i < count; i++) {
        char what[256];
        snprintf(what, sizeof what, "%s %.200s", option, glob[i]);
        KF_TRY(kf_glob_check(c, what, glob[i], err));
    }
    return KERF_OK;
}

kerf_status kf_select_check(const kerf_checkpoint *c, const kerf_select *s, kerf_error *err)
{
    KF_TRY(check_all(c, "--keep", s->keep, s->keeps, err));
    return check_all(c, "--only", s->only, s->onlys, err);
}

kerf_status kerf_select_weights(const kerf_checkpoint *c, const kerf_select *s, kerf_selected *out,
                                kerf_error *err)
{
    static const kerf_select usual = {0};
    const size_t count = kerf_weights_count(c->weights);
    char text[96];
    *out = (kerf_selected){0};
    KF_TRY(kf_refuse_source(c, err));
    KF_TRY(kf_select_check(c, s ? s : &usual, err));
    KF_TRY(kf_allocate(&out->weight, count, sizeof *out->weight, err));
    for (size_t i = 0; i < count; i++) {
        const kerf_weight *w = kerf_weights_at(c->weights, i);
        if (kf_select_reason(s ? s : &usual, w, text, sizeof text))
            out->kept_bytes += kerf_weight_bytes(w);
        else
            out->weight[out->count++] = w;
    }
    return KERF_OK;
}

void kerf_selected_free(kerf_selected *s)
{
    free(s->weight);
    *s = (kerf_selected){0};
}
