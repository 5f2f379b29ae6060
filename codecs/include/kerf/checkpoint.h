/* checkpoint.h - an opened model: its tensors, the weights that they make up, which of the weights
 * belong together, and which of them a call shall work on.
 *
 *   kerf_checkpoint_open("model/", &c, &err)
 *   kerf_weights_at(kerf_checkpoint_weights(c), i)      one weight: name, shape, format, planes
 *   kerf_quantize, kerf_inspect, ...                    take the checkpoint as a whole
 *
 * Any number of threads may use one checkpoint. */
#ifndef KERF_CHECKPOINT_H
#define KERF_CHECKPOINT_H

#include <kerf/layouts.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kerf_checkpoint kerf_checkpoint;

/* Opens a file or a folder as kerf_reader_open does, and groups its tensors into weights as
 * kerf_weights_open does; the errors are theirs. */
KERF_API KERF_CHECK kerf_status kerf_checkpoint_open(const char *path, kerf_checkpoint **out,
                                                     kerf_error *err);
KERF_API void kerf_checkpoint_close(kerf_checkpoint *c); /* NULL is fine */

/* The path as it was given, and what stands there. All live until the checkpoint is closed. */
KERF_API const char *kerf_checkpoint_path(const kerf_checkpoint *c);
KERF_API const kerf_reader *kerf_checkpoint_reader(const kerf_checkpoint *c);
KERF_API const kerf_weights *kerf_checkpoint_weights(const kerf_checkpoint *c);

/* How many of the weights are quantized, those included that kerf has no format for and decodes
 * while they are read. */
KERF_API size_t kerf_checkpoint_quantized(const kerf_checkpoint *c);

/* The same files with their experts as the loaders of a layout want them: one by one, or stacked.
 * It has names and weights of its own; c must outlive it. */
KERF_API KERF_CHECK kerf_status kerf_checkpoint_arrange(const kerf_checkpoint *c,
                                                        const kerf_layout *l, kerf_checkpoint **out,
                                                        kerf_error *err);

/* --- which weights ------------------------------------------------------------------------- */

/* Shell patterns over the names of weights (kerf_glob_matches) that narrow down what a call works
 * on; all zeros select what is worth quantizing. A pattern that matches no weight is KERF_E_ARG. */
typedef struct kerf_select {
    const char *const *keep; /* matching weights are left as they are                       */
    size_t keeps;
    const char *const *only; /* all others are left as they are; none given: all are taken  */
    size_t onlys;
    int all; /* 1: also embeddings, the output head, norms, routers and other weights that are
                small or lose more quality than they save bytes                             */
} kerf_select;

/* Weights that belong to the checkpoint, in its order. */
typedef struct kerf_selected {
    const kerf_weight **weight; /* [count]           */
    size_t count;
    uint64_t kept_bytes; /* of all the others */
} kerf_selected;

/* The weights that can be quantized and that s (NULL: all zeros) selects, maybe none. Free the
 * result with kerf_selected_free. */
KERF_API KERF_CHECK kerf_status kerf_select_weights(const kerf_checkpoint *c, const kerf_select *s,
                                                    kerf_selected *out, kerf_error *err);
KERF_API void kerf_selected_free(kerf_selected *s); /* all zeros are fine */

#ifdef __cplusplus
}
#endif
#endif
