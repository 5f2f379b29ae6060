/* disturb.h - alpha: what an error of a group of weights costs in the end. */
#ifndef KERF_DISTURB_H
#define KERF_DISTURB_H

#include "base/work.h"
#include "calibrate/book.h"

typedef struct kf_disturb_job {
    kerf_decoder *model;
    const kf_book *book;
    const kerf_calibrate_request *request; /* with draws and noise */
    const float *last;  /* [tokens][hidden] of the undisturbed model, behind its last layer */
    kf_work *work;      /* counts bytes of states that went through a layer or the head */
    uint64_t head_work; /* of a pass through the head, in these bytes                    */
    kerf_writer *writer;
} kf_disturb_job;

/* Finds alpha of all groups that no dead run has marked, writes and marks them. */
kerf_status kf_disturb(const kf_disturb_job *job, kerf_error *err);

/* Bytes of work that it will count. */
uint64_t kf_disturb_work(const kf_disturb_job *job);
/* Bytes of states that it holds, besides `last`. */
uint64_t kf_disturb_bytes(const kf_book *b, uint64_t state_bytes);

#endif
