/* calibrating.h - a calibration on its way, in one process or as one rank of several. */
#ifndef KERF_CALIBRATING_H
#define KERF_CALIBRATING_H

#include <kerf/calibrate.h>
#include <kerf/cuda.h>

#include <pthread.h>

#include "base/work.h"
#include "calibrate/book.h"
#include "calibrate/disturb.h"
#include "calibrate/feed.h"
#include "calibrate/settler.h"

typedef struct kf_calibrating {
    const kerf_checkpoint *source;
    kerf_calibrate_request request;
    kerf_exec exec;
    uint64_t panel;  /* tokens                                                          */
    kf_feed *feed;   /* of layers; NULL: they are loaded when they are run              */
    int is_threaded; /* other ranks are threads: they get sums as they are in memory    */
    int keeps;       /* sums stay on the GPU; then they are settled while others run    */
    kf_feeder *feeder;
    kf_settler *settler;
    kerf_decoder *model;
    const kerf_decoder_info *info;
    kf_book book;
    kerf_writer *writer;
    kerf_tokens own_rows; /* the rows of this rank, from row `first_row` on  */
    uint64_t first_row;
    unsigned char *own;     /* [layers]: those of this part                         */
    unsigned char *is_done; /* [layers and groups]: by a run that was killed, or by another part */
    uint64_t stop;          /* layers that the undisturbed run goes through         */
    uint64_t first, end;    /* of layers with a group that is not done; equal: none */
    float *before;          /* the states ahead of layer `first`; NULL: not kept    */
    kerf_dbuf there;        /* the states, where they are on a GPU; else empty      */
    float *state;           /* of the own rows                                      */
    uint64_t state_bytes, own_bytes, head_work; /* state_bytes: of all rows */
    kf_work work;
    double first_s, first_sums_s; /* of layer 0, and what its sums took of it; 0: it was there */
    pthread_t closer;             /* of what is on its GPU */
    int has_closer;
} kf_calibrating;

/* Sets the rows of this rank. */
void kf_take_rows(kf_calibrating *c);
int kf_is_writer(const kf_calibrating *c);
/* What a dead run or another part has done, and how far the runs must go. */
kerf_status kf_find_done(kf_calibrating *c, kerf_error *err);
/* All layers, then alpha. plan: told behind layer i, the first whose sums were made. */
kerf_status kf_run_calibration(kf_calibrating *c, void (*plan)(kf_calibrating *c, uint64_t i),
                               kerf_error *err);
kf_disturb_job kf_disturb_job_of(kf_calibrating *c);

#endif
