/* feed.h - the layers of a model for those who run them, one ahead: while a layer runs the next is
 * read, decoded, and brought to the GPU. Ranks that are threads have one feed, so that each layer
 * is read and decoded once for all of them. */
#ifndef KERF_FEED_H
#define KERF_FEED_H

#include <kerf/forward.h>

typedef struct kf_feed kf_feed;

/* threads: those that read and decode. ahead: 1: GPUs have room for two layers. job must outlive
 * the feed. */
kerf_status kf_feed_open(const kerf_checkpoint *source, unsigned ranks, int threads, int ahead,
                         const kerf_job *job, kf_feed **out, kerf_error *err);
void kf_feed_close(kf_feed *f); /* when all feeders are closed; NULL is fine */

/* A thread that gives one rank its layers, from layer 0 on. model: who runs them. */
typedef struct kf_feeder kf_feeder;
kerf_status kf_feeder_open(kf_feed *f, kerf_decoder *model, kf_feeder **out, kerf_error *err);
/* Waits for the next layer. It is the caller's until he asks for the one after it, or closes. */
kerf_status kf_feeder_next(kf_feeder *f, const kerf_layer **out, kerf_error *err);
void kf_feeder_close(kf_feeder *f); /* NULL is fine */

#endif
