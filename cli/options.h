/* options.h - text of the command line becomes the structs that the library takes. This is the only
 * place where it does. */
#ifndef KERF_OPTIONS_H
#define KERF_OPTIONS_H

#include <kerf/advise.h>
#include <kerf/recipe.h>

#include "args.h"

/* --- who computes: --device, -j, --nan ------------------------------------------------------ */

typedef struct team_option {
    kerf_exec *member; /* owned, with their devices */
    kerf_team team;    /* of these members          */
} team_option;

/* option_team_close gives devices back, also after a failure; all zeros are fine there. */
kerf_status option_team_open(team_option *t, const args *a, kerf_error *err);
void option_team_close(team_option *t);

/* The same for calls whose members are ranks, which share the rows of a text: one for each GPU. */
kerf_status option_ranks_open(team_option *t, const args *a, kerf_error *err);

/* For verbs that have one member: its --device is cpu, cuda or cuda:N. */
kerf_status option_exec_open(const args *a, kerf_exec *out, kerf_error *err);
void option_exec_close(kerf_exec *exec);

/* --- what becomes of which tensors: -f, --tensor, --recipe, --keep, --only ------------------ */

/* kerf_codec_find with every failure a usage error. */
kerf_status option_codec(const char *text, kerf_codec *out, kerf_error *err);

/* A list of -f: words of kerf_codec_list_add with commas between them. Free it also after a
 * failure.
 */
kerf_status option_codecs(const char *text, kerf_codec_list *out, kerf_error *err);

/* Patterns that narrow down a verb. They belong to the command line. */
typedef struct select_option {
    const char **glob; /* owned list */
    kerf_select select;
} select_option;

/* --keep, --only and --all-tensors, where the verb has them. */
kerf_status option_select_open(select_option *s, const args *a, kerf_error *err);
void option_select_close(select_option *s); /* all zeros are fine */

typedef struct rules_option {
    kerf_recipe *recipe; /* of --recipe; NULL: none            */
    kerf_rule *rule;     /* [count] its rules, then the others */
    size_t count;
    char **text; /* owned: patterns and origins of the others */
    size_t texts;
} rules_option;

/* The rules of --recipe, then those of --tensor, which overrule them. */
kerf_status option_rules_open(rules_option *r, const args *a, kerf_error *err);
void option_rules_close(rules_option *r); /* all zeros are fine */

/* --- what may be spent: --budget, --minimise ------------------------------------------------ */

/* Limits that are not given stay as they are. */
kerf_status option_budget(const args *a, kerf_budget *budget, kerf_price *minimise,
                          kerf_error *err);

/* --- what is written: -o, --layout, -y, --resume, --part, --shard-size, --zstd-level, -j ------ */

/* Texts belong to the command line. */
kerf_status option_output(const args *a, kerf_output *out, kerf_error *err);

/* --part alone, for verbs that write something else; zeros where it is not given. */
kerf_status option_part_of(const args *a, unsigned *part, unsigned *parts, kerf_error *err);

/* --- models -------------------------------------------------------------------------------- */

/* Where a model is that was named: the path as it is, or for what is no path here, "org/name" and
 * "models--org--name", its folder in the local cache of the Hugging Face hub, which is never
 * filled. The text lives until the ninth call after it. */
const char *model_path(const char *given);

/* Opens the model that is the first operand, for its weights: a note says when scales of a
 * quantized one make them no numbers, or other ones. */
kerf_status option_source_open(const args *a, kerf_checkpoint **out, kerf_error *err);

#endif
