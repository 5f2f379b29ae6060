/* crew.h - panels taken by several workers, each through all steps; and turns: what the workers
 * must do in the order of panels. There may be several queues with turns of their own, so that one
 * panel can be in the first of them while the panel before it is in the second. */
#ifndef KERF_STREAM_CREW_H
#define KERF_STREAM_CREW_H

#include <pthread.h>

#include "stream/panel.h"

kerf_status kf_run_crew(kf_stream *s, const kf_steps *steps, void *ctx, kerf_error *err);

typedef struct kf_turns {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint64_t *next;  /* of each queue: the panel whose turn it is */
    uint64_t failed; /* the first panel that never comes          */
} kf_turns;

kerf_status kf_turns_open(kf_turns *t, size_t queues, kerf_error *err);
void kf_turns_close(kf_turns *t); /* of zeros: fine */

/* Waits until all panels before this one have passed queue q. 0: one of them never will. */
int kf_turns_wait(kf_turns *t, size_t q, uint64_t panel);
void kf_turns_pass(kf_turns *t, size_t q);
/* Nobody waits for this panel any longer. */
void kf_turns_fail(kf_turns *t, uint64_t panel);

#endif
