/* evaluate.c - kerf_eval: all models go through a layer together, some rows at a time; then their
 * predictions are compared. */
#include <kerf/eval.h>

#include <math.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/pseudo_random.h"
#include "base/work.h"
#include "calibrate/eval_rounding.h"

enum { RESAMPLES = 1000 };

/* One model on its way. */
typedef struct runner {
    kerf_decoder *decoder;
    float *state;         /* of the rows of a part                     */
    double *drift, *size; /* [layers] sums of squares; size: of the source */
    kerf_next_said *said; /* [predictions] against the source          */
    kf_eval_rounding rounding;
} runner;

typedef struct evaluating {
    const kerf_eval_request *request;
    kerf_evaluation *public;
    runner *run; /* [models] */
    uint64_t width, part_rows;
    kf_work work;
} evaluating;

static const kerf_checkpoint *checkpoint_of(const evaluating *e, size_t i)
{
    return i ? e->request->candidate[i - 1] : e->request->source;
}

/* --- opening ------------------------------------------------------------------------------- */

static kerf_status check_model(const evaluating *e, size_t i, kerf_error *err)
{
    const kerf_decoder_info *a = kerf_decoder_about(e->run[0].decoder),
                            *b = kerf_decoder_about(e->run[i].decoder);
    if (a->layers == b->layers && a->hidden == b->hidden && a->vocab == b->vocab) return KERF_OK;
    return kf_fail(
        err, KERF_E_ARG, KF_NOWHERE,
        "%.200s is no copy of %.200s: %llu layers of %llu and %llu tokens, and the source "
        "has %llu, %llu and %llu",
        kerf_checkpoint_path(checkpoint_of(e, i)), kerf_checkpoint_path(checkpoint_of(e, 0)),
        (unsigned long long)b->layers, (unsigned long long)b->hidden, (unsigned long long)b->vocab,
        (unsigned long long)a->layers, (unsigned long long)a->hidden, (unsigned long long)a->vocab);
}

static void describe_model(const kerf_checkpoint *c, kerf_eval_model *m)
{
    const kerf_weights *w = kerf_checkpoint_weights(c);
    double bytes = 0, elements = 0;
    for (size_t i = 0; i < kerf_weights_count(w); i++) {
        bytes += (double)kerf_weight_bytes(kerf_weights_at(w, i));
        elements += (double)kerf_weight_elements(kerf_weights_at(w, i));
    }
    m->path = kerf_checkpoint_path(c);
    m->quantized = kerf_checkpoint_quantized(c);
    m->bits = elements > 0 ? 8 * bytes / elements : 0;
}

static kerf_status open_model(evaluating *e, size_t i, const kerf_exec *exec, kerf_error *err)
{
    kerf_evaluation *p = e->public;
    runner *r = &e->run[i];
    kerf_status s = kerf_decoder_open(checkpoint_of(e, i), exec, &r->decoder, err);
    if (s != KERF_OK) return kf_fail_at(err, s, kerf_checkpoint_path(checkpoint_of(e, i)));
    kerf_decoder_heed(r->decoder, e->work.job);
    describe_model(checkpoint_of(e, i), &p->model[i]);
    p->models = i + 1;
    if (i == 0) {
        p->layers = kerf_decoder_about(r->decoder)->layers;
        e->width = kerf_decoder_about(r->decoder)->hidden;
    }
    KF_TRY(check_model(e, i, err));
    if (!e->request->weights_only)
        KF_TRY(kf_eval_rounding_open(&r->rounding, checkpoint_of(e, i),
                                     kerf_decoder_about(r->decoder), exec, &p->model[i].rounds,
                                     err));
    KF_TRY(kf_allocate(&r->drift, p->layers, sizeof *r->drift, err));
    KF_TRY(kf_allocate(&r->size, p->layers, sizeof *r->size, err));
    return kf_allocate(&r->said, p->predictions, sizeof *r->said, err);
}

/* Rows of which the states of all models fit into the memory that was given. */
static kerf_status open_states(evaluating *e, const kerf_exec *exec, kerf_error *err)
{
    const kerf_tokens *t = &e->request->tokens;
    /* A GPU is done with a layer before the next is read: it is given more at once. */
    const uint64_t usual = UINT64_C(1) << (exec && exec->device ? 32 : 30);
    const uint64_t given = e->request->state_bytes ? e->request->state_bytes : usual;
    uint64_t row;
    if (!kf_mul_ok(t->length, e->width * sizeof(float), &row))
        return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE, "so long a row fits into no memory");
    e->part_rows = given / row / e->public->models;
    if (e->part_rows == 0) e->part_rows = 1;
    if (e->part_rows > t->rows) e->part_rows = t->rows;
    for (size_t i = 0; i < e->public->models; i++)
        KF_TRY(kf_allocate(&e->run[i].state, e->part_rows, row, err));
    return KERF_OK;
}

/* --- a part of the rows --------------------------------------------------------------------- */

/* Adds to the sums of squares of layer i, position by position. */
static void measure_drift(const evaluating *e, runner *r, uint64_t layer, uint64_t positions)
{
    const float *a = e->run[0].state, *b = r->state;
    for (uint64_t at = 0; at < positions; at++) {
        double difference = 0, size = 0;
        for (uint64_t k = 0; k < e->width; k++) {
            const double x = (double)a[at * e->width + k], d = (double)b[at * e->width + k] - x;
            difference += d * d;
            size += x * x;
        }
        r->drift[layer] += difference;
        r->size[layer] += size;
    }
}

static kerf_status load_layer(const evaluating *e, size_t i, uint64_t layer, kerf_layer **out,
                              kerf_error *err)
{
    const kerf_eval_request *r = e->request;
    const kerf_layer_weight *w;
    KF_TRY(kerf_decoder_layer_load(e->run[i].decoder, layer, out, err));
    for (size_t k = 0; i && r->change && (w = kerf_layer_weight_at(*out, k)) != NULL; k++)
        KF_TRY(r->change(r->change_ctx, i - 1, layer, w, err));
    return KERF_OK;
}

static kerf_status run_layer(evaluating *e, uint64_t layer, const kerf_tokens *part,
                             kerf_error *err)
{
    for (size_t i = 0; i < e->public->models; i++) {
        runner *r = &e->run[i];
        kerf_layer *l = NULL;
        kerf_status s = load_layer(e, i, layer, &l, err);
        const kerf_watch watch = kf_eval_rounding_watch(&r->rounding, l);
        if (s == KERF_OK) s = kerf_layer_run(l, part, r->state, &watch, e->work.job, err);
        kerf_layer_free(l);
        KF_TRY(s);
        if (i) measure_drift(e, r, layer, part->rows * part->length);
        KF_TRY(kf_work_add(&e->work, part->rows * part->length * e->width * sizeof(float), err));
    }
    return KERF_OK;
}

/* Nothing can be compared with a source that predicts no numbers, and candidates are not at fault.
 */
static kerf_status check_source(const evaluating *e, const kerf_next_said *said, uint64_t n,
                                kerf_error *err)
{
    for (uint64_t i = 0; i < n; i++)
        if (!isfinite(said[i].loss))
            return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                           "%.200s: what it predicts is NaN or infinite: one of its weights is "
                           "ruined, or its states leave the range of fp32",
                           kerf_checkpoint_path(checkpoint_of(e, 0)));
    return KERF_OK;
}

static kerf_status run_part(evaluating *e, uint64_t first, uint64_t rows, kerf_error *err)
{
    const kerf_tokens *t = &e->request->tokens,
                      part = {t->token + first * t->length, rows, t->length};
    const uint64_t at = first * (t->length - 1);
    const kerf_said source = {e->run[0].decoder, e->run[0].state};
    for (size_t i = 0; i < e->public->models; i++)
        KF_TRY(kerf_decoder_embed(e->run[i].decoder, &part, e->run[i].state, err));
    for (uint64_t layer = 0; layer < e->public->layers; layer++)
        KF_TRY(run_layer(e, layer, &part, err));
    for (size_t i = 1; i < e->public->models; i++) {
        const kerf_said other = {e->run[i].decoder, e->run[i].state};
        KF_TRY(kerf_next_tokens(&source, &other, &part, e->run[i].said + at, e->work.job, err));
    }
    const size_t seen = e->public->models > 1; /* every candidate was told what the source said */
    if (!seen)
        KF_TRY(kerf_next_tokens(&source, NULL, &part, e->run[0].said + at, e->work.job, err));
    return check_source(e, e->run[seen].said + at, rows * (t->length - 1), err);
}

/* --- figures ------------------------------------------------------------------------------- */

static int by_size(const void *x, const void *y)
{
    const double a = *(const double *)x, b = *(const double *)y;
    return (a > b) - (a < b);
}

/* The 95 % interval of the mean over rows, by drawing as many rows again with repetition. One row
 * says nothing of how rows differ. */
static kerf_status resample(const evaluating *e, const kerf_next_said *p, kerf_eval_model *m,
                            kerf_error *err)
{
    const uint64_t rows = e->public->rows, per_row = e->public->length - 1;
    double *row = NULL, mean[RESAMPLES];
    uint64_t counter = 0;
    m->kl_low = m->kl_high = NAN;
    if (rows < 2) return KERF_OK;
    KF_TRY(kf_allocate(&row, rows, sizeof *row, err));
    for (uint64_t i = 0; i < rows; i++)
        for (uint64_t k = 0; k < per_row; k++) row[i] += (double)p[i * per_row + k].kl;
    for (size_t i = 0; i < RESAMPLES; i++) {
        double sum = 0;
        for (uint64_t k = 0; k < rows; k++) sum += row[kf_mix(counter += KF_RANDOM_STEP) % rows];
        mean[i] = sum / (double)(rows * per_row);
    }
    free(row);
    qsort(mean, RESAMPLES, sizeof *mean, by_size);
    m->kl_low = mean[RESAMPLES / 40];
    m->kl_high = mean[RESAMPLES - 1 - RESAMPLES / 40];
    return KERF_OK;
}

static kerf_status find_tail(const evaluating *e, const kerf_next_said *p, kerf_eval_model *m,
                             kerf_error *err)
{
    const uint64_t n = e->public->predictions;
    double *kl = NULL;
    KF_TRY(kf_allocate(&kl, n, sizeof *kl, err));
    for (uint64_t i = 0; i < n; i++) kl[i] = (double)p[i].kl;
    qsort(kl, (size_t)n, sizeof *kl, by_size);
    m->figure[KERF_EVAL_KL_P99] = kl[n - 1 - n / 100]; /* no more than 1 % lie above it */
    m->kl_most = kl[n - 1];
    free(kl);
    return KERF_OK;
}

static kerf_status find_figures(evaluating *e, size_t i, kerf_error *err)
{
    kerf_evaluation *p = e->public;
    kerf_eval_model *m = &p->model[i], *source = &p->model[0];
    const runner *r = &e->run[i];
    const double n = (double)p->predictions;
    double own = 0, other = 0, kl = 0, flips = 0;
    for (uint64_t k = 0; k < p->predictions; k++) {
        own += (double)r->said[k].loss;
        other += (double)r->said[k].other;
        kl += (double)r->said[k].kl;
        flips += !r->said[k].agrees;
    }
    m->loss = (i ? other : own) / n;
    m->perplexity = exp(m->loss);
    if (i == 0) return KERF_OK;
    source->loss = own / n;
    source->perplexity = exp(source->loss);
    m->figure[KERF_EVAL_KL] = kl / n;
    m->figure[KERF_EVAL_FLIPS] = flips / n;
    m->figure[KERF_EVAL_PERPLEXITY_RISE] = exp(m->loss - source->loss) - 1;
    KF_TRY(kf_allocate(&m->drift, p->layers, sizeof *m->drift, err));
    for (uint64_t k = 0; k < p->layers; k++)
        m->drift[k] = r->size[k] > 0 ? sqrt(r->drift[k] / r->size[k]) : 0;
    KF_TRY(resample(e, r->said, m, err));
    KF_TRY(find_tail(e, r->said, m, err));
    for (unsigned f = 0; f < KERF_EVAL_FIGURES; f++)
        if (!(m->figure[f] <= p->limits.most[f])) m->over |= 1u << f;
    p->passed &= m->over == 0;
    return KERF_OK;
}

/* --- all of it ----------------------------------------------------------------------------- */

static kerf_status evaluate(evaluating *e, const kerf_exec *exec, kerf_error *err)
{
    kerf_evaluation *p = e->public;
    const kerf_eval_request *r = e->request;
    uint64_t work = 0;
    if (r->tokens.rows == 0 || r->tokens.length < 2)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "no row of two tokens or more: --length N makes rows of a stream");
    for (size_t f = 0; r->candidates == 0 && r->limits && f < KERF_EVAL_FIGURES; f++)
        if (r->limits->most[f] < INFINITY)
            return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                           "limits are for quantized models, and none is named beside the source");
    p->rows = r->tokens.rows;
    p->length = r->tokens.length;
    p->predictions = p->rows * (p->length - 1);
    for (size_t f = 0; f < KERF_EVAL_FIGURES; f++) p->limits.most[f] = INFINITY;
    if (r->limits) p->limits = *r->limits;
    p->passed = 1;
    KF_TRY(kf_allocate(&p->model, r->candidates + 1, sizeof *p->model, err));
    KF_TRY(kf_allocate(&e->run, r->candidates + 1, sizeof *e->run, err));
    for (size_t i = 0; i <= r->candidates; i++) KF_TRY(open_model(e, i, exec, err));
    KF_TRY(open_states(e, exec, err));
    work = p->rows * p->length * e->width * sizeof(float) * p->layers * p->models;
    kf_work_phase(&e->work, "eval", work);
    for (uint64_t first = 0; first < p->rows; first += e->part_rows)
        KF_TRY(run_part(e, first, kf_min_u64(e->part_rows, p->rows - first), err));
    for (size_t i = 0; i < p->models; i++) {
        KF_TRY(find_figures(e, i, err));
        KF_TRY(kerf_reader_check(kerf_checkpoint_reader(checkpoint_of(e, i)), err));
    }
    return KERF_OK;
}

static void close_runners(evaluating *e)
{
    for (size_t i = 0; e->run && i <= e->request->candidates; i++) {
        kf_eval_rounding_close(&e->run[i].rounding);
        kerf_decoder_close(e->run[i].decoder);
        free(e->run[i].state);
        free(e->run[i].drift);
        free(e->run[i].size);
        free(e->run[i].said);
    }
    free(e->run);
}

kerf_status kerf_eval(const kerf_eval_request *request, const kerf_exec *exec, const kerf_job *job,
                      kerf_evaluation **out, kerf_error *err)
{
    evaluating e = {.request = request};
    const double start = kf_now_s();
    *out = NULL;
    KF_TRY(kf_allocate(&e.public, 1, sizeof *e.public, err));
    kf_work_open(&e.work, job);
    kerf_status s = evaluate(&e, exec, err);
    close_runners(&e);
    kf_work_close(&e.work);
    e.public->seconds = kf_now_s() - start;
    if (s == KERF_OK)
        *out = e.public;
    else
        kerf_evaluation_close(e.public);
    return s;
}

void kerf_evaluation_close(kerf_evaluation *e)
{
    if (!e) return;
    for (size_t i = 0; e->model && i < e->models; i++) free(e->model[i].drift);
    free(e->model);
    free(e);
}
