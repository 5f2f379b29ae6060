/* thread_ranks.h - ranks that are threads of one program, for the tests of calls that several
 * processes do together. Whoever waits does so for a condition; a rank that fails sets everybody
 * free. */
#ifndef KERF_TESTS_THREAD_RANKS_H
#define KERF_TESTS_THREAD_RANKS_H

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <kerf/ranks.h>

enum { RANKS_MOST = 8 };

typedef struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned ranks, arrived, left, through;
    uint64_t next, round;
    int failed;
    unsigned char *sum; /* of a combine */
    struct {
        const void *p; /* what rank `from` offers; NULL: nothing */
        size_t n;
        unsigned to;
    } offer[RANKS_MOST];
} meeting;

typedef struct rank {
    meeting *m;
    kerf_ranks ranks;
    kerf_status (*call)(void *ctx, const kerf_ranks *r, kerf_error *err);
    void *ctx;
    kerf_status status;
    kerf_error err;
} rank;

static kerf_status leave(meeting *m, kerf_error *err)
{
    const int failed = m->failed;
    pthread_mutex_unlock(&m->lock);
    return failed ? kerf_fail(err, KERF_E_CANCELED, "another rank has failed") : KERF_OK;
}

static kerf_status take_number(void *ctx, size_t count, size_t *i, kerf_error *err)
{
    meeting *m = ((rank *)ctx)->m;
    pthread_mutex_lock(&m->lock);
    *i = m->next < count ? m->next++ : count;
    if (*i == count && ++m->through == m->ranks) m->next = m->through = 0;
    return leave(m, err);
}

static kerf_status combine_bits(void *ctx, void *p, size_t n, kerf_error *err)
{
    meeting *m = ((rank *)ctx)->m;
    unsigned char *own = p;
    pthread_mutex_lock(&m->lock);
    const uint64_t round = m->round;
    if (m->arrived++ == 0) m->sum = calloc(n + 1, 1);
    for (size_t i = 0; i < n; i++) m->sum[i] |= own[i];
    if (m->arrived == m->ranks) {
        m->round++;
        m->left = m->ranks;
        m->arrived = 0;
        pthread_cond_broadcast(&m->changed);
    }
    while (m->round == round && !m->failed) pthread_cond_wait(&m->changed, &m->lock);
    if (!m->failed && n) memcpy(p, m->sum, n);
    if (!m->failed && --m->left == 0) {
        free(m->sum);
        m->sum = NULL;
        pthread_cond_broadcast(&m->changed);
    }
    while (!m->failed && m->left) pthread_cond_wait(&m->changed, &m->lock);
    return leave(m, err);
}

static kerf_status send_bytes(void *ctx, unsigned to, const void *p, size_t n, kerf_error *err)
{
    const rank *r = ctx;
    meeting *m = r->m;
    pthread_mutex_lock(&m->lock);
    m->offer[r->ranks.rank].p = p;
    m->offer[r->ranks.rank].n = n;
    m->offer[r->ranks.rank].to = to;
    pthread_cond_broadcast(&m->changed);
    while (m->offer[r->ranks.rank].p && !m->failed) pthread_cond_wait(&m->changed, &m->lock);
    return leave(m, err);
}

static kerf_status receive_bytes(void *ctx, unsigned from, void *p, size_t n, kerf_error *err)
{
    const rank *r = ctx;
    meeting *m = r->m;
    pthread_mutex_lock(&m->lock);
    while ((!m->offer[from].p || m->offer[from].to != r->ranks.rank) && !m->failed)
        pthread_cond_wait(&m->changed, &m->lock);
    if (!m->failed && m->offer[from].n == n) {
        memcpy(p, m->offer[from].p, n);
        m->offer[from].p = NULL;
    } else {
        m->failed = 1; /* both sides must mean the same */
    }
    pthread_cond_broadcast(&m->changed);
    return leave(m, err);
}

static void *run_rank(void *ctx)
{
    rank *r = ctx;
    r->status = r->call(r->ctx, &r->ranks, &r->err);
    pthread_mutex_lock(&r->m->lock);
    if (r->status != KERF_OK) r->m->failed = 1;
    pthread_cond_broadcast(&r->m->changed);
    pthread_mutex_unlock(&r->m->lock);
    return NULL;
}

/* Makes the call in each of `count` ranks; returns the first failure that is not for another's. */
static inline kerf_status
run_ranks(unsigned count, kerf_status (*call)(void *ctx, const kerf_ranks *r, kerf_error *err),
          void *ctx, kerf_error *err)
{
    meeting m = {.ranks = count};
    rank all[RANKS_MOST];
    pthread_t thread[RANKS_MOST];
    kerf_status s = KERF_OK;
    pthread_mutex_init(&m.lock, NULL);
    pthread_cond_init(&m.changed, NULL);
    for (unsigned i = 0; i < count; i++) {
        rank *r = &all[i];
        *r = (rank){.m = &m, .call = call, .ctx = ctx};
        r->ranks = (kerf_ranks){i, count, take_number, combine_bits, send_bytes, receive_bytes, r};
        if (pthread_create(&thread[i], NULL, run_rank, r) != 0) abort();
    }
    for (unsigned i = 0; i < count; i++) {
        pthread_join(thread[i], NULL);
        if (all[i].status == KERF_OK || (s != KERF_OK && s != KERF_E_CANCELED)) continue;
        s = all[i].status;
        *err = all[i].err;
    }
    free(m.sum);
    pthread_cond_destroy(&m.changed);
    pthread_mutex_destroy(&m.lock);
    return s;
}

#endif
