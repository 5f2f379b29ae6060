/* calibrate.c - kerf_calibrate: the tokens go through the model once, and what each layer's inputs
 * are like is written when it is done; then alpha. */
#include <kerf/calibrate.h>
#include <kerf/cuda.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/work.h"
#include "calibrate/book.h"
#include "calibrate/calibrate_share.h"
#include "calibrate/collect.h"
#include "calibrate/disturb.h"

typedef struct calibrating {
    const kerf_checkpoint *source;
    kerf_calibrate_request request;
    int threads;
    kerf_decoder *model;
    const kerf_decoder_info *info;
    kf_book book;
    kerf_writer *writer;
    kerf_tokens own_rows; /* the rows of this rank, from row `first_row` on  */
    uint64_t first_row;
    unsigned char *own;     /* [layers]: those of this part                         */
    unsigned char *is_done; /* [layers and groups]: by a run that was killed, or by another part */
    uint64_t stop;          /* layers that the undisturbed run goes through         */
    uint64_t first, end;    /* of layers with a group that is not done; equal: none */
    float *before;          /* the states ahead of layer `first`; NULL: not kept    */
    kerf_dbuf there;        /* the states, where they are on a GPU; else empty      */
    float *state;           /* of the own rows                                      */
    uint64_t state_bytes, own_bytes, head_work; /* state_bytes: of all rows */
    kf_work work;
    double first_s, first_sums_s; /* of layer 0, and what its sums took of it; 0: it was there */
} calibrating;

/* --- the request --------------------------------------------------------------------------- */

static kerf_status check_request(kerf_calibrate_request *r, kerf_error *err)
{
    if (r->draws == 0) r->draws = 4;
    if (r->noise == 0) r->noise = 0.02;
    if (r->tokens.rows == 0 || r->tokens.length < 2)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "no row of two tokens or more: --length N makes rows of a stream");
    if (r->draws < 2 || r->draws > 64 || !(r->noise > 0 && r->noise < 1))
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "from 2 to 64 draws of noise below 1");
    if (r->alpha == KERF_ALPHA_BY_KL && r->tokens.rows < r->draws)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "%llu rows cannot be divided among %u draws: --length N makes shorter rows",
                       (unsigned long long)r->tokens.rows, r->draws);
    return KERF_OK;
}

/* --- time and memory ----------------------------------------------------------------------- */

static kf_disturb_job disturb_job(calibrating *c)
{
    return (kf_disturb_job){.model = c->model,
                            .book = &c->book,
                            .request = &c->request,
                            .own = c->own_rows,
                            .first_row = c->first_row,
                            .is_done = c->is_done + c->book.layers,
                            .first = c->first,
                            .end = c->end,
                            .before = c->before,
                            .last = c->state,
                            .work = &c->work,
                            .head_work = c->head_work,
                            .writer = c->writer};
}

/* Head and layers by their multiplications: a layer's are its weights, or those of its experts that
 * a token meets. A comparison takes the logits of two models. */
static uint64_t find_head_work(const calibrating *c)
{
    const kerf_decoder_info *m = c->info;
    const double share = m->experts ? (double)m->experts_used / (double)m->experts : 1,
                 layer = (double)m->layer_bytes / sizeof(float) * share,
                 head = 2 * (double)m->hidden * (double)m->vocab;
    return (uint64_t)(head / layer * (double)c->state_bytes);
}

static uint64_t file_bytes(const calibrating *c)
{
    uint64_t sum = 0, n = 0;
    for (size_t i = 0; i < c->book.entries; i++)
        if (c->own[c->book.entry[i].shard] &&
            kerf_shape_count(&c->book.entry[i].shape, &n, NULL) == KERF_OK)
            sum += n * sizeof(float);
    return sum;
}

/* Of the layers of this part. */
static void count_own(const calibrating *c, kerf_calibrate_plan *p)
{
    for (uint64_t i = 0; i < c->book.layers; i++) {
        if (!c->own[i]) continue;
        p->weights += c->book.leaf[i + 1].slot - c->book.leaf[i].slot;
        p->groups += c->book.leaf[i + 1].group - c->book.leaf[i].group;
    }
    if (c->request.alpha == KERF_ALPHA_BY_NONE) p->groups = 0;
}

/* Behind layer `i`, the first whose sums were made. */
static void tell_plan(calibrating *c, uint64_t i)
{
    const kf_disturb_job later = disturb_job(c);
    const int alpha = c->request.alpha != KERF_ALPHA_BY_NONE;
    const double passes = alpha ? (double)kf_disturb_work(&later) / (double)c->state_bytes : 0,
                 layer_s = c->first_s - c->first_sums_s;
    double left = 0;
    if (!c->request.planned) return;
    for (uint64_t k = i + 1; k < c->stop; k++) left += !c->is_done[k];
    kerf_calibrate_plan p = {
        .tokens = c->request.tokens.rows * c->request.tokens.length,
        .layers = c->book.layers,
        .memory_bytes = c->own_bytes + 2 * c->info->layer_bytes + 2 * c->info->head_bytes +
                        kf_collector_bytes(&c->book) +
                        (alpha ? kf_disturb_bytes(&c->book, c->own_bytes) : 0),
        .file_bytes = file_bytes(c),
        .seconds = c->first_sums_s * left + layer_s * ((double)(c->stop - i - 1) + passes)};
    count_own(c, &p);
    c->request.planned(c->request.ctx, &p);
}

/* --- ranks --------------------------------------------------------------------------------- */

/* Rows of a rank, whole panels of them. The last rank has the first rows: sums walk from rank to
 * rank down to rank 0, which writes. */
static void take_rows(calibrating *c)
{
    const kerf_tokens *t = &c->request.tokens;
    const kerf_ranks *r = c->request.ranks;
    const uint64_t panel =
        t->length < KERF_PANEL_TOKENS ? (uint64_t)KERF_PANEL_TOKENS / t->length : 1;
    const uint64_t panels = kf_div_up(t->rows, panel), ranks = r ? r->ranks : 1,
                   place = ranks - 1 - (r ? r->rank : 0);
    const uint64_t first = kf_min_u64(t->rows, panels * place / ranks * panel),
                   end = kf_min_u64(t->rows, panels * (place + 1) / ranks * panel);
    c->first_row = first;
    c->own_rows = (kerf_tokens){t->token + first * t->length, end - first, t->length};
}

static int is_writer(const calibrating *c)
{
    return !c->request.ranks || c->request.ranks->rank == 0;
}

static kerf_status receive_sums(const calibrating *c, kf_collector *sums, kerf_error *err)
{
    const kerf_ranks *r = c->request.ranks;
    if (!r || r->rank + 1 == r->ranks) return KERF_OK;
    return kf_collector_receive(sums, r, r->rank + 1, err);
}

static kerf_status pass_sums(const calibrating *c, const kf_collector *sums, kerf_error *err)
{
    const kerf_ranks *r = c->request.ranks;
    return is_writer(c) ? kf_collector_write(sums, c->writer, err)
                        : kf_collector_send(sums, r, r->rank - 1, err);
}

static void leave_to_others(calibrating *c, uint64_t layer)
{
    const kf_leaf *leaf = &c->book.leaf[layer];
    c->is_done[layer] = 1;
    for (size_t g = leaf->group; g < leaf[1].group; g++) c->is_done[c->book.layers + g] = 1;
}

/* What a run that was killed has left: the writer knows, and tells the others. */
static kerf_status find_done(calibrating *c, kerf_error *err)
{
    const kf_book *b = &c->book;
    const kerf_ranks *r = c->request.ranks;
    const size_t n = (size_t)b->layers + b->groups;
    uint64_t note;
    KF_TRY(kf_allocate(&c->is_done, n, 1, err));
    for (uint64_t i = 0; is_writer(c) && i < b->layers; i++) {
        const kf_leaf *leaf = &b->leaf[i];
        c->is_done[i] = (unsigned char)kerf_writer_marked(c->writer, leaf->entry,
                                                          leaf->alpha - leaf->entry, &note);
    }
    if (is_writer(c) && c->request.alpha != KERF_ALPHA_BY_NONE)
        kf_disturb_done(b, c->writer, c->is_done + b->layers);
    if (r) KF_TRY(r->combine(r->ctx, c->is_done, n, err));
    for (uint64_t i = 0; i < b->layers; i++)
        if (!c->own[i]) leave_to_others(c, i);
    return KERF_OK;
}

/* How far the runs must go for what is left to do. */
static void find_ends(calibrating *c)
{
    const kf_book *b = &c->book;
    for (uint64_t i = 0; i < b->layers; i++) {
        int is_open = 0;
        if (!c->is_done[i]) c->stop = i + 1;
        for (size_t g = b->leaf[i].group; g < b->leaf[i + 1].group; g++)
            is_open |= c->request.alpha != KERF_ALPHA_BY_NONE && !c->is_done[b->layers + g];
        if (!is_open) continue;
        if (c->end == 0) c->first = i;
        c->end = i + 1;
    }
    if (c->end > 0) c->stop = b->layers; /* what is disturbed is compared with the end */
}

/* --- one pass ------------------------------------------------------------------------------ */

static kerf_status watch_layer(calibrating *c, uint64_t i, const kerf_layer *l, kerf_error *err)
{
    kf_collector *sums = NULL;
    kerf_status s = kf_collector_open(&c->book, c->info, i, c->threads, &sums, err);
    if (s == KERF_OK) s = receive_sums(c, sums, err);
    const double start = kf_now_s();
    if (s == KERF_OK) {
        const kerf_watch watch = kf_collector_watch(sums);
        s = kerf_layer_run(l, &c->own_rows, c->state, &watch, c->work.job, err);
    }
    if (s == KERF_OK && c->first_s == 0) {
        c->first_s = kf_now_s() - start;
        c->first_sums_s = kf_collector_seconds(sums);
        tell_plan(c, i);
    }
    if (s == KERF_OK) s = pass_sums(c, sums, err);
    kf_collector_close(sums);
    return s;
}

static kerf_status run_layer(calibrating *c, uint64_t i, kerf_error *err)
{
    kerf_layer *l = NULL;
    KF_TRY(kerf_decoder_layer_load(c->model, i, &l, err));
    kerf_status s = c->is_done[i]
                        ? kerf_layer_run(l, &c->own_rows, c->state, NULL, c->work.job, err)
                        : watch_layer(c, i, l, err);
    kerf_layer_free(l);
    return s == KERF_OK ? kf_work_add(&c->work, c->own_bytes, err) : s;
}

/* The states ahead of the first layer that alpha disturbs: another part's layers are before it. */
static kerf_status keep_state(calibrating *c, uint64_t i, kerf_error *err)
{
    if (i == 0 || i != c->first || c->end == 0 || c->there.p) return KERF_OK;
    KF_TRY(kf_allocate(&c->before, c->own_bytes, 1, err));
    memcpy(c->before, c->state, c->own_bytes);
    return KERF_OK;
}

static kerf_status run(calibrating *c, kerf_error *err)
{
    const char *why = NULL;
    const kerf_calibrate_request *r = &c->request;
    const uint64_t found = is_writer(c) ? kerf_writer_found(c->writer, &why) : 0;
    if (r->resume && (found || why)) kf_work_resume(&c->work, r->path, found, why);
    if (c->stop == 0) return KERF_OK;
    kf_work_phase(&c->work, "calibrate", c->stop * c->state_bytes);
    KF_TRY(kerf_decoder_embed(c->model, &c->own_rows, c->state, err));
    for (uint64_t i = 0; i < c->stop; i++) {
        KF_TRY(keep_state(c, i, err));
        KF_TRY(run_layer(c, i, err));
    }
    if (c->end == 0) return KERF_OK;
    const kf_disturb_job later = disturb_job(c);
    kf_work_phase(&c->work, "alpha", kf_disturb_work(&later));
    return kf_disturb(&later, err);
}

/* --- all of it ----------------------------------------------------------------------------- */

/* A number for what a forward pass depends on besides the model: the GPU, or what the C library of
 * this machine makes of the functions for which it has rules of its own (kerf/forward.h). Parts for
 * which it differs are not of one calibration. */
static kerf_status find_machine(const kerf_exec *exec, uint64_t *out, kerf_error *err)
{
    enum { SAMPLES = 512 };
    kerf_device_info gpu;
    double said[SAMPLES][6];
    if (exec && exec->device) {
        KF_TRY(kerf_device_describe(kerf_device_ordinal(exec->device), &gpu, err));
        *out = kerf_hash(gpu.name, strlen(gpu.name));
        return KERF_OK;
    }
    for (int i = 0; i < SAMPLES; i++) {
        const double x = (i + 1) * 0.0137;
        const double of_x[6] = {(double)tanhf((float)x),
                                (double)erff((float)x),
                                sin(x * 100),
                                cos(x * 100),
                                pow(10000, -x / 8),
                                exp(-x)};
        memcpy(said[i], of_x, sizeof of_x);
    }
    *out = kerf_hash(said, sizeof said);
    return KERF_OK;
}

/* On a GPU the states stay there, unless they would take more than half of what is free. */
static kerf_status open_state(calibrating *c, const kerf_exec *exec, kerf_error *err)
{
    kerf_device_info gpu;
    if (exec && exec->device) {
        KF_TRY(kerf_device_describe(kerf_device_ordinal(exec->device), &gpu, err));
        if (c->own_bytes <= gpu.free_bytes / 2) {
            KF_TRY(kerf_dbuf_alloc(exec->device, c->own_bytes, &c->there, err));
            c->state = c->there.p;
            return KERF_OK;
        }
    }
    return kf_allocate(&c->state, c->own_bytes, 1, err);
}

static kerf_status open_all(calibrating *c, const kerf_exec *exec, const kerf_job *job,
                            kerf_error *err)
{
    uint64_t n, machine;
    KF_TRY(check_request(&c->request, err));
    KF_TRY(kerf_decoder_open(c->source, exec, &c->model, err));
    c->info = kerf_decoder_about(c->model);
    if (!kf_mul_ok(c->request.tokens.rows, c->request.tokens.length, &n) ||
        !kf_mul_ok(n, c->info->hidden * sizeof *c->state, &c->state_bytes))
        return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE, "so many tokens fit into no memory");
    c->head_work = find_head_work(c);
    KF_TRY(kf_book_open(&c->book, c->source, c->info->layers, &c->request, err));
    take_rows(c);
    c->own_bytes = c->own_rows.rows * c->own_rows.length * c->info->hidden * sizeof *c->state;
    KF_TRY(open_state(c, exec, err));
    KF_TRY(kf_allocate(&c->own, c->book.layers, 1, err));
    KF_TRY(kf_layers_take(&c->book, c->info, &c->request, c->own, err));
    KF_TRY(find_machine(exec, &machine, err));
    if (is_writer(c))
        KF_TRY(kf_book_create(&c->book, c->source, &c->request, c->own, machine, job, &c->writer,
                              err));
    KF_TRY(find_done(c, err));
    find_ends(c);
    return KERF_OK;
}

kerf_status kerf_calibrate(const kerf_checkpoint *source, const kerf_calibrate_request *request,
                           const kerf_exec *exec, const kerf_job *job, kerf_error *err)
{
    calibrating c = {.source = source, .request = *request, .threads = exec ? exec->threads : 0};
    kf_work_open(&c.work, job);
    kerf_status s = open_all(&c, exec, job, err);
    if (s == KERF_OK) s = run(&c, err);
    if (s == KERF_OK) s = kerf_reader_check(kerf_checkpoint_reader(source), err);
    if (s != KERF_OK)
        kerf_writer_abort(c.writer);
    else if (is_writer(&c))
        s = kerf_writer_commit(c.writer, err);
    const kerf_ranks *r = c.request.ranks;
    if (s == KERF_OK && r) s = r->combine(r->ctx, NULL, 0, err);
    if (c.there.p)
        kerf_dbuf_free(&c.there);
    else
        free(c.state);
    free(c.before);
    free(c.own);
    free(c.is_done);
    kf_book_close(&c.book);
    kerf_decoder_close(c.model);
    kf_work_close(&c.work);
    return s;
}
