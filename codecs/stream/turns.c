/* turns.c - one lock for all queues: a turn is long, and few wait for it. */
#include "stream/turns.h"
#include "base/base.h"

#include <stdlib.h>

kerf_status kf_turns_open(kf_turns *t, size_t queues, kerf_error *err)
{
    *t = (kf_turns){.failed = UINT64_MAX};
    KF_TRY(kf_allocate(&t->next, queues ? queues : 1, sizeof *t->next, err));
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->moved, NULL);
    return KERF_OK;
}

void kf_turns_close(kf_turns *t)
{
    if (!t->next) return;
    pthread_cond_destroy(&t->moved);
    pthread_mutex_destroy(&t->lock);
    free(t->next);
    t->next = NULL;
}

int kf_turns_wait(kf_turns *t, size_t q, uint64_t panel)
{
    pthread_mutex_lock(&t->lock);
    while (t->next[q] != panel && t->failed > panel) pthread_cond_wait(&t->moved, &t->lock);
    int go = t->next[q] == panel;
    pthread_mutex_unlock(&t->lock);
    return go;
}

void kf_turns_pass(kf_turns *t, size_t q)
{
    pthread_mutex_lock(&t->lock);
    t->next[q]++;
    pthread_cond_broadcast(&t->moved);
    pthread_mutex_unlock(&t->lock);
}

void kf_turns_fail(kf_turns *t, uint64_t panel)
{
    pthread_mutex_lock(&t->lock);
    if (panel < t->failed) t->failed = panel;
    pthread_cond_broadcast(&t->moved);
    pthread_mutex_unlock(&t->lock);
}
