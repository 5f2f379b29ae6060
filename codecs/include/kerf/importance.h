/* importance.h - how much each input of a layer matters: the mean square of what its weight is
 * multiplied by, column by column (an "imatrix"). Scores weigh errors by it, and encoders that take
 * it (kerf_takes_importance) choose their bytes by it.
 *
 * Three forms are read, each opened with kerf_checkpoint_open:
 *
 * - safetensors: one F32 tensor of a value per column, named as the weight; of a stack [experts,
 *   columns], with the tokens of each in NAME.count: what kerf calibrate writes;
 * - GGUF as llama.cpp writes it: NAME.in_sum2 [experts, columns] and NAME.counts [experts];
 * - imatrix.dat, its older form, where 0 calls say that the values are means.
 *
 * A matrix that saw no token counts every column the same, and so does one whose values are all 0.
 *
 * llama.cpp's files name tensors as GGUF does (blk.3.ffn_up.weight). A weight that is called
 * otherwise (model.layers.3.mlp.up_proj.weight) finds the entry with its layer, role and piece
 * (kerf/roles.h); one of several experts finds its row, and a merged matrix the entry of one of its
 * parts. */
#ifndef KERF_IMPORTANCE_H
#define KERF_IMPORTANCE_H

#include <kerf/checkpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kerf_importance {
    float *value;   /* [count], finite and not negative, malloc'd; NULL: there is none */
    uint64_t count; /* columns of the weight, or columns of each of its matrices */
} kerf_importance;

/* Of one weight; imatrix NULL: none. together: 1 makes one value per column of a stack too, the
 * sums of all experts over the tokens of all. KERF_E_DATA: the entry has another type or shape, or
 * a value that is negative, not finite, or above 1e30. */
KERF_API KERF_CHECK kerf_status kerf_importance_read(const kerf_checkpoint *imatrix,
                                                     const kerf_weight *w, int together,
                                                     kerf_importance *out, kerf_error *err);
KERF_API void kerf_importance_free(kerf_importance *i); /* all zeros are fine */

/* 1: imatrix has an entry for w. */
KERF_API int kerf_importance_names(const kerf_checkpoint *imatrix, const kerf_weight *w);

/* Where the second moments of inputs come from, for encoding with error feedback (kerf/feedback.h):
 * kerf_calibration_moments has those of a calibration. Any thread may call it. */
typedef struct kerf_moments {
    const void *ctx;
    int (*has)(const void *ctx, const kerf_weight *w);
    /* The mean of x x^T over the inputs of w: malloc'd, [columns][columns]; NULL: it has none. */
    kerf_status (*read)(const void *ctx, const kerf_weight *w, float **out, kerf_error *err);
    uint64_t contents; /* a number for all of them, not 0, and ... */
    const char *path;  /* ... a name for messages                  */
    int again; /* 1: columns are gone over again (kerf_feedback_again): kerf_moments_again */
} kerf_moments;

/* Asks for that, and changes the number: what is written says by it which of both made it. */
KERF_API void kerf_moments_again(kerf_moments *m);

/* Where the largest inputs of layers come from, which scales of inputs beside weights are made of
 * (kerf_layout_input): kerf_calibration_inputs has those of a calibration. */
typedef struct kerf_inputs {
    const void *ctx;
    /* The largest |x| that the layer of w has met; 0: nothing came, as to an expert that no token
     * chose; NaN: not known. NULL: there is no such source. */
    kerf_status (*largest)(const void *ctx, const kerf_weight *w, float *out, kerf_error *err);
    const char *path; /* a name for messages */
} kerf_inputs;

/* Where the largest keys and values come from that layers keep in their cache, which its scales are
 * made of: kerf_calibration_cached has those of a calibration. */
typedef struct kerf_cached {
    const void *ctx;
    /* out[2]: the largest |k| and |v| of the layer of w; NaN: not known. NULL: there is no such
     * source. */
    kerf_status (*largest)(const void *ctx, const kerf_weight *w, float *out, kerf_error *err);
    const char *path; /* a name for messages */
} kerf_cached;

/* Writes what imatrix says of the weights of `source` as llama.cpp does: a GGUF file with sums of
 * squares and counts, under the names that llama.cpp has for them. chunks: rows of `length` tokens
 * that it was made of. KERF_E_DATA: it names none of them; KERF_E_NOSUP: weights that llama.cpp has
 * no name for; KERF_E_EXISTS: the path is there and overwrite is 0. */
KERF_API KERF_CHECK kerf_status kerf_imatrix_write(const kerf_checkpoint *imatrix,
                                                   const kerf_checkpoint *source, uint64_t chunks,
                                                   uint64_t length, const char *path, int overwrite,
                                                   kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
