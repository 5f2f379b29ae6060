/* calibrate.c - kerf_calibrate: the tokens go through the model once, and what each layer's inputs
 * are like is written when it is done; then alpha. Here: what is asked, what it takes, and who does
 * it; the pass itself is in calibrate_pass.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "calibrate/calibrate_share.h"
#include "calibrate/calibrating.h"
#include "calibrate/meeting.h"

typedef kf_calibrating calibrating;

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
                       "%llu rows cannot be divided among %u draws: --length N makes shorter "
                       "rows, --alpha-by none leaves the draws out",
                       (unsigned long long)r->tokens.rows, r->draws);
    return KERF_OK;
}

/* --- time and memory ----------------------------------------------------------------------- */

kf_disturb_job kf_disturb_job_of(calibrating *c)
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
    const kf_disturb_job later = kf_disturb_job_of(c);
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
                        (c->keeps ? 2 : 1) * kf_collector_bytes(&c->book) +
                        (alpha ? kf_disturb_bytes(&c->book, c->own_bytes) : 0),
        .file_bytes = file_bytes(c),
        .seconds = c->first_sums_s * left + layer_s * ((double)(c->stop - i - 1) + passes)};
    count_own(c, &p);
    c->request.planned(c->request.ctx, &p);
}

/* --- one rank ------------------------------------------------------------------------------ */

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

/* What part of a GPU's memory the numbers of one layer may take if there are to be two of them. */
enum { PART_OF_MEMORY = 16 };

/* On a GPU the states stay there, unless they would take more than half of what is free. */
static kerf_status open_state(calibrating *c, kerf_error *err)
{
    kerf_device_info gpu;
    if (c->exec.device) {
        KF_TRY(kerf_device_describe(kerf_device_ordinal(c->exec.device), &gpu, err));
        c->keeps = c->keeps && kf_collector_bytes(&c->book) <= gpu.memory_bytes / PART_OF_MEMORY;
        if (c->own_bytes <= gpu.free_bytes / 2) {
            KF_TRY(kerf_dbuf_alloc(c->exec.device, c->own_bytes, &c->there, err));
            c->state = c->there.p;
            return KERF_OK;
        }
    }
    return kf_allocate(&c->state, c->own_bytes, 1, err);
}

static kerf_status open_all(calibrating *c, const kerf_job *job, kerf_error *err)
{
    uint64_t n, machine;
    KF_TRY(kerf_decoder_open(c->source, &c->exec, &c->model, err));
    kerf_decoder_heed(c->model, job);
    c->info = kerf_decoder_about(c->model);
    if (!kf_mul_ok(c->request.tokens.rows, c->request.tokens.length, &n) ||
        !kf_mul_ok(n, c->info->hidden * sizeof *c->state, &c->state_bytes))
        return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE, "so many tokens fit into no memory");
    c->head_work = find_head_work(c);
    KF_TRY(kf_book_open(&c->book, c->source, c->info->layers, &c->request, err));
    kf_take_rows(c);
    c->own_bytes = c->own_rows.rows * c->own_rows.length * c->info->hidden * sizeof *c->state;
    KF_TRY(open_state(c, err));
    KF_TRY(kf_allocate(&c->own, c->book.layers, 1, err));
    kerf_calibrate_request whole = c->request;
    if (c->is_threaded) whole.ranks = NULL; /* all of them are one part */
    KF_TRY(kf_layers_take(&c->book, c->info, &whole, c->own, err));
    KF_TRY(find_machine(&c->exec, &machine, err));
    if (kf_is_writer(c))
        KF_TRY(kf_book_create(&c->book, c->source, &c->request, c->own, machine, job, &c->writer,
                              err));
    return kf_find_done(c, err);
}

/* One rank, or the only one. */
static kerf_status calibrate(calibrating *c, const kerf_job *job, kerf_error *err)
{
    kf_work_open(&c->work, job);
    kerf_status s = open_all(c, job, err);
    if (s == KERF_OK) s = kf_run_calibration(c, tell_plan, err);
    if (s == KERF_OK) s = kerf_reader_check(kerf_checkpoint_reader(c->source), err);
    if (s == KERF_OK && kf_is_writer(c)) {
        s = kerf_writer_commit(c->writer, err);
        c->writer = NULL;
    }
    if (c->model) kerf_decoder_heed(c->model, NULL); /* the job may end before the model */
    const kerf_ranks *r = c->request.ranks;
    return s == KERF_OK && r ? r->combine(r->ctx, NULL, 0, err) : s;
}

/* The model waits for what still runs. */
static void *close_there(void *ctx)
{
    calibrating *c = ctx;
    kerf_decoder_close(c->model);
    if (c->there.p) c->state = NULL;
    kerf_dbuf_free(&c->there);
    return NULL;
}

/* Those that were not committed. */
static void *discard_files(void *ctx)
{
    kerf_writer_abort(((calibrating *)ctx)->writer);
    return NULL;
}

static void close_here(calibrating *c)
{
    free(c->state);
    free(c->before);
    free(c->own);
    free(c->is_done);
    kf_book_close(&c->book);
    kf_work_close(&c->work);
}

/* When all ranks have ended: one may still look at another's. It is gigabytes, and who cancels
 * waits for it: what is on GPUs, layers in host memory and files at the same time. */
static void close_all(calibrating *all, unsigned ranks, kf_feed *feed)
{
    pthread_t files;
    const int has_files = pthread_create(&files, NULL, discard_files, all) == 0;
    for (unsigned i = 0; i < ranks; i++)
        all[i].has_closer = pthread_create(&all[i].closer, NULL, close_there, &all[i]) == 0;
    kf_feed_close(feed);
    for (unsigned i = 0; i < ranks; i++) {
        if (all[i].has_closer)
            pthread_join(all[i].closer, NULL);
        else
            close_there(&all[i]);
    }
    if (has_files)
        pthread_join(files, NULL);
    else
        discard_files(all);
    for (unsigned i = 0; i < ranks; i++) close_here(&all[i]);
}

/* GPUs have layers ahead of them where a second one takes a small part of their memory. */
static kerf_status open_feed(const calibrating *c, unsigned ranks, const kerf_job *job,
                             kf_feed **out, kerf_error *err)
{
    kerf_device_info gpu = {.memory_bytes = 0};
    kerf_decoder *d = NULL;
    if (c->exec.device)
        KF_TRY(kerf_device_describe(kerf_device_ordinal(c->exec.device), &gpu, err));
    KF_TRY(kerf_decoder_open(c->source, NULL, &d, err));
    const int ahead = kerf_decoder_about(d)->layer_bytes <= gpu.memory_bytes / PART_OF_MEMORY;
    kerf_decoder_close(d);
    return kf_feed_open(c->source, ranks, c->exec.threads, ahead, job, out, err);
}

static kerf_status calibrate_alone(calibrating *c, const kerf_job *job, kerf_error *err)
{
    kerf_status s = c->exec.device ? open_feed(c, 1, job, &c->feed, err) : KERF_OK;
    c->keeps = c->exec.device && !c->request.ranks;
    if (s == KERF_OK) s = calibrate(c, job, err);
    close_all(c, 1, c->feed);
    return s;
}

/* --- several GPUs of this machine ---------------------------------------------------------- */

static kerf_status calibrate_rank(void *ctx, const kerf_ranks *r, const kerf_job *job,
                                  kerf_error *err)
{
    calibrating *c = (calibrating *)ctx + r->rank;
    c->request.ranks = r;
    if (r->rank) c->request.planned = NULL;
    return calibrate(c, job, err);
}

/* The GPU is named where the reason is its own. */
static kerf_status name_gpu(const calibrating *c, kerf_status s, kerf_error *err)
{
    char text[sizeof err->text];
    if (!err || !c->exec.device || (s != KERF_E_NOMEM && s != KERF_E_CUDA)) return s;
    const int32_t native = err->native;
    snprintf(text, sizeof text, "%.400s", err->text);
    kf_fail(err, s, KF_NOWHERE, "cuda:%d: %s", kerf_device_ordinal(c->exec.device), text);
    err->native = native;
    return s;
}

static kerf_status calibrate_together(const calibrating *one, unsigned ranks, const kerf_job *job,
                                      kerf_error *err)
{
    const int cores = kf_thread_count(one->exec.threads);
    calibrating *all = NULL;
    kf_feed *feed = NULL;
    unsigned failed = 0;
    KF_TRY(kf_allocate(&all, ranks, sizeof *all, err));
    kerf_status s = open_feed(one, ranks, job, &feed, err);
    for (unsigned i = 0; i < ranks; i++) {
        all[i] = *one;
        all[i].exec = one->request.team->member[i];
        all[i].exec.threads = cores / (int)ranks > 1 ? cores / (int)ranks : 1;
        all[i].feed = feed;
        all[i].is_threaded = 1;
        all[i].keeps = 1;
    }
    if (s == KERF_OK) {
        s = kf_meeting_run(ranks, calibrate_rank, all, job, &failed, err);
        if (s != KERF_OK) s = name_gpu(&all[failed], s, err);
    }
    close_all(all, ranks, feed);
    free(all);
    return s;
}

/* One GPU may stand there several times, which is for tests. Beside others it is refused: three
 * ranks on two GPUs have ended with a failed launch, which is not explained (cli/parts.md). */
static kerf_status check_team(const kerf_team *t, kerf_error *err)
{
    size_t alike = 0, others = 0;
    for (size_t i = 0; i < t->count; i++)
        for (size_t k = 0; k < i; k++) {
            const kerf_device *a = t->member[i].device, *b = t->member[k].device;
            if (!a != !b)
                return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "a GPU and the processor as ranks");
            if (a && kerf_device_ordinal(a) == kerf_device_ordinal(b))
                alike++;
            else
                others++;
        }
    if (!alike || !others || !t->member[0].device) return KERF_OK;
    return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "a GPU that is named twice beside others");
}

/* --- all of it ----------------------------------------------------------------------------- */

kerf_status kerf_calibrate(const kerf_checkpoint *source, const kerf_calibrate_request *request,
                           const kerf_exec *exec, const kerf_job *job, kerf_error *err)
{
    const kerf_team *team = request->team;
    calibrating c = {.source = source, .request = *request};
    if (exec) c.exec = *exec;
    if (team && team->count) c.exec = team->member[0];
    c.panel = c.exec.device ? KERF_GPU_PANEL_TOKENS : KERF_PANEL_TOKENS;
    KF_TRY(check_request(&c.request, err));
    if (!team || team->count < 2) return calibrate_alone(&c, job, err);
    if (request->ranks)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "a rank of several processes has one GPU");
    KF_TRY(check_team(team, err));
    const kerf_tokens *t = &c.request.tokens;
    const uint64_t rows = t->length < c.panel ? c.panel / t->length : 1;
    const uint64_t ranks = kf_min_u64(kf_div_up(t->rows, rows), team->count);
    return ranks > 1 ? calibrate_together(&c, (unsigned)ranks, job, err)
                     : calibrate_alone(&c, job, err);
}
