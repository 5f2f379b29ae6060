/* write_model.h - what all calls that write a checkpoint have in common once they know what it will
 * hold: every weight goes into its entries, once, also when an earlier run has begun with it. */
#ifndef KERF_MODEL_WRITE_MODEL_H
#define KERF_MODEL_WRITE_MODEL_H

#include <stdio.h>

#include "base/work.h"
#include "model/manifest.h"

typedef struct kf_write {
    const char *what; /* what is done to the weights; goes into the hash of the work */
    const kerf_output *to;
    const kerf_reader *source;
    const kf_manifest *manifest;
    const kerf_team *team; /* NULL: one thread is enough, for nothing is computed */
    kf_work *work;
    void *ctx;

    uint64_t (*work_bytes)(const void *ctx, size_t i); /* of weight i, for progress */
    /* Writes weight i into the entries from `entry` on; several at a time in a team. *note (0
     * before) goes into the journal. */
    kerf_status (*write)(void *ctx, kerf_writer *w, size_t i, size_t entry, const kerf_exec *exec,
                         uint64_t *note, kerf_error *err);
    /* Gets the note of each weight, in their order, whether this run has written it or an earlier
     * one; or NULL. */
    void (*noted)(void *ctx, uint64_t note);
    /* Called behind the last note, while the output can still be given up; or NULL. */
    kerf_status (*written)(void *ctx, kerf_error *err);
    kerf_share *share; /* set for an output of which a part is written; or NULL */
    /* Prints what the bytes depend on besides the source and the manifest; NULL: nothing. */
    void (*describe)(const void *ctx, FILE *to);
} kf_write;

kerf_status kf_write_model(const kf_write *j, kerf_error *err);

#endif
