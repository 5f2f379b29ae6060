/* team.c - opens devices, and hands out items to a thread for each member. */
#include "stream/team.h"
#include "base/base.h"
#include <stdio.h>

#include <kerf/cuda.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { HANDLES = 2 }; /* of a GPU: one copies while the other computes */

/* --- members ------------------------------------------------------------------------------- */

/* One more than there are processors. A team that has a processor for each thread waits for work by
 * spinning, and takes the processors from the threads that read and write (measured: a third of
 * the time is left without that); a larger team sleeps. */
static int default_threads(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
    return CPU_COUNT(&set) + 1;
}

/* All but the device. */
static kerf_status read_exec(const args *a, kerf_exec *out, kerf_error *err)
{
    static const char *const nans[] = {"error", "zero", "saturate", NULL};
    static const kerf_nan nan_of[] = {KERF_NAN_ERROR, KERF_NAN_ZERO, KERF_NAN_SATURATE};
    int nan = 0;
    *out = (kerf_exec){0};
    KF_TRY(args_integer(a, "threads", 1, 4096, &out->threads, err));
    if (!out->threads) out->threads = default_threads();
    KF_TRY(args_choice(a, "nan", nans, &nan, err));
    out->nan = nan_of[nan];
    return KERF_OK;
}

static kerf_status device_fails(const char *text, kerf_status s, const kerf_error *why,
                                kerf_error *err)
{
    if (s == KERF_E_NOSUP) s = KERF_E_CUDA; /* the exit code of a missing device */
    return kf_fail(err, s, KF_NOWHERE, "--device %s: %.300s; or use --device cpu", text, why->text);
}

/* The GPUs [*first, *end) that --device names; none for the processor. */
static kerf_status read_device(const char *text, int *first, int *end, kerf_error *err)
{
    int n = 0, used = 0;
    *first = *end = 0;
    if (!text || strcmp(text, "cpu") == 0) return KERF_OK;
    if (strcmp(text, "cuda:all") == 0) {
        kerf_error why = {0};
        kerf_status s = kerf_device_count(end, &why);
        if (s == KERF_OK && *end == 0) {
            s = KERF_E_CUDA;
            fail(&why, s, "this machine has no GPU");
        }
        return s == KERF_OK ? s : device_fails(text, s, &why, err);
    }
    if (strcmp(text, "cuda") != 0 &&
        (sscanf(text, "cuda:%3d%n", &n, &used) != 1 || text[used] || n < 0)) {
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "--device %.40s: expected cpu, cuda, cuda:N or cuda:all", text);
    }
    *first = n;
    *end = n + 1;
    return KERF_OK;
}

static kerf_status open_gpu(const char *text, int ordinal, kerf_exec *out, kerf_error *err)
{
    kerf_error why = {0};
    kerf_status s = kerf_device_open(ordinal, &out->device, &why);
    return s == KERF_OK ? s : device_fails(text, s, &why, err);
}

/* Architectures whose code has only been compiled and disassembled. */
static void warn_untested(int ordinal)
{
    kerf_device_info info;
    if (kerf_device_describe(ordinal, &info, NULL) == KERF_OK && info.compute_major >= 10) {
        fprintf(stderr, "note: GPU %d, %.100s: the code for sm_%d%d is untested on hardware\n",
                ordinal, info.name, info.compute_major, info.compute_minor);
    }
}

kerf_status team_open(team *t, const args *a, kerf_error *err)
{
    const char *text = args_value(a, "device");
    kerf_exec plain;
    int first, end;
    *t = (team){0};
    KF_TRY(read_exec(a, &plain, err));
    KF_TRY(read_device(text, &first, &end, err));
    size_t count = first < end ? (size_t)(end - first) * HANDLES : 1;
    KF_TRY(kf_allocate(&t->member, count, sizeof *t->member, err));
    for (; t->count < count; t->count++) {
        kerf_exec *member = &t->member[t->count];
        *member = plain;
        if (first < end) KF_TRY(open_gpu(text, first + (int)t->count / HANDLES, member, err));
    }
    for (int gpu = first; gpu < end; gpu++) warn_untested(gpu);
    return KERF_OK;
}

void team_close(team *t)
{
    for (size_t i = 0; i < t->count; i++) kerf_device_close(t->member[i].device);
    free(t->member);
    *t = (team){0};
}

kerf_status args_exec(const args *a, kerf_exec *out, kerf_error *err)
{
    const char *text = args_value(a, "device");
    int first, end;
    KF_TRY(read_exec(a, out, err));
    KF_TRY(read_device(text, &first, &end, err));
    if (end - first > 1)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "--device %.40s: this verb uses one GPU", text);
    if (first == end) return KERF_OK;
    KF_TRY(open_gpu(text, first, out, err));
    warn_untested(first);
    return KERF_OK;
}

void args_exec_close(kerf_exec *exec)
{
    kerf_device_close(exec->device);
    exec->device = NULL;
}

/* --- items --------------------------------------------------------------------------------- */

typedef struct run {
    const team_work *work;
    void *ctx;
    size_t count;
    pthread_mutex_t lock;
    size_t next, finished; /* items handed out; items that finish() has seen */
    char *done;            /* of an item: work() is over                      */
    size_t failed;         /* the first item that failed; count: none         */
    kerf_status status;
    kerf_error error;
} run;

typedef struct member_run {
    run *run;
    const kerf_exec *exec;
    pthread_t thread;
} member_run;

/* The next item, or `count` when there is none or one has failed. */
static size_t take_item(run *r)
{
    pthread_mutex_lock(&r->lock);
    size_t i = r->failed < r->count ? r->count : r->next;
    if (i < r->count) r->next++;
    pthread_mutex_unlock(&r->lock);
    return i;
}

static void note_failure(run *r, size_t i, kerf_status s, const kerf_error *error)
{
    if (i >= r->failed) return;
    r->failed = i;
    r->status = s;
    r->error = *error;
}

/* Finishes all items up to the first that is not done. */
static void item_done(run *r, size_t i, kerf_status s, kerf_error *error)
{
    pthread_mutex_lock(&r->lock);
    if (s != KERF_OK)
        note_failure(r, i, s, error);
    else
        r->done[i] = 1;
    while (r->finished < r->failed && r->finished < r->next && r->done[r->finished]) {
        i = r->finished++;
        s = r->work->finish ? r->work->finish(r->ctx, i, error) : KERF_OK;
        if (s != KERF_OK) note_failure(r, i, s, error);
    }
    pthread_mutex_unlock(&r->lock);
}

static void *work_off(void *ctx)
{
    const member_run *m = ctx;
    run *r = m->run;
    for (size_t i; (i = take_item(r)) < r->count;) {
        kerf_error error = {0};
        kerf_status s = r->work->work(r->ctx, i, m->exec, &error);
        item_done(r, i, s, &error);
    }
    return NULL;
}

/* The calling thread is the first member; of the others, those that get a thread. */
static void run_members(run *r, const team *t, member_run *m)
{
    size_t n = 1;
    for (; n < t->count && n < r->count; n++) {
        m[n] = (member_run){.run = r, .exec = &t->member[n]};
        if (pthread_create(&m[n].thread, NULL, work_off, &m[n]) != 0) break;
    }
    m[0] = (member_run){.run = r, .exec = &t->member[0]};
    work_off(&m[0]);
    while (n-- > 1) pthread_join(m[n].thread, NULL);
}

kerf_status team_run(const team *t, size_t count, const team_work *w, void *ctx, kerf_error *err)
{
    run r = {.work = w, .ctx = ctx, .count = count, .failed = count};
    member_run *members = NULL;
    kerf_status s = kf_allocate(&r.done, count, 1, err);
    if (s == KERF_OK) s = kf_allocate(&members, t->count, sizeof *members, err);
    if (s == KERF_OK) {
        pthread_mutex_init(&r.lock, NULL);
        run_members(&r, t, members);
        pthread_mutex_destroy(&r.lock);
        s = r.status;
        if (s != KERF_OK && err) *err = r.error;
    }
    free(r.done);
    free(members);
    return s;
}
