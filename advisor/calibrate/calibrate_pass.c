/* calibrate_pass.c - the tokens go through the model once: what ranks share and hand to each other,
 * and what is found of each layer. */
#include "calibrate/calibrating.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

typedef kf_calibrating calibrating;
typedef void (*plan_of)(kf_calibrating *c, uint64_t i);

/* --- ranks --------------------------------------------------------------------------------- */

/* Rows of a rank, whole panels of them. The last rank has the first rows: sums walk from rank to
 * rank down to rank 0, which writes. */
void kf_take_rows(calibrating *c)
{
    const kerf_tokens *t = &c->request.tokens;
    const kerf_ranks *r = c->request.ranks;
    const uint64_t panel = t->length < c->panel ? c->panel / t->length : 1;
    const uint64_t panels = kf_div_up(t->rows, panel), ranks = r ? r->ranks : 1,
                   place = ranks - 1 - (r ? r->rank : 0);
    const uint64_t first = kf_min_u64(t->rows, panels * place / ranks * panel),
                   end = kf_min_u64(t->rows, panels * (place + 1) / ranks * panel);
    c->first_row = first;
    c->own_rows = (kerf_tokens){t->token + first * t->length, end - first, t->length};
}

int kf_is_writer(const calibrating *c)
{
    return !c->request.ranks || c->request.ranks->rank == 0;
}

/* Sums of layer i to go on with: new ones, or those of the rank with the rows before. A thread
 * gives away what it has; a process sends a copy. */
static kerf_status begin_sums(const calibrating *c, uint64_t i, kf_found_sums *found,
                              kerf_error *err)
{
    const kerf_ranks *r = c->request.ranks;
    const int is_first = !r || r->rank + 1 == r->ranks;
    if (!is_first && c->is_threaded)
        return r->receive(r->ctx, r->rank + 1, found, sizeof *found, err);
    KF_TRY(kf_collector_open(&c->book, c->info, i, c->exec.threads, &found->sums, err));
    return is_first ? KERF_OK : kf_collector_receive(found->sums, r, r->rank + 1, err);
}

/* What is found is gone then, unless it fails: all zeros. */
static kerf_status end_sums(const calibrating *c, kf_found_sums *found, kerf_error *err)
{
    const kerf_ranks *r = c->request.ranks;
    const kf_found_sums all = *found;
    if (kf_is_writer(c)) {
        *found = (kf_found_sums){0};
        return c->settler ? kf_settler_give(c->settler, all, err)
                          : kf_settle(all, c->writer, c->exec.threads, c->work.job, err);
    }
    if (!c->is_threaded) return kf_collector_send(all.sums, r, r->rank - 1, err);
    KF_TRY(r->send(r->ctx, r->rank - 1, &all, sizeof all, err));
    *found = (kf_found_sums){0};
    return KERF_OK;
}

static void leave_to_others(calibrating *c, uint64_t layer)
{
    const kf_leaf *leaf = &c->book.leaf[layer];
    c->is_done[layer] = 1;
    for (size_t g = leaf->group; g < leaf[1].group; g++) c->is_done[c->book.layers + g] = 1;
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

/* What a run that was killed has left: the writer knows, and tells the others. */
kerf_status kf_find_done(calibrating *c, kerf_error *err)
{
    const kf_book *b = &c->book;
    const kerf_ranks *r = c->request.ranks;
    const size_t n = (size_t)b->layers + b->groups;
    uint64_t note;
    KF_TRY(kf_allocate(&c->is_done, n, 1, err));
    for (uint64_t i = 0; kf_is_writer(c) && i < b->layers; i++) {
        const kf_leaf *leaf = &b->leaf[i];
        c->is_done[i] = (unsigned char)kerf_writer_marked(c->writer, leaf->entry,
                                                          leaf->alpha - leaf->entry, &note);
    }
    if (kf_is_writer(c) && c->request.alpha != KERF_ALPHA_BY_NONE)
        kf_disturb_done(b, c->writer, c->is_done + b->layers);
    if (r) KF_TRY(r->combine(r->ctx, c->is_done, n, err));
    for (uint64_t i = 0; i < b->layers; i++)
        if (!c->own[i]) leave_to_others(c, i);
    find_ends(c);
    return KERF_OK;
}

/* --- one pass ------------------------------------------------------------------------------ */

static kerf_status watch_layer(calibrating *c, uint64_t i, const kerf_layer *l, plan_of plan,
                               kerf_error *err)
{
    kf_found_sums found = {0};
    kerf_status s = begin_sums(c, i, &found, err);
    const double start = kf_now_s();
    if (s == KERF_OK) {
        kerf_watch watch = kf_collector_watch(found.sums);
        if (c->keeps) watch.there = &found.there;
        s = kerf_layer_run(l, &c->own_rows, c->state, &watch, c->work.job, err);
    }
    if (s == KERF_OK && c->first_s == 0) {
        c->first_s = kf_now_s() - start;
        c->first_sums_s = kf_collector_seconds(found.sums);
        plan(c, i);
    }
    if (s == KERF_OK) s = end_sums(c, &found, err);
    kerf_gpu_sums_free(found.there);
    kf_collector_close(found.sums);
    return s;
}

static kerf_status run_loaded(calibrating *c, uint64_t i, const kerf_layer *l, plan_of plan,
                              kerf_error *err)
{
    KF_TRY(c->is_done[i] ? kerf_layer_run(l, &c->own_rows, c->state, NULL, c->work.job, err)
                         : watch_layer(c, i, l, plan, err));
    return kf_work_add(&c->work, c->own_bytes, err);
}

static kerf_status run_layer(calibrating *c, uint64_t i, plan_of plan, kerf_error *err)
{
    const kerf_layer *fed = NULL;
    kerf_layer *l = NULL;
    if (c->feeder) {
        KF_TRY(kf_feeder_next(c->feeder, &fed, err));
        return run_loaded(c, i, fed, plan, err);
    }
    KF_TRY(kerf_decoder_layer_load(c->model, i, &l, err));
    const kerf_status s = run_loaded(c, i, l, plan, err);
    kerf_layer_free(l);
    return s;
}

/* The states ahead of the first layer that alpha disturbs: another part's layers are before it. */
static kerf_status keep_state(calibrating *c, uint64_t i, kerf_error *err)
{
    if (i == 0 || i != c->first || c->end == 0 || c->there.p) return KERF_OK;
    KF_TRY(kf_allocate(&c->before, c->own_bytes, 1, err));
    memcpy(c->before, c->state, c->own_bytes);
    return KERF_OK;
}

static kerf_status run_layers(calibrating *c, plan_of plan, kerf_error *err)
{
    if (c->feed) KF_TRY(kf_feeder_open(c->feed, c->model, &c->feeder, err));
    if (c->keeps && kf_is_writer(c))
        KF_TRY(kf_settler_open(c->writer, c->exec.threads, c->work.job, &c->settler, err));
    KF_TRY(kerf_decoder_embed(c->model, &c->own_rows, c->state, err));
    for (uint64_t i = 0; i < c->stop; i++) {
        KF_TRY(keep_state(c, i, err));
        KF_TRY(run_layer(c, i, plan, err));
    }
    return c->settler ? kf_settler_finish(c->settler, err) : KERF_OK;
}

kerf_status kf_run_calibration(calibrating *c, plan_of plan, kerf_error *err)
{
    const char *why = NULL;
    const kerf_calibrate_request *r = &c->request;
    const uint64_t found = kf_is_writer(c) ? kerf_writer_found(c->writer, &why) : 0;
    if (r->resume && (found || why)) kf_work_resume(&c->work, r->path, found, why);
    if (c->stop == 0) return KERF_OK;
    kf_work_phase(&c->work, "calibrate", c->stop * c->state_bytes);
    const kerf_status s = run_layers(c, plan, err);
    kf_feeder_close(c->feeder);
    kf_settler_close(c->settler);
    c->feeder = NULL;
    c->settler = NULL;
    KF_TRY(s);
    if (c->end == 0) return KERF_OK;
    const kf_disturb_job later = kf_disturb_job_of(c);
    kf_work_phase(&c->work, "alpha", kf_disturb_work(&later));
    return kf_disturb(&later, err);
}
