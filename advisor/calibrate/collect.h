/* collect.h - what the inputs of a layer's weights are like: sums over all tokens while it runs,
 * and the tensors that are made of them. */
#ifndef KERF_COLLECT_H
#define KERF_COLLECT_H

#include "calibrate/book.h"

typedef struct kf_collector kf_collector;

kerf_status kf_collector_open(const kf_book *b, const kerf_decoder_info *model, uint64_t layer,
                              int threads, kf_collector **out, kerf_error *err);
void kf_collector_close(kf_collector *c); /* NULL is fine */

/* For kerf_layer_run; it points to c. */
kerf_watch kf_collector_watch(kf_collector *c);
double kf_collector_seconds(const kf_collector *c); /* that its sums took */

/* Sends the sums so far to another rank, whose rows come next, or takes them from the one before.
 */
kerf_status kf_collector_send(const kf_collector *c, const kerf_ranks *r, unsigned to,
                              kerf_error *err);
kerf_status kf_collector_receive(kf_collector *c, const kerf_ranks *r, unsigned from,
                                 kerf_error *err);

/* Writes the tensors of the layer, but for alphas. KERF_E_NOSUP: a weight was never used. The job
 * is asked whether to go on. */
kerf_status kf_collector_write(const kf_collector *c, kerf_writer *w, const kerf_job *job,
                               kerf_error *err);

/* Bytes that the collector of the largest layer takes. */
uint64_t kf_collector_bytes(const kf_book *b);

#endif
