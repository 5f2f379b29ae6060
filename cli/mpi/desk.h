/* desk.h - the ranks of kerf-mpi talk in letters of one size, through rank 0.
 *
 * A rank has two threads. One runs the command, and asks through its desk when the library wants
 * something of other ranks; it never calls MPI. The main thread alone does (MPI_THREAD_FUNNELED,
 * which every MPI has): it carries letters to rank 0 and back, and sleeps in between, for MPI's own
 * waiting takes a core. Data go directly between ranks, when rank 0 has heard that all who take
 * part are there: so nobody is stuck in MPI when another has failed. */
#ifndef KERF_DESK_H
#define KERF_DESK_H

#include <pthread.h>
#include <stdatomic.h>

#include "cli.h"

typedef enum letter_kind {
    /* to rank 0 */
    ASK_TAKE,    /* number: of how many; a GO has the answer             */
    ASK_COMBINE, /* GO when all have asked                               */
    ASK_SEND,    /* number: to whom; GO when that rank wants to receive  */
    ASK_RECEIVE, /* number: from whom                                    */
    TELL_DONE,   /* number: bytes of work, status: the phase             */
    TELL_END,    /* status: what the command returned, text: its failure */
    /* from rank 0 */
    GO,
    STOP, /* another has failed */
    BYE   /* all have ended     */
} letter_kind;

typedef struct letter {
    int kind, status;
    uint64_t number, skipped;
    char text[sizeof((kerf_error *)0)->text];
} letter;

typedef struct desk {
    kerf_ranks ranks;
    pthread_mutex_t lock;
    pthread_cond_t asked, answered;
    enum { QUIET, ASKED, SENT, ANSWERED } state;
    letter question, answer;
    void *p; /* what is exchanged */
    size_t n;
    int has_ended;
    letter end;
    /* work that this rank has done, and for rank 0 that of the others in the same phase */
    _Atomic uint64_t done, skipped, others_done, others_skipped;
    atomic_int phase, is_stopped;
    _Atomic uint64_t total;
    _Atomic(const kerf_job *) job; /* what shows progress */
} desk;

/* Makes the process one of `ranks`: the command finds it in `company`. */
void desk_open(desk *d, unsigned rank, unsigned ranks);
/* Returns when the command wants something, or after so long: 1 when it waits for an answer. */
int desk_wait(desk *d, long us);
/* The command has returned. */
void desk_end(desk *d, int result, const kerf_error *err);

/* Rank 0: all letters come here, and answers are sent by `post`. */
typedef struct coordinator coordinator;
kerf_status coordinator_open(coordinator **out, desk *own,
                             void (*post)(unsigned to, const letter *l), kerf_error *err);
void coordinator_take(coordinator *c, unsigned from, const letter *l);
/* The first failure, or how the command of rank 0 has ended. */
int coordinator_result(const coordinator *c, kerf_error *err);

#endif
