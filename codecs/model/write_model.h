/* write_model.h - what all verbs that write a checkpoint have in common once they know what it will
 * hold: every weight into its entries, once, also when an earlier run has begun. */
#ifndef KERF_WRITE_MODEL_H
#define KERF_WRITE_MODEL_H

#include "model/manifest.h"
#include "stream/team.h"

typedef struct write_job {
    const char *verb, *path;
    const args *args;
    const kerf_checkpoint *source;
    const manifest *manifest;
    const kerf_team *team; /* NULL: a thread is enough, for nothing is computed */
    void *ctx;

    uint64_t (*work_bytes)(const void *ctx, size_t i); /* of weight i, for progress */
    /* Writes weight i into the entries from `entry` on; several at a time in a team. *note (0
     * before) goes into the journal. */
    kerf_status (*write)(void *ctx, kerf_writer *w, size_t i, size_t entry, const kerf_exec *exec,
                         uint64_t *note, kerf_error *err);
    /* Gets the note of each weight, in their order, whether this run has written it or an earlier
     * one; or NULL. */
    void (*noted)(void *ctx, uint64_t note);
    /* Prints what the bytes depend on besides the source and the manifest; NULL: nothing. */
    void (*describe)(const void *ctx, FILE *to);

    double seconds; /* that it took */
} write_job;

/* As -y, -j, --zstd-level, --resume and --progress of the command line say. */
struct progress;
kerf_status write_model(write_job *j, struct progress *bar, kerf_error *err);

#endif
