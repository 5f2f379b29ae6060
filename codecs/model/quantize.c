/* quantize.c - takes every weight of a plan from the source through its encoder into the output.
 * Memory is a few panels, whatever the size of the files. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <kerf/feedback.h>
#include <kerf/importance.h>
#include <kerf/quantize.h>

#include "base/base.h"
#include "model/plan.h"
#include "model/write_model.h"
#include "stream/copy_tensor.h"
#include "stream/decode_tensor.h"
#include "stream/encode_tensor.h"

/* What one scale for several merged layers is chosen from. */
typedef struct shared_stats {
    int known;
    kerf_stats stats;
} shared_stats;

typedef struct quantizing {
    const kerf_plan *plan;
    const kerf_team *team;
    uint64_t imatrix; /* its fingerprint */
    kf_work work;
    kerf_share share;
    pthread_mutex_t lock; /* of the next two          */
    shared_stats *shared; /* per item of the plan     */
    kf_room *room;        /* of those that are at work: the first `rooms` are free */
    size_t rooms;
    unsigned char *seen; /* per item, KF_SAW_...: of the first `noted` */
    size_t noted;
} quantizing;

static const kerf_decision *item_at(const quantizing *q, size_t i)
{
    return &q->plan->decided.item[i];
}

/* Behind the weights of the source: a scale that is made; NULL: it is not. */
static const kf_made_scale *made_at(const quantizing *q, size_t i)
{
    const size_t count = q->plan->decided.count;
    return i < count ? NULL : &q->plan->made.item[i - count];
}

static kf_encode_job encode_job(quantizing *q, size_t i, const kerf_geometry *g,
                                const kerf_exec *exec)
{
    const kerf_decision *d = item_at(q, i);
    return (kf_encode_job){
        .reader = q->plan->source->reader,
        .tensor = kerf_weight_dense(d->weight),
        .geometry = g,
        .encoder = d->codec.encoder,
        .exec = exec,
        .work = &q->work,
    };
}

/* Measures all layers that are merged with item i into one, exactly as if they were one matrix, and
 * notes the result for each. */
static kerf_status measure_group(quantizing *q, size_t i, const kerf_exec *exec, kerf_error *err)
{
    size_t member[KERF_FUSED_MOST] = {i}, n = kf_plan_group(q->plan, i, member);
    kerf_stats all = {0};
    if (n == 0) n = 1;
    for (size_t k = 0; k < n; k++) {
        kerf_stats one = {0};
        const kerf_geometry g = kf_decision_geometry(item_at(q, member[k]));
        kf_encode_job measure = encode_job(q, member[k], &g, exec);
        KF_TRY(kf_measure_tensor(&measure, &one, err));
        kerf_stats_merge(&all, &one);
    }
    for (size_t k = 0; k < n; k++) q->shared[member[k]] = (shared_stats){1, all};
    return KERF_OK;
}

/* Once for each group: by the first member of the team that needs it; others wait meanwhile. */
static kerf_status share_stats(quantizing *q, size_t i, const kerf_exec *exec, kerf_error *err)
{
    pthread_mutex_lock(&q->lock);
    kerf_status s = q->shared[i].known ? KERF_OK : measure_group(q, i, exec, err);
    pthread_mutex_unlock(&q->lock);
    return s;
}

static kf_room take_room(quantizing *q)
{
    pthread_mutex_lock(&q->lock);
    kf_room room = q->rooms ? q->room[--q->rooms] : (kf_room){NULL, 0};
    pthread_mutex_unlock(&q->lock);
    return room;
}

static void give_room(quantizing *q, kf_room room)
{
    pthread_mutex_lock(&q->lock);
    q->room[q->rooms++] = room;
    pthread_mutex_unlock(&q->lock);
}

/* What weight i is rounded with; NULL: without feedback. */
static kerf_status make_feedback(quantizing *q, size_t i, const kerf_exec *exec,
                                 kerf_feedback **out, kerf_error *err)
{
    const kerf_decision *d = item_at(q, i);
    const kerf_moments *m = q->plan->to.moments;
    float *gram = NULL;
    *out = NULL;
    if (!kf_plan_feedback(q->plan, d)) return KERF_OK;
    KF_TRY(m->read(m->ctx, d->weight, &gram, err));
    const uint64_t columns = kf_last_dim(&d->weight->shape);
    kerf_status s = KERF_OK;
    if (gram && !m->again && exec->device && kerf_feedback_on_gpu(d->codec.format))
        s = kerf_feedback_make_on(&exec->device, 1, gram, columns, KERF_FEEDBACK_DAMPING,
                                  q->work.job, out, err);
    else if (gram)
        s = kerf_feedback_make(gram, columns, KERF_FEEDBACK_DAMPING, exec->threads, q->work.job,
                               out, err);
    if (s == KERF_OK && gram && m->again)
        s = kerf_feedback_again(*out, gram, KERF_FEEDBACK_DAMPING, err);
    free(gram);
    return s == KERF_E_DATA ? kf_fail_at(err, s, d->weight->name) : s;
}

/* Goes into the journal: a weight may have been seen by an earlier run. */
static uint64_t note_of(const kf_values_seen *v)
{
    return (kf_values_have_nan(v) ? KF_SAW_NAN : 0) | (kf_values_have_inf(v) ? KF_SAW_INF : 0) |
           (kf_values_are_zero(v) ? KF_SAW_ZEROS : 0);
}

static void take_note(void *ctx, uint64_t note)
{
    quantizing *q = ctx;
    q->seen[q->noted++] = (unsigned char)note;
}

static kerf_nan nan_of(const quantizing *q)
{
    return q->team && q->team->count ? q->team->member[0].nan : KERF_NAN_ERROR;
}

static void free_rooms(quantizing *q)
{
    for (size_t i = 0; i < q->rooms; i++) free(q->room[i].p);
    q->rooms = 0;
}

/* Nobody encodes any more: what is read back next may be in need of the rooms' memory. */
static kerf_status make_notes(void *ctx, kerf_error *err)
{
    quantizing *q = ctx;
    free_rooms(q);
    return kf_notes_seen(q->plan->found, &q->plan->decided, q->seen, nan_of(q), err);
}

/* Whether a group of the format has no importance at all. */
static int has_unweighted_group(const kerf_weight *w, const kerf_importance *i)
{
    const uint64_t columns = kerf_weight_geometry(w).cols, group = w->codec.format->group;
    for (uint64_t at = 0; i->value && group && at < i->count;) {
        const uint64_t left = columns - at % columns; /* a group ends with its row */
        const uint64_t n = group < left ? group : left;
        uint64_t zeros = 0;
        while (zeros < n && i->value[at + zeros] == 0) zeros++;
        if (zeros == n) return 1;
        at += n;
    }
    return 0;
}

static kerf_status encode_item(quantizing *q, size_t i, const kerf_exec *exec, const kerf_weight *w,
                               kerf_weight_writer *to, uint64_t *note, kerf_error *err)
{
    const kerf_geometry g = kerf_weight_geometry(w);
    kf_encode_job encode = encode_job(q, i, &g, exec);
    kf_values_seen seen = {.dtype = encode.tensor->dtype};
    int infinite = 0;
    if (kerf_layout_shares_scale(q->plan->layout, w->codec.format) && g.matrices == 1) {
        KF_TRY(share_stats(q, i, exec, err));
        encode.stats = &q->shared[i].stats;
    }
    kerf_importance importance = {0};
    kerf_exec own = *exec;
    if (kerf_takes_importance(w->codec.encoder))
        KF_TRY(
            kerf_importance_read(q->plan->to.imatrix, item_at(q, i)->weight, 0, &importance, err));
    own.importance = importance.value;
    own.importances = importance.count;
    kerf_feedback *feedback;
    kerf_status s = make_feedback(q, i, exec, &feedback, err);
    own.feedback = feedback;
    kf_room room = take_room(q);
    encode.exec = &own;
    encode.writer = to;
    encode.room = &room;
    encode.seen = &seen;
    encode.infinite = &infinite;
    if (s == KERF_OK) s = kf_encode_tensor(&encode, err);
    *note = note_of(&seen);
    if (has_unweighted_group(w, &importance)) *note |= KF_SAW_UNWEIGHTED;
    if (infinite) *note |= KF_SAW_OVERFLOW;
    give_room(q, room);
    kerf_feedback_free(feedback);
    kerf_importance_free(&importance);
    return s == KERF_OK ? kerf_weight_writer_finish(to, err) : s;
}

/* What is left, but quantized in a layout that the output does not have. */
static kerf_status decode_item(quantizing *q, const kerf_decision *d, kerf_writer *w, size_t entry,
                               const kerf_exec *exec, kerf_error *err)
{
    const kf_decode_job decode = {.reader = q->plan->source->reader,
                                  .weight = d->weight,
                                  .dtype = d->weight->dtype,
                                  .writer = w,
                                  .entry = entry,
                                  .exec = exec,
                                  .work = &q->work};
    kf_work_item(&q->work, d->weight->name, "decode");
    return kf_decode_tensor(&decode, err);
}

static kerf_status write_weight(void *ctx, kerf_writer *w, size_t i, size_t entry,
                                const kerf_exec *exec, uint64_t *note, kerf_error *err)
{
    quantizing *q = ctx;
    const kf_made_scale *made = made_at(q, i);
    if (made) return kerf_writer_write(w, entry, 0, &made->value, sizeof made->value, err);
    const kerf_decision *d = item_at(q, i);
    char name[64];
    if (d->dropped) return KERF_OK;
    if (d->decoded) return decode_item(q, d, w, entry, exec, err);
    if (!d->codec.format) {
        kf_values_seen seen = {0};
        const kerf_reader *from = q->plan->source->reader;
        kf_work_item(&q->work, d->weight->name, "keep");
        if (d->weight->codec.format)
            return kf_copy_weight(from, d->weight, w, entry, &q->work, err);
        KF_TRY(kf_copy_dense(from, d->weight, w, entry, &seen, &q->work, err));
        *note = note_of(&seen);
        return KERF_OK;
    }
    const kerf_weight after = kf_plan_weight(q->plan, d);
    kerf_weight_writer *to = NULL;
    kf_work_item(&q->work, after.name, kerf_codec_name(d->codec, name, sizeof name));
    KF_TRY(kerf_weight_writer_open(w, q->plan->layout, &after, entry, &to, err));
    kerf_status s = encode_item(q, i, exec, &after, to, note, err);
    kerf_weight_writer_close(to);
    return s;
}

static uint64_t work_bytes(const void *ctx, size_t i)
{
    if (made_at(ctx, i)) return sizeof(float);
    const kerf_decision *d = item_at(ctx, i);
    if (d->dropped) return 0;
    const kerf_geometry g = kf_decision_geometry(d);
    int passes = d->codec.format && kerf_needs_stats(&g) ? 2 : 1;
    return kerf_weight_bytes(d->weight) * (uint64_t)passes;
}

/* Names of layout and types do not tell how the codes were chosen. */
static void describe_work(const void *ctx, FILE *to)
{
    const quantizing *q = ctx;
    char name[64];
    fprintf(to, "%s %d\n", q->plan->layout->name, (int)nan_of(q));
    if (q->plan->to.moments)
        fprintf(to, "feedback %016llx\n", (unsigned long long)q->plan->to.moments->contents);
    if (q->plan->to.imatrix) fprintf(to, "imatrix %016llx\n", (unsigned long long)q->imatrix);
    const kf_made_scales *made = &q->plan->made;
    for (size_t i = 0; i < made->count; i++)
        fprintf(to, "%s %a\n", i < made->inputs ? "input" : "cache", (double)made->item[i].value);
    for (size_t i = 0; i < q->plan->decided.count; i++) {
        const kerf_codec codec = item_at(q, i)->codec;
        fprintf(to, "%s\n", codec.format ? kerf_codec_name(codec, name, sizeof name) : "keep");
    }
}

static kerf_status quantize(quantizing *q, kerf_error *err)
{
    const kerf_plan *p = q->plan;
    const size_t members = q->team && q->team->count ? q->team->count : 1;
    const kf_write out = {
        .what = "quantize",
        .to = &p->to,
        .source = p->source->reader,
        .manifest = &p->manifest,
        .team = q->team,
        .work = &q->work,
        .ctx = q,
        .work_bytes = work_bytes,
        .write = write_weight,
        .noted = take_note,
        .written = make_notes,
        .describe = describe_work,
        .share = &q->share,
    };
    if (p->to.imatrix) KF_TRY(kerf_reader_fingerprint(p->to.imatrix->reader, &q->imatrix, err));
    KF_TRY(kf_allocate(&q->shared, p->decided.count, sizeof *q->shared, err));
    KF_TRY(kf_allocate(&q->room, members, sizeof *q->room, err));
    KF_TRY(kf_allocate(&q->seen, p->manifest.weights, 1, err));
    kf_notes_free(p->found);
    return kf_write_model(&out, err);
}

/* The reason for the largest tensor stands for all of them: of the matrices that are worth
 * quantizing, where there are any. */
static kerf_status fail_nothing(const kerf_plan *p, kerf_error *err)
{
    const kerf_decision *largest = NULL;
    uint64_t most = 0;
    int is_worth_it = 0;
    for (size_t i = 0; i < p->decided.count; i++) {
        const kerf_weight *w = p->decided.item[i].weight;
        const int worth = w->shape.rank > 1 && !kerf_place_keeps(&w->place);
        const uint64_t n = kerf_weight_elements(w);
        if (largest && (worth < is_worth_it || (worth == is_worth_it && n <= most))) continue;
        largest = &p->decided.item[i];
        is_worth_it = worth;
        most = n;
    }
    if (p->decided.count == 0)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%.200s: holds no tensor", p->source->path);
    if (largest->weight->codec.format)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "%.150s: no tensor is left to quantize: %.120s is kept (%.100s); kerf "
                       "dequantize makes a source for another format, kerf convert another layout",
                       p->source->path, largest->weight->name, largest->reason);
    if (strncmp(largest->reason, "--recipe", 8) == 0)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "%.200s: the recipe keeps every tensor as it is (%.120s for one): there is "
                       "nothing to write, the source is what it asks for",
                       p->source->path, largest->weight->name);
    return kf_fail(
        err, KERF_E_ARG, KF_NOWHERE,
        "%.150s: no tensor is left to quantize: %.120s is kept (%.100s); --dry-run shows "
        "why each is kept",
        p->source->path, largest->weight->name, largest->reason);
}

kerf_status kerf_quantize(const kerf_plan *p, const kerf_team *team, const kerf_job *job,
                          kerf_result *result, kerf_error *err)
{
    const double began_s = kf_now_s();
    if (!p) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "kerf_quantize: there is no plan");
    if (p->decided.quantized == 0) return fail_nothing(p, err);
    quantizing q = {.plan = p, .team = team};
    kf_work_open(&q.work, job);
    pthread_mutex_init(&q.lock, NULL);
    kerf_status s = quantize(&q, err);
    pthread_mutex_destroy(&q.lock);
    kf_work_close(&q.work);
    free_rooms(&q);
    free(q.room);
    free(q.shared);
    free(q.seen);
    if (s == KERF_OK && result)
        *result = (kerf_result){.changed = p->totals.quantized,
                                .kept = p->totals.weights - p->totals.quantized,
                                .bytes_in = p->totals.bytes_in,
                                .bytes_out = p->totals.bytes_out,
                                .seconds = kf_now_s() - began_s,
                                .share = q.share};
    return s;
}
