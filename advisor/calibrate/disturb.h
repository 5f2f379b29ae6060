/* disturb.h - alpha: what an error of a group of weights costs in the end. */
#ifndef KERF_DISTURB_H
#define KERF_DISTURB_H

#include "base/work.h"
#include "calibrate/book.h"

typedef struct kf_disturb_job {
    kerf_decoder *model;
    const kf_book *book;
    const kerf_calibrate_request *request; /* with draws and noise */
    kerf_tokens own;                       /* rows of this rank, from row `first_row` on */
    uint64_t first_row;
    const unsigned char *is_done; /* [groups]: by a run that was killed, or by another part */
    uint64_t first, end; /* layers that have a group which is not done are from first to end - 1 */
    float *before;       /* the states ahead of layer `first`, which are changed; NULL: they are
                            made from the tokens                                          */
    const float *last;   /* [own tokens][hidden] of the undisturbed model, behind its last layer */
    kf_work *work;       /* counts bytes of states that went through a layer or the head */
    uint64_t head_work;  /* of a pass through the head, in these bytes                    */
    kerf_writer *writer; /* of rank 0 */
} kf_disturb_job;

/* Finds alpha of all groups that no dead run has marked, writes and marks them. Ranks run their
 * rows and put together what each says of the next tokens: sums over all rows are those of one
 * process. */
kerf_status kf_disturb(const kf_disturb_job *job, kerf_error *err);

/* Sets done[groups] to what a dead run has marked. */
void kf_disturb_done(const kf_book *b, const kerf_writer *w, unsigned char *done);

/* Bytes of work that it will count. */
uint64_t kf_disturb_work(const kf_disturb_job *job);
/* Bytes of states that it holds, besides `last`. */
uint64_t kf_disturb_bytes(const kf_book *b, uint64_t state_bytes);

#endif
