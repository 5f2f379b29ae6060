/* share.h - which files of an output one of several processes writes. */
#ifndef KERF_MODEL_SHARE_H
#define KERF_MODEL_SHARE_H

#include "model/manifest.h"

typedef struct kf_share {
    unsigned char *shard;  /* [shards]: 1: this part writes it                       */
    unsigned char *weight; /* [weights]: 1: an entry of it lies in such a shard      */
    size_t shards;         /* that are written                                       */
    uint64_t bytes;        /* of their tensors                                       */
} kf_share;

/* The shards of part `part` (from 1) of `parts`; work_bytes says what a weight costs. Every process
 * comes to the same division. */
kerf_status kf_share_make(kf_share *s, const kf_manifest *m, unsigned part, unsigned parts,
                          uint64_t (*work_bytes)(const void *ctx, size_t i), const void *ctx,
                          kerf_error *err);
void kf_share_free(kf_share *s); /* all zeros are fine */

/* What all shards cost. */
kerf_status kf_share_work(const kf_manifest *m, uint64_t (*work_bytes)(const void *ctx, size_t i),
                          const void *ctx, uint64_t *out, kerf_error *err);

#endif
