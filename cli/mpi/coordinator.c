/* coordinator.c - rank 0 keeps the counts of a run: which rank takes which work, which ranks wait
 * for another, and which have failed. Nothing that a later run needs is kept here: that is on disk.
 */
#include <stdlib.h>

#include "desk.h"

typedef struct member {
    letter asks; /* what it waits for; kind -1: nothing */
    uint64_t done, skipped;
    int phase, has_ended;
} member;

struct coordinator {
    desk *own;
    void (*post)(unsigned to, const letter *l);
    unsigned ranks, combining, ended, through; /* through: have seen the end of this series */
    uint64_t next;
    int result, has_failed;
    unsigned failed_rank;
    letter failure;
    member *member;
};

kerf_status coordinator_open(coordinator **out, desk *own,
                             void (*post)(unsigned to, const letter *l), kerf_error *err)
{
    coordinator *c = NULL;
    TRY(allocate(&c, 1, sizeof *c, err));
    *out = c;
    c->own = own;
    c->post = post;
    c->ranks = c->failed_rank = own->ranks.ranks;
    TRY(allocate(&c->member, c->ranks, sizeof *c->member, err));
    for (unsigned i = 0; i < c->ranks; i++) c->member[i].asks.kind = -1;
    return KERF_OK;
}

static void answer(coordinator *c, unsigned to, letter_kind kind, uint64_t number)
{
    const letter l = {.kind = (int)kind, .number = number};
    c->member[to].asks.kind = -1;
    c->post(to, &l);
}

static void give(coordinator *c, unsigned to, uint64_t count)
{
    const uint64_t i = c->next < count ? c->next++ : count;
    if (i == count && ++c->through == c->ranks) c->next = c->through = 0;
    answer(c, to, GO, i);
}

static void join(coordinator *c)
{
    if (++c->combining < c->ranks) return;
    c->combining = 0;
    for (unsigned i = c->ranks; i-- > 0;) answer(c, i, GO, 0); /* rank 0 last: then it is in MPI */
}

/* The one that asked is half of a pair. */
static void pair(coordinator *c, unsigned from, const letter *l)
{
    const int other = l->kind == ASK_SEND ? ASK_RECEIVE : ASK_SEND;
    const unsigned to = (unsigned)l->number;
    if (to >= c->ranks || c->member[to].asks.kind != other || c->member[to].asks.number != from)
        return;
    const unsigned first = from > to ? from : to, last = from > to ? to : from;
    answer(c, first, GO, 0);
    answer(c, last, GO, 0); /* rank 0, if it is one of them */
}

static void stop(coordinator *c)
{
    if (c->has_failed) return;
    c->has_failed = 1;
    for (unsigned i = c->ranks; i-- > 0;) answer(c, i, STOP, 0);
}

static void note_end(coordinator *c, unsigned from, const letter *l)
{
    c->ended++;
    if (from == 0) c->result = l->status;
    if (l->status < 0 && l->status != KERF_E_CANCELED && from < c->failed_rank) {
        c->failed_rank =
            from; /* of several the first one, for what is wrong for all is no rank's */
        c->failure = *l;
    }
    if (l->status < 0) stop(c);
    for (unsigned i = c->ranks; c->ended == c->ranks && i-- > 0;) answer(c, i, BYE, 0);
}

static void add_up(coordinator *c)
{
    uint64_t done = 0, skipped = 0;
    const int phase = atomic_load(&c->own->phase);
    for (unsigned i = 1; i < c->ranks; i++) {
        if (c->member[i].phase != phase) continue;
        done += c->member[i].done;
        skipped += c->member[i].skipped;
    }
    atomic_store(&c->own->others_done, done);
    atomic_store(&c->own->others_skipped, skipped);
}

void coordinator_take(coordinator *c, unsigned from, const letter *l)
{
    member *m = &c->member[from];
    if (l->kind == TELL_DONE) {
        m->done = l->number;
        m->skipped = l->skipped;
        m->phase = l->status;
        add_up(c);
        return;
    }
    if (l->kind == TELL_END) {
        note_end(c, from, l);
        return;
    }
    m->asks = *l;
    if (c->has_failed)
        answer(c, from, STOP, 0);
    else if (l->kind == ASK_TAKE)
        give(c, from, l->number);
    else if (l->kind == ASK_COMBINE)
        join(c);
    else
        pair(c, from, l);
}

int coordinator_result(const coordinator *c, kerf_error *err)
{
    if (!c->has_failed) return c->result;
    if (c->failed_rank == 0)
        return kerf_fail(err, (kerf_status)c->failure.status, "%s", c->failure.text);
    return kerf_fail(err, (kerf_status)c->failure.status, "rank %u of %u: %.400s", c->failed_rank,
                     c->ranks, c->failure.text);
}
