/* checkpoint_view.h - the insides of kerf_checkpoint, for the engine. */
#ifndef KERF_MODEL_CHECKPOINT_VIEW_H
#define KERF_MODEL_CHECKPOINT_VIEW_H

#include <kerf/checkpoint.h>

struct kerf_checkpoint {
    char *path;
    kerf_reader *reader;
    kerf_weights *weights;
    int borrows_reader; /* the reader belongs to another checkpoint */
};

/* The same files once more, with a list of weights of its own, which can be arranged another way.
 * c must outlive it. */
kerf_status kf_checkpoint_view(const kerf_checkpoint *c, kerf_checkpoint **out, kerf_error *err);

#endif
