/* recipe.h - which tensor becomes what, as a file: advise writes it, people edit it, and quantize
 * executes it. It is JSON with the schema kerf.recipe/1:
 *
 *   {"schema": "kerf.recipe/1", "layout": "compressed-tensors",
 *    "rules": [{"tensors": ["model.layers.0.self_attn.[qkv]_proj.weight"], "codec": "nvfp4:4/6",
 *               "why": "..."}, {"tensors": ["*.o_proj.weight"], "codec": "keep"}],
 *    "promise": {"tensors": {"NAME": {"codec": "nvfp4:4/6", "bytes": 1, "t2": 0.008}}}}
 *
 * Tensors are shell patterns. The last rule that matches a name counts; a tensor that no rule
 * matches is kept as it is. The layout, which may be left out, is what the output is written in.
 * "feedback": "0123456789abcdef" asks for error feedback by the calibration of that number.
 * The promise is what was measured when the recipe was made: kerf_recipe_check measures again. A
 * tensor whose codec was edited has no promise any more.
 */
#ifndef KERF_RECIPE_H
#define KERF_RECIPE_H

#include <kerf/calibrate.h>
#include <kerf/job.h>
#include <kerf/quantize.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What was measured for one tensor. */
typedef struct kerf_promise {
    const char *tensor; /* its name      */
    const char *codec;  /* "nvfp4:4/6"   */
    uint64_t bytes;     /* of all planes */
    double t2;
} kerf_promise;

/* Texts belong to the recipe. */
typedef struct kerf_recipe {
    const char *name;      /* of the file, for messages                             */
    const kerf_rule *rule; /* [rules], one for each pattern, in the order of the file */
    size_t rules;
    const kerf_promise *promise; /* [promises] */
    size_t promises;
    const kerf_layout *layout; /* that it was made for; NULL: any */
    uint64_t feedback;         /* encode with error feedback by the calibration of this number
                                  (kerf_moments.contents); 0: without                                    */
} kerf_recipe;

/* Reads a recipe of at most 256 MiB, or its text of n bytes; `name` stands for the file in
 * failures. KERF_E_IO: it cannot be read; KERF_E_LIMIT: it is larger; KERF_E_DATA: it is no JSON or
 * no recipe, with the place in the text. Close the result with kerf_recipe_close. */
KERF_API KERF_CHECK kerf_status kerf_recipe_open(const char *path, kerf_recipe **out,
                                                 kerf_error *err);
KERF_API KERF_CHECK kerf_status kerf_recipe_parse(const char *text, size_t n, const char *name,
                                                  kerf_recipe **out, kerf_error *err);
KERF_API void kerf_recipe_close(kerf_recipe *r); /* NULL is fine */

/* The moments by which a recipe's tensors, or with r NULL others, are rounded with error feedback
 * (kerf_output.moments): those of c, which must outlive them; columns are gone over again where
 * `again` is set or the recipe was made so. KERF_E_DATA: the recipe was made with another
 * calibration.
 */
KERF_API KERF_CHECK kerf_status kerf_recipe_moments(const kerf_recipe *r, const kerf_calibration *c,
                                                    int again, kerf_moments *out, kerf_error *err);

/* What a plan takes of a calibration besides the importance of columns, which it always does. */
typedef struct kerf_calibrated {
    int feedback;     /* 1: weights are rounded with error feedback (kerf_output.moments) ...  */
    int again;        /* ... and 1: columns are gone over again                                */
    int input_scales; /* 1: scales of inputs are made (kerf_output.inputs)                     */
    const kerf_format *kv; /* fp8-e4m3: so is the KV cache (kerf_output.cached); NULL: nothing */
} kerf_calibrated;

/* Sets of `to` what comes of c, a calibration of `source`, which must outlive the plan, and so must
 * *moments, room for those. An imatrix that is there stays. c NULL: there is none. r: the recipe,
 * which may ask for error feedback; NULL: none. KERF_E_ARG: something needs a calibration, or a
 * cache in another format; KERF_E_DATA: c is of another model, or the recipe was made with another
 * one. */
KERF_API KERF_CHECK kerf_status kerf_output_calibrate(kerf_output *to, const kerf_calibrated *what,
                                                      const kerf_recipe *r,
                                                      const kerf_calibration *c,
                                                      const kerf_checkpoint *source,
                                                      kerf_moments *moments, kerf_error *err);

typedef struct kerf_recipe_result {
    size_t kept, broken; /* promises                                                         */
    size_t edited;       /* tensors whose codec is another one than when the recipe was made */
    char first[400];     /* the first broken promise in words; empty: none is broken         */
} kerf_recipe_result;

/* Measures what was written at `output` against the source, and compares it with the promises of
 * the recipe. further: rules that were applied after those of the recipe; what they match counts as
 * edited. A broken promise is a result, not a failure. exec NULL: the processor, all cores. */
KERF_API KERF_CHECK kerf_status kerf_recipe_check(const kerf_recipe *r, const kerf_rule *further,
                                                  size_t furthers, const kerf_checkpoint *source,
                                                  const kerf_checkpoint *output,
                                                  const kerf_exec *exec, const kerf_job *job,
                                                  kerf_recipe_result *out, kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
