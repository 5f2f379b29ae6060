/* collect.c - sums over the inputs of a layer, panel after panel in the order of the tokens.
 * Weights that share an input are told one after the other; the first of them stands for all. */
#include "calibrate/collect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/work.h"
#include "calibrate/gram.h"

/* What one slot has seen. */
typedef struct tally {
    double *square; /* [experts][columns]                      */
    double *tokens; /* [experts]                               */
    float *gram;    /* [columns][columns]; NULL: none          */
    double grams;   /* tokens in it                            */
    float largest;
} tally;

struct kf_collector {
    const kf_book *book;
    uint64_t layer;
    size_t first, count; /* slots */
    int threads;
    uint64_t key_columns, value_columns; /* of the cache */
    tally *tally;                        /* [count]      */
    float cache_amax[2];                 /* of keys, of values */
    double seconds;
};

kerf_status kf_collector_open(const kf_book *b, const kerf_decoder_info *model, uint64_t layer,
                              int threads, kf_collector **out, kerf_error *err)
{
    kf_collector *c = NULL;
    KF_TRY(kf_allocate(&c, 1, sizeof *c, err));
    *out = c;
    c->book = b;
    c->layer = layer;
    c->threads = threads;
    c->key_columns = model->key_columns;
    c->value_columns = model->value_columns;
    c->first = b->leaf[layer].slot;
    c->count = b->leaf[layer + 1].slot - c->first;
    KF_TRY(kf_allocate(&c->tally, c->count, sizeof *c->tally, err));
    for (size_t i = 0; i < c->count; i++) {
        const kf_slot *s = &b->slot[c->first + i];
        tally *t = &c->tally[i];
        if (s->input == c->first + i) {
            KF_TRY(kf_allocate(&t->square, s->experts * s->columns, sizeof *t->square, err));
            KF_TRY(kf_allocate(&t->tokens, s->experts, sizeof *t->tokens, err));
        }
        if (s->entry[KF_PART_GRAM] != SIZE_MAX)
            KF_TRY(kf_allocate(&t->gram, s->columns * s->columns, sizeof *t->gram, err));
    }
    return KERF_OK;
}

void kf_collector_close(kf_collector *c)
{
    if (!c) return;
    for (size_t i = 0; c->tally && i < c->count; i++) {
        free(c->tally[i].square);
        free(c->tally[i].tokens);
        free(c->tally[i].gram);
    }
    free(c->tally);
    free(c);
}

double kf_collector_seconds(const kf_collector *c)
{
    return c->seconds;
}

uint64_t kf_collector_bytes(const kf_book *b)
{
    uint64_t most = 0;
    for (uint64_t layer = 0; layer < b->layers; layer++) {
        uint64_t n = 0;
        for (size_t i = b->leaf[layer].slot; i < b->leaf[layer + 1].slot; i++) {
            const kf_slot *s = &b->slot[i];
            if (s->input == i) n += s->experts * s->columns * sizeof(double);
            if (s->entry[KF_PART_GRAM] != SIZE_MAX) n += s->columns * s->columns * sizeof(float);
        }
        most = n > most ? n : most;
    }
    return most;
}

/* --- sums ---------------------------------------------------------------------------------- */

/* Some columns of a panel, all tokens of which one thread adds up. */
enum { STRIPE = 256 };

typedef struct stripes {
    const float *x;
    uint64_t tokens, columns;
    double *square;
    float *largest; /* [stripes] */
} stripes;

static kerf_status add_stripe(void *ctx, uint64_t i)
{
    const stripes *s = ctx;
    const uint64_t at = i * STRIPE;
    const size_t n = (size_t)kf_min_u64(STRIPE, s->columns - at);
    float most[STRIPE] = {0}, largest = 0;
    double *square = s->square + at;
    for (uint64_t t = 0; t < s->tokens; t++) {
        const float *x = s->x + t * s->columns + at;
        for (size_t k = 0; k < n; k++) square[k] += (double)x[k] * (double)x[k];
        for (size_t k = 0; k < n; k++) {
            const float a = fabsf(x[k]);
            most[k] = a > most[k] ? a : most[k];
        }
    }
    for (size_t k = 0; k < n; k++) largest = most[k] > largest ? most[k] : largest;
    s->largest[i] = largest;
    return KERF_OK;
}

static kerf_status add_squares(const kf_collector *c, tally *t, uint64_t expert, const float *x,
                               uint64_t tokens, uint64_t columns, kerf_error *err)
{
    const uint64_t n = kf_div_up(columns, STRIPE);
    stripes s = {x, tokens, columns, t->square + expert * columns, NULL};
    KF_TRY(kf_allocate(&s.largest, n, sizeof *s.largest, err));
    const kerf_status status = kf_parallel(n, c->threads, add_stripe, &s);
    for (uint64_t i = 0; i < n; i++)
        if (s.largest[i] > t->largest) t->largest = s.largest[i];
    free(s.largest);
    t->tokens[expert] += (double)tokens;
    return status;
}

/* The slot whose sums the inputs of w are added to, and the expert; NULL: nothing is kept of them.
 */
static const kf_slot *slot_of(const kf_collector *c, const kerf_layer_weight *w, uint64_t *expert)
{
    const kf_slot *s = kf_book_find(c->book, c->layer, w->name);
    if (!s || s->columns != w->cols) return NULL; /* a router, say */
    *expert = w->expert > 0 ? (uint64_t)w->expert : 0;
    return s->input == (size_t)(s - c->book->slot) && *expert < s->experts ? s : NULL;
}

static kerf_status take_input(void *ctx, const kerf_layer_weight *w, const float *x,
                              uint64_t tokens, kerf_error *err)
{
    kf_collector *c = ctx;
    uint64_t expert;
    const kf_slot *s = slot_of(c, w, &expert);
    const double start = kf_now_s();
    if (!s) return KERF_OK;
    tally *gram = &c->tally[s->gram - c->first];
    KF_TRY(add_squares(c, &c->tally[s->input - c->first], expert, x, tokens, w->cols, err));
    if (gram->gram) {
        KF_TRY(kf_gram_add(gram->gram, x, tokens, w->cols, c->threads, err));
        gram->grams += (double)tokens;
    }
    c->seconds += kf_now_s() - start;
    return KERF_OK;
}

/* The same where a GPU adds: it is told where to. */
static kerf_status give_sums(void *ctx, const kerf_layer_weight *w, uint64_t tokens, kerf_sums *to,
                             kerf_error *err)
{
    kf_collector *c = ctx;
    uint64_t expert;
    const kf_slot *s = slot_of(c, w, &expert);
    (void)err;
    if (!s) return KERF_OK;
    tally *t = &c->tally[s->input - c->first], *gram = &c->tally[s->gram - c->first];
    *to = (kerf_sums){t->square + expert * s->columns, &t->largest, gram->gram};
    t->tokens[expert] += (double)tokens;
    if (gram->gram) gram->grams += (double)tokens;
    return KERF_OK;
}

static float largest_of(const float *x, uint64_t n, float most)
{
    for (uint64_t i = 0; i < n; i++) {
        const float a = fabsf(x[i]);
        most = a > most ? a : most;
    }
    return most;
}

static kerf_status take_cache(void *ctx, uint64_t layer, float *k, float *v, uint64_t tokens,
                              kerf_error *err)
{
    kf_collector *c = ctx;
    (void)layer, (void)err;
    c->cache_amax[0] = largest_of(k, tokens * c->key_columns, c->cache_amax[0]);
    c->cache_amax[1] = largest_of(v, tokens * c->value_columns, c->cache_amax[1]);
    return KERF_OK;
}

kerf_watch kf_collector_watch(kf_collector *c)
{
    return (kerf_watch){.input = take_input,
                        .cache = take_cache,
                        .ctx = c,
                        .sums = give_sums,
                        .cache_largest = c->cache_amax};
}

/* --- from rank to rank --------------------------------------------------------------------- */

typedef struct walk {
    const kerf_ranks *ranks;
    unsigned other;
    int sends;
} walk;

static kerf_status pass(const walk *w, void *p, uint64_t n, kerf_error *err)
{
    const kerf_ranks *r = w->ranks;
    return w->sends ? r->send(r->ctx, w->other, p, (size_t)n, err)
                    : r->receive(r->ctx, w->other, p, (size_t)n, err);
}

static kerf_status pass_tally(const kf_slot *s, tally *t, const walk *w, kerf_error *err)
{
    double figures[] = {t->grams, (double)t->largest};
    KF_TRY(pass(w, figures, sizeof figures, err));
    t->grams = figures[0];
    t->largest = (float)figures[1];
    if (t->square) {
        KF_TRY(pass(w, t->square, s->experts * s->columns * sizeof *t->square, err));
        KF_TRY(pass(w, t->tokens, s->experts * sizeof *t->tokens, err));
    }
    if (!t->gram) return KERF_OK;
    return pass(w, t->gram, s->columns * s->columns * sizeof *t->gram, err);
}

static kerf_status pass_all(const kf_collector *c, float cache_amax[2], const walk *w,
                            kerf_error *err)
{
    KF_TRY(pass(w, cache_amax, 2 * sizeof *cache_amax, err));
    for (size_t i = 0; i < c->count; i++)
        KF_TRY(pass_tally(&c->book->slot[c->first + i], &c->tally[i], w, err));
    return KERF_OK;
}

kerf_status kf_collector_send(const kf_collector *c, const kerf_ranks *r, unsigned to,
                              kerf_error *err)
{
    float cache_amax[] = {c->cache_amax[0], c->cache_amax[1]};
    const walk w = {r, to, 1};
    return pass_all(c, cache_amax, &w, err);
}

kerf_status kf_collector_receive(kf_collector *c, const kerf_ranks *r, unsigned from,
                                 kerf_error *err)
{
    const walk w = {r, from, 0};
    return pass_all(c, c->cache_amax, &w, err);
}

/* --- tensors ------------------------------------------------------------------------------- */

static int all_finite(const float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return 0;
    return 1;
}

static kerf_status write_means(const kf_collector *c, const kf_slot *s, kerf_writer *w,
                               kerf_error *err)
{
    const tally *t = &c->tally[s->input - c->first];
    const uint64_t n = s->experts * s->columns;
    float *mean = NULL;
    KF_TRY(kf_allocate(&mean, n, sizeof *mean, err));
    for (uint64_t i = 0; i < n; i++) { /* ones where no token came: all columns count the same */
        const double tokens = t->tokens[i / s->columns];
        mean[i] = tokens > 0 ? (float)(t->square[i] / tokens) : 1;
    }
    kerf_status status =
        all_finite(mean, n)
            ? KERF_OK
            : kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                      "%.200s: its inputs are NaN or infinite: a weight ahead of it is ruined, or "
                      "its states leave the range of fp32",
                      s->weight->name);
    if (status == KERF_OK)
        status =
            kerf_writer_write(w, s->entry[KF_PART_MEAN], 0, mean, (size_t)n * sizeof *mean, err);
    free(mean);
    return status;
}

static kerf_status write_counts(const kf_collector *c, const kf_slot *s, kerf_writer *w,
                                kerf_error *err)
{
    const tally *t = &c->tally[s->input - c->first];
    for (uint64_t i = 0; i < s->experts; i++) {
        const float count = (float)t->tokens[i];
        KF_TRY(kerf_writer_write(w, s->entry[KF_PART_COUNT], i * sizeof count, &count, sizeof count,
                                 err));
    }
    return KERF_OK;
}

#define STEP (UINT64_C(16) << 20) /* bytes between two questions whether to go on */

static kerf_status write_gram(const kf_slot *s, const tally *t, kerf_writer *w, const kerf_job *job,
                              kerf_error *err)
{
    const uint64_t n = s->columns * s->columns * sizeof *t->gram;
    for (uint64_t at = 0; at < n; at += STEP) {
        KF_TRY(kf_job_check(job, err));
        KF_TRY(kerf_writer_write(w, s->entry[KF_PART_GRAM], at, (const char *)t->gram + at,
                                 (size_t)kf_min_u64(STEP, n - at), err));
    }
    return KERF_OK;
}

static kerf_status write_slot(const kf_collector *c, size_t i, kerf_writer *w, const kerf_job *job,
                              kerf_error *err)
{
    const kf_slot *s = &c->book->slot[c->first + i];
    const tally *t = &c->tally[s->input - c->first];
    tally *own = &c->tally[i];
    double tokens = 0;
    for (uint64_t e = 0; e < s->experts; e++) tokens += t->tokens[e];
    if (tokens == 0 && s->weight->place.role != KERF_ROLE_EXPERT)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "%.200s: the forward pass does not use it",
                       s->weight->name);
    KF_TRY(write_means(c, s, w, err));
    KF_TRY(kerf_writer_write(w, s->entry[KF_PART_AMAX], 0, &t->largest, sizeof t->largest, err));
    if (s->entry[KF_PART_COUNT] != SIZE_MAX) KF_TRY(write_counts(c, s, w, err));
    if (!own->gram) return KERF_OK;
    if (own->grams > 0)
        KF_TRY(kf_gram_finish(own->gram, s->columns, own->grams, c->threads, job, err));
    return write_gram(s, own, w, job, err);
}

kerf_status kf_collector_write(const kf_collector *c, kerf_writer *w, const kerf_job *job,
                               kerf_error *err)
{
    const kf_leaf *leaf = &c->book->leaf[c->layer];
    for (size_t i = 0; i < 2; i++)
        KF_TRY(kerf_writer_write(w, leaf->entry + i, 0, &c->cache_amax[i], sizeof c->cache_amax[i],
                                 err));
    for (size_t i = 0; i < c->count; i++) KF_TRY(write_slot(c, i, w, job, err));
    return kerf_writer_mark(w, leaf->entry, leaf->alpha - leaf->entry, 0, err);
}
