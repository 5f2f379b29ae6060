/* feed.c - the first rank that wants a layer reads it, the last that has run it frees it. */
#include "calibrate/feed.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/base.h"

/* A layer in host memory. */
typedef struct ration {
    enum { UNREAD, BEING_READ, READ } state;
    kerf_layer *layer; /* NULL when it was read: that failed */
    kerf_status status;
    kerf_error error;
    unsigned left; /* ranks that have not run it */
} ration;

struct kf_feed {
    kerf_decoder *reader; /* runs nothing */
    uint64_t layers;
    int ahead;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    ration *ration; /* [layers] */
};

struct kf_feeder {
    kf_feed *feed;
    kerf_decoder *model;
    pthread_t thread;
    int has_thread, is_stopped, is_ready; /* ready: what follows is the next layer, or a failure */
    uint64_t next;                        /* that the thread brings                              */
    kerf_layer *layer, *out;              /* out: what the caller has, of layer `given`          */
    uint64_t given;
    kerf_layer
        *back; /* what he has run, of layer `ran`: the thread frees it, which takes a while */
    uint64_t ran;
    kerf_status status;
    kerf_error error;
};

/* --- layers in host memory ----------------------------------------------------------------- */

kerf_status kf_feed_open(const kerf_checkpoint *source, unsigned ranks, int threads, int ahead,
                         const kerf_job *job, kf_feed **out, kerf_error *err)
{
    const kerf_exec exec = {.threads = threads};
    kf_feed *f = NULL;
    KF_TRY(kf_allocate(&f, 1, sizeof *f, err));
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    *out = f;
    f->ahead = ahead;
    KF_TRY(kerf_decoder_open(source, &exec, &f->reader, err));
    kerf_decoder_heed(f->reader, job);
    const uint64_t layers = kerf_decoder_about(f->reader)->layers;
    KF_TRY(kf_allocate(&f->ration, layers, sizeof *f->ration, err));
    f->layers = layers;
    for (uint64_t i = 0; i < layers; i++) f->ration[i].left = ranks;
    return KERF_OK;
}

void kf_feed_close(kf_feed *f)
{
    if (!f) return;
    for (uint64_t i = 0; i < f->layers; i++) kerf_layer_free(f->ration[i].layer);
    free(f->ration);
    kerf_decoder_close(f->reader);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

static kerf_status take_ration(kf_feed *f, uint64_t i, const kerf_layer **out, kerf_error *err)
{
    ration *r = &f->ration[i];
    pthread_mutex_lock(&f->lock);
    if (r->state == UNREAD) {
        r->state = BEING_READ;
        pthread_mutex_unlock(&f->lock);
        r->status = kerf_decoder_layer_load(f->reader, i, &r->layer, &r->error);
        pthread_mutex_lock(&f->lock);
        r->state = READ;
        pthread_cond_broadcast(&f->changed);
    }
    while (r->state != READ) pthread_cond_wait(&f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
    *out = r->layer;
    if (r->status != KERF_OK && err) *err = r->error;
    return r->status;
}

static void leave_ration(kf_feed *f, uint64_t i)
{
    kerf_layer *l = NULL;
    pthread_mutex_lock(&f->lock);
    if (--f->ration[i].left == 0) {
        l = f->ration[i].layer;
        f->ration[i].layer = NULL;
    }
    pthread_mutex_unlock(&f->lock);
    kerf_layer_free(l);
}

/* --- one rank ------------------------------------------------------------------------------ */

/* A layer of the rank's own model. Without room on the GPU it is brought when it is run. */
static kerf_status bring(const kf_feeder *f, uint64_t i, kerf_layer **out, kerf_error *err)
{
    const kerf_layer *read = NULL;
    kerf_error ignored = {0};
    KF_TRY(take_ration(f->feed, i, &read, err));
    KF_TRY(kerf_decoder_layer_share(f->model, read, out, err));
    if (!f->feed->ahead || __atomic_load_n(&f->is_stopped, __ATOMIC_RELAXED)) return KERF_OK;
    const kerf_status s = kerf_layer_send(*out, &ignored);
    if (s == KERF_OK || s == KERF_E_NOMEM) return KERF_OK;
    kerf_layer_free(*out);
    *out = NULL;
    if (err) *err = ignored;
    return s;
}

static void leave(kf_feeder *f, kerf_layer *l, uint64_t i)
{
    kerf_layer_free(l);
    leave_ration(f->feed, i);
}

/* Under the lock, which it leaves for a while. */
static void take_back(kf_feeder *f)
{
    kerf_layer *l = f->back;
    const uint64_t i = f->ran;
    f->back = NULL;
    pthread_mutex_unlock(&f->feed->lock);
    leave(f, l, i);
    pthread_mutex_lock(&f->feed->lock);
}

static void *feed_all(void *ctx)
{
    kf_feeder *f = ctx;
    kf_feed *feed = f->feed;
    pthread_mutex_lock(&feed->lock);
    while (!f->is_stopped && f->status == KERF_OK) {
        if (f->back) {
            take_back(f);
            continue;
        }
        if (f->is_ready || f->next == feed->layers) {
            pthread_cond_wait(&feed->changed, &feed->lock);
            continue;
        }
        const uint64_t i = f->next;
        pthread_mutex_unlock(&feed->lock);
        const kerf_status s = bring(f, i, &f->layer, &f->error);
        pthread_mutex_lock(&feed->lock);
        f->status = s;
        f->next = i + 1;
        f->is_ready = 1;
        pthread_cond_broadcast(&feed->changed);
    }
    pthread_mutex_unlock(&feed->lock);
    return NULL;
}

kerf_status kf_feeder_open(kf_feed *feed, kerf_decoder *model, kf_feeder **out, kerf_error *err)
{
    kf_feeder *f = NULL;
    KF_TRY(kf_allocate(&f, 1, sizeof *f, err));
    *out = f;
    f->feed = feed;
    f->model = model;
    f->has_thread = pthread_create(&f->thread, NULL, feed_all, f) == 0;
    if (!f->has_thread) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no thread for layers");
    return KERF_OK;
}

/* To the thread, or where that has not come to the one before, at once. */
static void give_back(kf_feeder *f)
{
    kerf_layer *l = f->out;
    const uint64_t i = f->given;
    if (!l) return;
    f->out = NULL;
    pthread_mutex_lock(&f->feed->lock);
    const int is_busy = f->back != NULL;
    if (!is_busy) {
        f->back = l;
        f->ran = i;
        pthread_cond_broadcast(&f->feed->changed);
    }
    pthread_mutex_unlock(&f->feed->lock);
    if (is_busy) leave(f, l, i);
}

kerf_status kf_feeder_next(kf_feeder *f, const kerf_layer **out, kerf_error *err)
{
    kf_feed *feed = f->feed;
    give_back(f);
    pthread_mutex_lock(&feed->lock);
    while (!f->is_ready) pthread_cond_wait(&feed->changed, &feed->lock);
    const kerf_status s = f->status;
    if (s == KERF_OK) {
        f->out = f->layer;
        f->given = f->next - 1;
        f->layer = NULL;
        f->is_ready = 0;
        pthread_cond_broadcast(&feed->changed);
    } else if (err) {
        *err = f->error;
    }
    pthread_mutex_unlock(&feed->lock);
    *out = f->out;
    return s;
}

void kf_feeder_close(kf_feeder *f)
{
    if (!f) return;
    pthread_mutex_lock(&f->feed->lock);
    __atomic_store_n(&f->is_stopped, 1, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&f->feed->changed);
    pthread_mutex_unlock(&f->feed->lock);
    if (f->has_thread) pthread_join(f->thread, NULL);
    if (f->back) leave(f, f->back, f->ran);
    if (f->out) leave(f, f->out, f->given);
    kerf_layer_free(f->layer);
    free(f);
}
