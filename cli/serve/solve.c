/* solve.c - another budget for a recommendation that has been made: its candidates are in its
 * document, so nothing is measured again, and the choice is exact in milliseconds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <kerf/choose.h>
#include <kerf/layouts.h>

#include "progress.h"
#include "serve/jobs.h"
#include "serve/json_built.h"
#include "serve/json_taken.h"

typedef struct solving {
    json_t *advice; /* the document                       */
    json_t *groups; /* of it                              */
    kerf_option *option;
    size_t *first, *pick;
    double weights; /* of all groups                      */
    kerf_choice choice;
    double seconds;
} solving;

static json_t *candidates_of(const solving *s, size_t group)
{
    return json_object_get(json_array_get(s->groups, group), "candidates");
}

static double number_at(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

static kerf_status build(solving *s, kerf_error *err)
{
    const size_t groups = json_array_size(s->groups);
    size_t options = 0, n = 0;
    for (size_t g = 0; g < groups; g++) options += json_array_size(candidates_of(s, g));
    TRY(allocate(&s->option, options, sizeof *s->option, err));
    TRY(allocate(&s->first, groups + 1, sizeof *s->first, err));
    TRY(allocate(&s->pick, groups, sizeof *s->pick, err));
    for (size_t g = 0; g < groups; g++) {
        const json_t *all = candidates_of(s, g), *row = json_array_get(all, 0);
        if (number_at(row, "bits") > 0)
            s->weights += 8 * number_at(row, "bytes") / number_at(row, "bits");
        for (size_t i = 0; i < json_array_size(all); i++) {
            row = json_array_get(all, i);
            s->option[n++] = (kerf_option){{[KERF_PRICE_LOSS] = number_at(row, "t2"),
                                            [KERF_PRICE_BYTES] = number_at(row, "bytes"),
                                            [KERF_PRICE_TIME] = number_at(row, "us")}};
        }
        s->first[g + 1] = n;
    }
    return KERF_OK;
}

/* A layout that names one format for a checkpoint has no other choices. */
static kerf_status check_layout(const solving *s, kerf_error *err)
{
    const char *name = json_string_value(json_object_get(s->advice, "layout"));
    const kerf_layout *l = NULL;
    if (!name) return KERF_OK;
    TRY(kerf_layout_get(name, &l, err));
    if (kerf_layout_mixes(l)) return KERF_OK;
    return kerf_fail(err, KERF_E_NOSUP, "layout %s has one format for all layers: ask anew", name);
}

static kerf_status solve(solving *s, double bits, kerf_error *err)
{
    const double began = now_s();
    const kerf_problem p = {.option = s->option,
                            .first = s->first,
                            .groups = json_array_size(s->groups),
                            .minimise = KERF_PRICE_LOSS,
                            .limit = {INFINITY, kerf_bits_most(bits) * s->weights / 8, INFINITY}};
    s->choice.pick = s->pick;
    const kerf_status status = kerf_choose(&p, &s->choice, err);
    s->seconds = now_s() - began;
    if (status != KERF_E_LIMIT) return status;
    return kerf_fail(err, status, "no choice stays under %.4g bits; it would take %.4f", bits,
                     s->choice.nearest[KERF_PRICE_BYTES] * 8 / s->weights);
}

/* Takes the document. */
static kerf_status open_solving(solving *s, json_t *advice, kerf_error *err)
{
    *s = (solving){.advice = advice, .groups = json_object_get(advice, "groups")};
    if (json_array_size(s->groups) == 0 || !candidates_of(s, 0))
        return kerf_fail(err, KERF_E_DATA, "this is no recommendation for a model that is done");
    TRY(check_layout(s, err));
    return build(s, err);
}

static void close_solving(solving *s)
{
    json_decref(s->advice);
    free(s->option);
    free(s->first);
    free(s->pick);
}

static json_t *totals_json(const solving *s, const char *key, double bits)
{
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", key, bits, "bits",
                     s->choice.total[KERF_PRICE_BYTES] * 8 / s->weights, "bytes",
                     s->choice.total[KERF_PRICE_BYTES], "t2", s->choice.total[KERF_PRICE_LOSS],
                     "us", s->choice.total[KERF_PRICE_TIME], "gap", s->choice.gap, "seconds",
                     s->seconds);
}

static json_t *solved_json(const solving *s, double bits)
{
    json_t *picks = json_array();
    for (size_t g = 0; g < json_array_size(s->groups); g++) {
        /* an index into all options, or into those of the group */
        const size_t i = s->pick[g] - s->first[g];
        const json_t *row = json_array_get(candidates_of(s, g), i);
        json_add(&picks, json_pack("{s:O, s:O, s:O, s:O}", "group",
                                   json_object_get(json_array_get(s->groups, g), "name"), "codec",
                                   json_object_get(row, "codec"), "bits",
                                   json_object_get(row, "bits"), "t2", json_object_get(row, "t2")));
    }
    json_t *doc = totals_json(s, "budget_bits", bits);
    json_set(&doc, "schema", json_string("kerf.solve/1"));
    json_set(&doc, "picks", picks);
    return doc;
}

int answer_solve(request *r)
{
    const double bits = json_number_value(json_object_get(r->json, "bits"));
    const int id = r->id ? atoi(r->id) : 0;
    size_t n = 0;
    const char *name;
    job_state state = JOB_QUEUED;
    kerf_error err = {0};
    solving s;
    char *text = job_result(id, &n, &state, &name);
    if (!name) return reply_error(r, 404, "there is no job %.20s; /api/v1/jobs lists them", r->id);
    json_error_t why = {.text = "it has no result"};
    json_t *advice = text ? json_taken(text, n, &why) : NULL;
    free(text);
    if (!advice && !why.text[0]) return reply_json(r, 503, NULL);
    kerf_status status = open_solving(&s, advice, &err);
    if (status == KERF_OK) status = solve(&s, bits, &err);
    json_t *doc = status == KERF_OK ? solved_json(&s, bits) : NULL;
    close_solving(&s);
    if (status == KERF_E_DATA) return reply_error(r, 409, "job %d: %s", id, err.text);
    return status == KERF_OK ? reply_json(r, 200, doc) : reply_failure(r, status, &err);
}

/* --- every budget -------------------------------------------------------------------------- */

static json_t *picks_json(const solving *s)
{
    json_t *picks = json_array();
    for (size_t g = 0; g < json_array_size(s->groups); g++)
        json_add(&picks, json_integer((json_int_t)(s->pick[g] - s->first[g])));
    return picks;
}

kerf_status advice_solutions(json_t *advice, json_t **all, kerf_error *err)
{
    enum { LEAST = 50, MOST = 6400 }; /* hundredths of a bit */
    solving s;
    json_t *last = NULL, *picks;
    kerf_status status = open_solving(&s, json_incref(advice), err);
    if (status == KERF_OK) status = solve(&s, MOST / 100.0, err);
    const double most = s.choice.total[KERF_PRICE_BYTES];
    s.choice.total[KERF_PRICE_BYTES] = 0;
    *all = json_array();
    for (int i = LEAST; status == KERF_OK && s.choice.total[KERF_PRICE_BYTES] < most; i++) {
        status = solve(&s, i / 100.0, err);
        if (status == KERF_E_LIMIT) { /* not under this one; there is a choice above it */
            status = KERF_OK;
            s.choice.total[KERF_PRICE_BYTES] = 0;
            continue;
        }
        picks = status == KERF_OK ? picks_json(&s) : NULL;
        if (picks && !json_equal(picks, last)) {
            last = picks;
            json_t *row = totals_json(&s, "from", i / 100.0);
            json_set(&row, "picks", picks);
            json_add(all, row);
        } else {
            json_decref(picks);
        }
    }
    close_solving(&s);
    if (status == KERF_OK) return status;
    json_decref(*all);
    *all = NULL;
    return status;
}
