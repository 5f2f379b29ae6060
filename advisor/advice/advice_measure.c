/* advice_measure.c - the end of some choices, measured: the model with its weights encoded and
 * decoded in memory runs over tokens, and its next-token distributions are compared with those of
 * the source. A choice that measures worse than one format for all groups, of its size or smaller,
 * gives way to that format. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kerf/encode_matrix.h>
#include <kerf/eval.h>
#include <kerf/feedback.h>
#include <kerf/importance.h>

#include "advice/advice.h"
#include "base/plain_numbers.h"

enum { POINTS = KERF_ADVICE_MEASURED, KEPT = 32 };

/* Of a weight of the layer that is running. */
typedef struct kept_feedback {
    const char *name;
    kerf_feedback *made; /* NULL: the calibration has no matrix of it */
} kept_feedback;

typedef struct measuring {
    const kf_advising *w;
    size_t *pick; /* [POINTS][groups] */
    uint64_t layer;
    kept_feedback kept[KEPT];
    size_t keeps;
    double changed; /* elements of groups that the first point has changed or left */
} measuring;

/* --- what is measured ----------------------------------------------------------------------- */

static size_t *picks_of(const measuring *m, size_t point)
{
    return m->pick + point * m->w->advice->groups;
}

static void add_point(measuring *m, size_t uniform)
{
    kerf_advice *a = m->w->advice;
    kerf_advice_measured *p = &a->measured[a->measureds];
    const size_t *pick = picks_of(m, a->measureds++);
    *p = (kerf_advice_measured){.uniform = uniform};
    for (size_t g = 0; g < a->groups; g++) {
        p->predicted += a->group[g].cost[pick[g]].t2;
        p->bits += 8 * a->group[g].cost[pick[g]].bytes / a->elements;
    }
}

static int is_uniform(const kerf_advice *a, size_t c)
{
    for (size_t g = 0; g < a->groups; g++)
        if (!a->group[g].cost[c].possible) return 0;
    return kf_advice_offers(a, a->only, c);
}

/* The best single format by prediction that keeps the limits and is no larger than the choice, as
 * bits are printed, but for `not`. */
static size_t best_uniform(const kerf_advice *a, size_t not )
{
    size_t best = a->codecs;
    const double most = kerf_bits_most(round(kerf_advice_total(a).bits * 1e3) * 1e-3);
    for (size_t c = 0; c < a->codecs; c++) {
        const kerf_advice_point p = kerf_advice_uniform(a, c);
        if (c == not || !is_uniform(a, c) || p.bits > most || !kf_advice_holds(a, &p)) continue;
        if (best == a->codecs || kerf_advice_uniform(a, c).t2 < kerf_advice_uniform(a, best).t2)
            best = c;
    }
    return best;
}

static void add_uniform(measuring *m, size_t c)
{
    kerf_advice *a = m->w->advice;
    if (c == a->codecs) return;
    for (size_t g = 0; g < a->groups; g++) picks_of(m, a->measureds)[g] = c;
    add_point(m, c);
}

/* The choice, the two best single formats of its size, and what a quarter of a bit more or less
 * would lead to. */
static kerf_status list_points(measuring *m, kerf_error *err)
{
    kerf_advice *a = m->w->advice;
    const double bits = kerf_advice_total(a).bits;
    for (size_t g = 0; g < a->groups; g++) picks_of(m, 0)[g] = a->group[g].pick;
    add_point(m, SIZE_MAX);
    const size_t first = best_uniform(a, a->codecs);
    add_uniform(m, first);
    if (first < a->codecs) add_uniform(m, best_uniform(a, first));
    for (int i = -1; i <= 1; i += 2) {
        kerf_error why = {0};
        const kerf_status s =
            kf_advice_pick_at(m->w, bits + 0.25 * i, picks_of(m, a->measureds), &why);
        if (s != KERF_OK && s != KERF_E_LIMIT) {
            if (err) *err = why;
            return s;
        }
        if (s == KERF_OK) add_point(m, SIZE_MAX);
    }
    return KERF_OK;
}

/* --- weights of a layer --------------------------------------------------------------------- */

static const kerf_advice_tensor *tensor_of(const kerf_advice *a, const char *name)
{
    for (size_t t = 0; t < a->tensors; t++)
        if (strcmp(a->tensor[t].weight->name, name) == 0) return &a->tensor[t];
    return NULL;
}

static void forget(measuring *m)
{
    for (size_t i = 0; i < m->keeps; i++) kerf_feedback_free(m->kept[i].made);
    m->keeps = 0;
}

static kerf_status find_feedback(measuring *m, const kerf_weight *w, const kerf_feedback **out,
                                 kerf_error *err)
{
    const kerf_advise_request *r = m->w->request;
    kerf_gram gram;
    *out = NULL;
    if (!r->feedback) return KERF_OK;
    for (size_t i = 0; i < m->keeps; i++)
        if (strcmp(m->kept[i].name, w->name) == 0) {
            *out = m->kept[i].made;
            return KERF_OK;
        }
    if (m->keeps == KEPT) forget(m);
    kept_feedback *k = &m->kept[m->keeps];
    *k = (kept_feedback){w->name, NULL};
    KF_TRY(kerf_calibration_gram(r->calibration, w, &gram, err));
    kerf_status s = KERF_OK;
    if (gram.value)
        s = kerf_feedback_make(gram.value, gram.columns, KERF_FEEDBACK_DAMPING,
                               m->w->exec ? m->w->exec->threads : 0, m->w->job, &k->made, err);
    if (s == KERF_OK && gram.value && r->feedback > 1)
        s = kerf_feedback_again(k->made, gram.value, KERF_FEEDBACK_DAMPING, err);
    kerf_gram_free(&gram);
    if (s != KERF_OK) return s;
    m->keeps++;
    *out = k->made;
    return KERF_OK;
}

/* Takes the numbers of a matrix through a codec. */
static kerf_status pass_through(const kerf_layer_weight *l, kerf_codec codec, const kerf_exec *exec,
                                const kerf_job *job, kerf_error *err)
{
    const kerf_shape shape = {2, {l->rows, l->cols}};
    const size_t bytes = (size_t)(l->rows * l->cols) * sizeof *l->data;
    kerf_geometry g;
    kerf_span plane[KERF_PLANES] = {{0}};
    kerf_cspan planes[KERF_PLANES];
    kerf_status s = kerf_geometry_init(&g, codec.format, &shape, err);
    for (int p = 0; p < KERF_PLANES && s == KERF_OK; p++) {
        plane[p].n = (size_t)g.plane[p].bytes;
        s = kf_allocate(&plane[p].p, g.plane[p].bytes, 1, err);
        planes[p] = (kerf_cspan){plane[p].p, plane[p].n};
    }
    if (s == KERF_OK)
        s = kerf_encode_matrix(&g, codec.encoder, (kerf_cspan){l->data, bytes}, KERF_F32, plane,
                               exec, job, err);
    if (s == KERF_OK)
        s = kerf_decode(&g, 0, g.bands, planes, (kerf_span){l->data, bytes}, KERF_F32, exec, err);
    for (int p = 0; p < KERF_PLANES; p++) free(plane[p].p);
    return s;
}

static kerf_status change(void *ctx, size_t candidate, uint64_t layer, const kerf_layer_weight *l,
                          kerf_error *err)
{
    measuring *m = ctx;
    const kerf_advice *a = m->w->advice;
    const kerf_advice_tensor *t = tensor_of(a, l->name);
    if (layer != m->layer) forget(m);
    m->layer = layer;
    if (!t) return KERF_OK;
    if (candidate == 0) m->changed += (double)l->rows * (double)l->cols;
    const size_t c = picks_of(m, candidate)[t->group];
    if (c == a->codecs) return KERF_OK;
    kerf_importance h;
    kerf_exec exec = {.threads = m->w->exec ? m->w->exec->threads : 0};
    KF_TRY(kerf_importance_read(kf_advice_imatrix(m->w->request), t->weight, 1, &h, err));
    exec.importance = h.value;
    exec.importances = h.count;
    kerf_status s = find_feedback(m, t->weight, &exec.feedback, err);
    if (s == KERF_OK) s = pass_through(l, a->codec[c], &exec, m->w->job, err);
    kerf_importance_free(&h);
    return s == KERF_OK ? s : kf_fail_at(err, s, l->name);
}

/* --- the end -------------------------------------------------------------------------------- */

/* One format for all groups, where that has measured better than the choice. */
static void give_way(kerf_advice *a)
{
    size_t best = 0;
    char name[64];
    for (size_t i = 1; i < a->measureds; i++)
        if (a->measured[i].uniform != SIZE_MAX && a->measured[i].kl < a->measured[best].kl)
            best = i;
    a->measured_pick = best;
    if (best == 0) return;
    const size_t c = a->measured[best].uniform;
    for (size_t g = 0; g < a->groups; g++) {
        a->group[g].pick = c;
        kf_print(a->group[g].reason, sizeof a->group[g].reason,
                 "%s for all groups measured a KL of %.5f, the choice by prediction %.5f",
                 kerf_advice_codec_name(a, c, name), a->measured[best].kl, a->measured[0].kl);
    }
}

static kerf_status measure(measuring *m, kerf_error *err)
{
    const kerf_advise_request *r = m->w->request;
    kerf_advice *a = m->w->advice;
    const kerf_checkpoint *same[POINTS];
    kerf_evaluation *e = NULL;
    KF_TRY(list_points(m, err));
    for (size_t i = 0; i < a->measureds; i++) same[i] = m->w->source;
    const kerf_eval_request request = {.source = m->w->source,
                                       .candidate = same,
                                       .candidates = a->measureds,
                                       .tokens = r->tokens,
                                       .change = change,
                                       .change_ctx = m};
    const kerf_exec exec = {.threads = m->w->exec ? m->w->exec->threads : 0};
    KF_TRY(kerf_eval(&request, &exec, m->w->job, &e, err));
    a->source_perplexity = e->model[0].perplexity;
    for (size_t i = 0; i < a->measureds; i++) {
        const kerf_eval_model *x = &e->model[i + 1];
        kerf_advice_measured *p = &a->measured[i];
        p->kl = x->figure[KERF_EVAL_KL];
        p->kl_low = x->kl_low;
        p->kl_high = x->kl_high;
        p->perplexity = x->perplexity;
    }
    kerf_evaluation_close(e);
    if (m->changed < a->elements)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "%.200s: the forward pass reads weights under other names than those that a "
                       "format is chosen for; without --text and --tokens nothing is measured",
                       a->source);
    give_way(a);
    return KERF_OK;
}

kerf_status kf_advice_measure(const kf_advising *w, kerf_error *err)
{
    measuring m = {.w = w};
    if (w->request->tokens.rows == 0) return KERF_OK;
    KF_TRY(kf_allocate(&m.pick, POINTS * w->advice->groups, sizeof *m.pick, err));
    const kerf_status s = measure(&m, err);
    forget(&m);
    free(m.pick);
    return s;
}
