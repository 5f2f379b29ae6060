/* recipe.h - which tensor becomes what: a JSON file that advise writes, people edit and quantize
 * executes. Schema kerf.recipe/1:
 *
 *   {"schema": "kerf.recipe/1",
 *    "rules": [{"tensors": ["model.layers.0.self_attn.[qkv]_proj.weight"], "codec": "nvfp4:4/6",
 *               "why": "..."}, {"tensors": ["*.o_proj.weight"], "codec": "keep"}],
 *    "promise": {"tensors": {"NAME": {"codec": "nvfp4:4/6", "bytes": 1, "t2": 0.008}}}}
 *
 * Tensors are shell patterns; the last rule that matches counts; tensors that none matches are
 * kept. The promise is what was measured when the recipe was made; quantize measures again. A
 * tensor whose codec was edited has no promise any more. */
#ifndef KERF_RECIPE_H
#define KERF_RECIPE_H

#include <jansson.h>

#include "args.h"
#include "score/compare.h"

typedef struct recipe {
    const char *path;
    json_t *doc;
} recipe;

kerf_status recipe_open(recipe *r, const char *path, kerf_error *err);
void recipe_close(recipe *r); /* all zeros are fine */

/* The i-th pattern of the recipe and its codec (format NULL: keep); 0 past the end. Valid until
 * recipe_close. */
int recipe_rule_at(const recipe *r, size_t i, const char **glob, kerf_codec *codec);

/* Reads back what was written at `output`, measures it against `source` and compares with the
 * promise; tells on standard error. EXIT_OK, EXIT_MISMATCH, or a kerf_status. */
int recipe_check(const char *path, const kerf_checkpoint *source, const char *output,
                 const kerf_exec *exec, const args *a, kerf_error *err);

#endif
