/* rules.c - patterns and the weights that they are for. */
#include "model/rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

const char *kf_rule_origin(const kerf_rule *r)
{
    return r->origin ? r->origin : r->glob;
}

int kf_is_of_recipe(const char *origin)
{
    return strncmp(origin, "--recipe ", 9) == 0;
}

/* A rule whose pattern may match more than was thought of. */
static int is_wide(const kerf_rule *r)
{
    return r->codec.format && r->glob[strcspn(r->glob, "*?[")] &&
           !kf_is_of_recipe(kf_rule_origin(r));
}

/* The last rule before another that matches w. */
static size_t last_match(const kf_rules *r, const kerf_weight *w, size_t before)
{
    size_t i = before;
    while ((i = kf_globs_last_of(&r->globs, w->name, w->whole, i)) != KF_NO_GLOB)
        if (!w->whole || kf_globs_last(&r->globs, w->name, i + 1) == i ||
            kf_glob_takes_old_name(r->rule[i].glob, w))
            break;
    return i;
}

kerf_status kf_rules_open(kf_rules *r, const kerf_checkpoint *c, const kerf_select *select,
                          const kerf_rule *rule, size_t count, kerf_error *err)
{
    size_t wide = 0;
    *r = (kf_rules){.rule = rule, .count = count};
    KF_TRY(kf_globs_open(&r->globs, rule, count, sizeof *rule, err));
    KF_TRY(kf_allocate(&r->least, count, sizeof *r->least, err));
    for (size_t i = 0; i < count; i++) wide += is_wide(&rule[i]) != 0;
    for (size_t k = 0; wide && !select->all && k < kerf_weights_count(c->weights); k++) {
        const kerf_weight *w = kerf_weights_at(c->weights, k);
        const kf_rank rank = kf_select_rank(w);
        for (size_t i = count; (i = last_match(r, w, i)) != KF_NO_GLOB;)
            if (is_wide(&rule[i]) && r->least[i] < rank) r->least[i] = rank;
    }
    return KERF_OK;
}

void kf_rules_close(kf_rules *r)
{
    kf_globs_close(&r->globs);
    free(r->least);
    *r = (kf_rules){0};
}

size_t kf_rules_find(const kf_rules *r, const kerf_weight *w, size_t *spared)
{
    size_t i = r->count;
    if (spared) *spared = KF_NO_GLOB;
    while ((i = last_match(r, w, i)) != KF_NO_GLOB) {
        if (r->least[i] == 0 || kf_select_rank(w) >= r->least[i]) return i;
        if (spared) *spared = i;
    }
    return KF_NO_GLOB;
}

/* Whether b takes from a what a was meant for: in one list, with something else. An option is there
 * to change a recipe. */
static int is_lost_to(const kerf_rule *a, const kerf_rule *b)
{
    const char *x = kf_rule_origin(a), *y = kf_rule_origin(b);
    const size_t n = strcspn(x, " ");
    return strncmp(x, y, n) == 0 && y[n] == x[n] &&
           (a->codec.format != b->codec.format || a->codec.encoder != b->codec.encoder);
}

kerf_status kf_rules_check(const kf_rules *r, const kerf_checkpoint *c, size_t *idle,
                           const char **first, kerf_error *err)
{
    enum { MATCHES = 1, COUNTS = 2 };
    char *known = NULL;
    kerf_status s = KERF_OK;
    KF_TRY(kf_allocate(&known, r->count, 1, err));
    for (size_t k = 0; k < kerf_weights_count(c->weights); k++) {
        const kerf_weight *w = kerf_weights_at(c->weights, k);
        const size_t last = kf_rules_find(r, w, NULL);
        for (size_t i = r->count; (i = last_match(r, w, i)) != KF_NO_GLOB;) {
            const int is_lost =
                i != last && (last == KF_NO_GLOB || is_lost_to(&r->rule[i], &r->rule[last]));
            known[i] |= is_lost ? MATCHES : MATCHES | COUNTS;
        }
    }
    for (size_t i = 0; i < r->count && s == KERF_OK; i++) {
        if (!known[i]) s = kf_glob_check(c, kf_rule_origin(&r->rule[i]), r->rule[i].glob, err);
        if (known[i] & COUNTS) continue;
        if ((*idle)++ == 0) *first = kf_rule_origin(&r->rule[i]);
    }
    free(known);
    return s;
}
