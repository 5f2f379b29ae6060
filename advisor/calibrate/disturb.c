/* disturb.c - adds noise to one group of weights at a time and runs the layers from there on. All
 * groups of a layer go together, each with states of its own, so that a later layer is read once
 * for all of them. */
#include "calibrate/disturb.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/pseudo_random.h"

enum { MOST_DRAWS = 64 };

typedef struct disturbing {
    const kf_disturb_job *job;
    kerf_tokens tokens;
    uint64_t width, bytes; /* hidden; of a state of the own rows */
    uint64_t layer;
    float *before; /* the states ahead of the layer */
    float **state; /* [groups of the layer]; NULL: it is done already */
    kerf_next_said *prediction;
    double (*value)[MOST_DRAWS]; /* [groups of the layer][draws] */
} disturbing;

static int by_loss(const disturbing *d)
{
    return d->job->request->alpha == KERF_ALPHA_BY_LOSS;
}

static const kf_leaf *leaf_of(const disturbing *d)
{
    return &d->job->book->leaf[d->layer];
}

static size_t groups_of(const disturbing *d)
{
    return leaf_of(d)[1].group - leaf_of(d)[0].group;
}

/* Of a pass of the own rows through the head. */
static uint64_t head_work(const disturbing *d)
{
    const uint64_t rows = d->tokens.rows, own = d->job->own.rows;
    return own == rows ? d->job->head_work : d->job->head_work / rows * own;
}

/* --- noise --------------------------------------------------------------------------------- */

static double sum_squares(const float *x, uint64_t n)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sum;
}

/* Adds noise of exactly this t2 to a weight: a number per element, from a counter. */
static void disturb_weight(const kerf_layer_weight *w, uint64_t seed, double t2)
{
    const uint64_t n = w->rows * w->cols;
    double noise = 0;
    for (uint64_t i = 0; i < n; i++) {
        const double z = (double)kf_bell(kf_mix(seed + i * KF_RANDOM_STEP));
        noise += z * z;
    }
    const double signal = sum_squares(w->data, n);
    const float scale = noise > 0 ? (float)sqrt(t2 * signal / noise) : 0;
    for (uint64_t i = 0; i < n; i++)
        w->data[i] += scale * kf_bell(kf_mix(seed + i * KF_RANDOM_STEP));
}

/* Whether a matrix of the layer belongs to group g. */
static int is_member(const disturbing *d, const kerf_layer_weight *w, size_t g)
{
    const kf_slot *s = kf_book_find(d->job->book, d->layer, w->name);
    return s && s->group == g;
}

/* Copies the numbers of a group out of the layer, or back. */
static void copy_group(const disturbing *d, kerf_layer *l, size_t g, float *kept, int back)
{
    const kerf_layer_weight *w;
    for (size_t i = 0; (w = kerf_layer_weight_at(l, i)) != NULL; i++) {
        const uint64_t n = w->rows * w->cols;
        if (!is_member(d, w, g)) continue;
        if (back)
            memcpy(w->data, kept, n * sizeof *kept);
        else
            memcpy(kept, w->data, n * sizeof *kept);
        kept += n;
    }
}

static void disturb_group(const disturbing *d, kerf_layer *l, size_t g, unsigned draw)
{
    const kerf_layer_weight *w;
    for (size_t i = 0; (w = kerf_layer_weight_at(l, i)) != NULL; i++) {
        const uint64_t seed = kf_mix(kf_mix(kf_mix(g + 1) + draw) + i);
        if (is_member(d, w, g)) disturb_weight(w, seed, d->job->request->noise);
    }
}

/* --- states -------------------------------------------------------------------------------- */

/* Rows [*first, *first + the result) of a draw: all of them by loss, else its part. */
static uint64_t rows_of(const disturbing *d, unsigned draw, uint64_t *first)
{
    const uint64_t rows = d->tokens.rows, draws = d->job->request->draws;
    *first = by_loss(d) ? 0 : rows * draw / draws;
    return by_loss(d) ? rows : rows * (draw + 1) / draws - *first;
}

static int has_own(const disturbing *d, uint64_t first, uint64_t rows)
{
    return first < d->job->first_row + d->job->own.rows && d->job->first_row < first + rows;
}

/* Those of rows [first, first + rows) that are own ones. */
static kerf_status run_rows(const disturbing *d, const kerf_layer *l, float *state, uint64_t first,
                            uint64_t rows, kerf_error *err)
{
    const kerf_tokens *own = &d->job->own;
    const uint64_t own_first = d->job->first_row, from = first > own_first ? first : own_first,
                   to = kf_min_u64(first + rows, own_first + own->rows);
    if (!has_own(d, first, rows)) return KERF_OK;
    const uint64_t at = (from - own_first) * own->length;
    const kerf_tokens part = {own->token + at, to - from, own->length};
    KF_TRY(kerf_layer_run(l, &part, state + at * d->width, NULL, d->job->work->job, err));
    return kf_work_add(d->job->work, part.rows * part.length * d->width * sizeof *state, err);
}

/* The disturbed layer, for draws [from, to). */
static kerf_status begin_group(const disturbing *d, kerf_layer *l, size_t i, unsigned from,
                               unsigned to, float *kept, kerf_error *err)
{
    const size_t g = leaf_of(d)->group + i;
    memcpy(d->state[i], d->before, d->bytes);
    copy_group(d, l, g, kept, 0);
    for (unsigned draw = from; draw < to; draw++) {
        uint64_t first, rows = rows_of(d, draw, &first);
        if (!has_own(d, first, rows)) continue; /* its noise is for others */
        disturb_group(d, l, g, draw);
        const kerf_status s = run_rows(d, l, d->state[i], first, rows, err);
        copy_group(d, l, g, kept, 1);
        KF_TRY(s);
    }
    return KERF_OK;
}

/* Each later layer, undisturbed, for all groups. */
static kerf_status follow(const disturbing *d, kerf_error *err)
{
    for (uint64_t layer = d->layer + 1; layer < d->job->book->layers; layer++) {
        kerf_layer *l = NULL;
        kerf_status s = kerf_decoder_layer_load(d->job->model, layer, &l, err);
        for (size_t i = 0; s == KERF_OK && i < groups_of(d); i++)
            if (d->state[i]) s = run_rows(d, l, d->state[i], 0, d->tokens.rows, err);
        kerf_layer_free(l);
        KF_TRY(s);
    }
    return KERF_OK;
}

static kerf_status judge(disturbing *d, size_t i, unsigned from, unsigned to, kerf_error *err)
{
    const kerf_said plain = {d->job->model, d->job->last}, other = {d->job->model, d->state[i]};
    const uint64_t all = d->tokens.rows * (d->tokens.length - 1),
                   first_own = d->job->first_row * (d->tokens.length - 1);
    const kerf_ranks *r = d->job->request->ranks;
    if (r) memset(d->prediction, 0, all * sizeof *d->prediction);
    KF_TRY(kerf_next_tokens(&plain, &other, &d->job->own, d->prediction + first_own,
                            d->job->work->job, err));
    if (r) KF_TRY(r->combine(r->ctx, d->prediction, all * sizeof *d->prediction, err));
    for (unsigned draw = from; draw < to; draw++) {
        uint64_t first, rows = rows_of(d, draw, &first);
        const uint64_t per_row = d->tokens.length - 1;
        const kerf_next_said *p = d->prediction + first * per_row;
        double sum = 0;
        for (uint64_t k = 0; k < rows * per_row; k++)
            sum += by_loss(d) ? (double)p[k].other - (double)p[k].loss : (double)p[k].kl;
        d->value[i][draw] = sum / (double)(rows * per_row) / d->job->request->noise;
    }
    return kf_work_add(d->job->work, head_work(d), err);
}

/* --- one layer ----------------------------------------------------------------------------- */

static size_t members_of(const kf_book *b, uint64_t layer, size_t g)
{
    size_t n = 0;
    for (size_t i = b->leaf[layer].slot; i < b->leaf[layer + 1].slot; i++)
        n += b->slot[i].group == g;
    return n;
}

/* Entries of the alphas of the i-th group of a layer. */
static size_t entries_of(const kf_book *b, uint64_t layer, size_t i, size_t *first)
{
    const kf_leaf *leaf = &b->leaf[layer];
    *first = leaf->alpha;
    for (size_t k = 0; k < i; k++) *first += members_of(b, layer, leaf->group + k);
    return members_of(b, layer, leaf->group + i);
}

void kf_disturb_done(const kf_book *b, const kerf_writer *w, unsigned char *done)
{
    uint64_t note;
    for (uint64_t layer = 0; layer < b->layers; layer++)
        for (size_t g = b->leaf[layer].group; g < b->leaf[layer + 1].group; g++) {
            size_t first, count = entries_of(b, layer, g - b->leaf[layer].group, &first);
            done[g] = (unsigned char)kerf_writer_marked(w, first, count, &note);
        }
}

static kerf_status write_group(const disturbing *d, size_t i, kerf_error *err)
{
    const unsigned draws = d->job->request->draws;
    size_t first, count = entries_of(d->job->book, d->layer, i, &first);
    double mean = 0, spread = 0;
    if (!d->job->writer) return KERF_OK;
    for (unsigned k = 0; k < draws; k++) mean += d->value[i][k] / draws;
    for (unsigned k = 0; k < draws; k++)
        spread += (d->value[i][k] - mean) * (d->value[i][k] - mean);
    const double error = sqrt(spread / (draws - 1) / draws);
    const float out[2] = {(float)(mean / (double)count), (float)(error / (double)count)};
    if (!isfinite(out[0]) || !isfinite(out[1]))
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "layer %llu: what noise in it costs is no number: what the model predicts "
                       "is NaN or infinite",
                       (unsigned long long)d->layer);
    for (size_t k = 0; k < count; k++)
        KF_TRY(kerf_writer_write(d->job->writer, first + k, 0, out, sizeof out, err));
    return kerf_writer_mark(d->job->writer, first, count, 0, err);
}

static kerf_status run_draws(disturbing *d, kerf_layer *l, unsigned from, unsigned to, float *kept,
                             kerf_error *err)
{
    for (size_t i = 0; i < groups_of(d); i++)
        if (d->state[i]) KF_TRY(begin_group(d, l, i, from, to, kept, err));
    KF_TRY(follow(d, err));
    for (size_t i = 0; i < groups_of(d); i++)
        if (d->state[i]) KF_TRY(judge(d, i, from, to, err));
    return KERF_OK;
}

/* Memory for the groups that are not done; *open: how many. */
static kerf_status open_states(disturbing *d, size_t *open, kerf_error *err)
{
    *open = 0;
    KF_TRY(kf_allocate(&d->state, groups_of(d), sizeof *d->state, err));
    KF_TRY(kf_allocate(&d->value, groups_of(d), sizeof *d->value, err));
    for (size_t i = 0; i < groups_of(d); i++) {
        if (d->job->is_done[leaf_of(d)->group + i]) continue;
        KF_TRY(kf_allocate(&d->state[i], d->bytes, 1, err));
        (*open)++;
    }
    return KERF_OK;
}

static void close_states(disturbing *d)
{
    for (size_t i = 0; d->state && i < groups_of(d); i++) free(d->state[i]);
    free(d->state);
    free(d->value);
    d->state = NULL;
    d->value = NULL;
}

static kerf_status run_layer(disturbing *d, kerf_layer *l, kerf_error *err)
{
    const unsigned draws = d->job->request->draws, step = by_loss(d) ? 1 : draws;
    const kerf_layer_weight *w;
    uint64_t numbers = 0;
    float *kept = NULL;
    for (size_t i = 0; (w = kerf_layer_weight_at(l, i)) != NULL; i++) numbers += w->rows * w->cols;
    size_t open;
    kerf_status s = open_states(d, &open, err);
    if (s == KERF_OK) s = kf_allocate(&kept, numbers, sizeof *kept, err);
    for (unsigned from = 0; s == KERF_OK && open && from < draws; from += step)
        s = run_draws(d, l, from, from + step, kept, err);
    for (size_t i = 0; s == KERF_OK && i < groups_of(d); i++)
        if (d->state[i]) s = write_group(d, i, err);
    free(kept);
    close_states(d);
    return s;
}

/* --- all of them --------------------------------------------------------------------------- */

/* States ahead of the first layer with a group that is not done. */
static kerf_status begin(disturbing *d, kerf_error *err)
{
    const kf_disturb_job *j = d->job;
    if (j->before) return KERF_OK;
    KF_TRY(kerf_decoder_embed(j->model, &j->own, d->before, err));
    for (uint64_t i = 0; i < j->first; i++) {
        kerf_layer *l = NULL;
        KF_TRY(kerf_decoder_layer_load(j->model, i, &l, err));
        const kerf_status s = run_rows(d, l, d->before, 0, d->tokens.rows, err);
        kerf_layer_free(l);
        KF_TRY(s);
    }
    return KERF_OK;
}

static kerf_status run_all(disturbing *d, kerf_error *err)
{
    KF_TRY(kf_allocate(&d->prediction, d->tokens.rows * (d->tokens.length - 1),
                       sizeof *d->prediction, err));
    KF_TRY(begin(d, err));
    for (d->layer = d->job->first; d->layer < d->job->end; d->layer++) {
        kerf_layer *l = NULL;
        KF_TRY(kerf_decoder_layer_load(d->job->model, d->layer, &l, err));
        kerf_status s = run_layer(d, l, err);
        if (s == KERF_OK && d->layer + 1 < d->job->end)
            s = run_rows(d, l, d->before, 0, d->tokens.rows, err);
        kerf_layer_free(l);
        KF_TRY(s);
    }
    return KERF_OK;
}

kerf_status kf_disturb(const kf_disturb_job *job, kerf_error *err)
{
    disturbing d = {.job = job, .tokens = job->request->tokens, .before = job->before};
    d.width = kerf_decoder_about(job->model)->hidden;
    d.bytes = job->own.rows * job->own.length * d.width * sizeof(float);
    kerf_status s = job->before ? KERF_OK : kf_allocate(&d.before, d.bytes, 1, err);
    if (s == KERF_OK) s = run_all(&d, err);
    if (!job->before) free(d.before);
    free(d.prediction);
    return s;
}

uint64_t kf_disturb_work(const kf_disturb_job *job)
{
    const kf_book *b = job->book;
    const kerf_tokens *t = &job->request->tokens;
    const uint64_t state =
                       t->rows * t->length * kerf_decoder_about(job->model)->hidden * sizeof(float),
                   passes = job->request->alpha == KERF_ALPHA_BY_LOSS ? job->request->draws : 1;
    if (job->first >= job->end) return 0;
    uint64_t runs = job->end - 1 - (job->before ? job->first : 0), heads = 0;
    for (uint64_t layer = job->first; layer < job->end; layer++)
        for (size_t g = b->leaf[layer].group; g < b->leaf[layer + 1].group; g++) {
            if (job->is_done[g]) continue;
            runs += passes * (b->layers - layer);
            heads += passes;
        }
    return runs * state + heads * job->head_work;
}

uint64_t kf_disturb_bytes(const kf_book *b, uint64_t state_bytes)
{
    size_t most = 0;
    for (uint64_t layer = 0; layer < b->layers; layer++) {
        const size_t groups = b->leaf[layer + 1].group - b->leaf[layer].group;
        most = groups > most ? groups : most;
    }
    return (most + 1) * state_bytes;
}
