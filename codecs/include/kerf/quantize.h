/* quantize.h - checkpoints from checkpoints: quantize, dequantize, move to another layout.
 *
 *   kerf_checkpoint *in;                               kerf/checkpoint.h
 *   kerf_plan *plan;
 *   kerf_checkpoint_open("model/", &in, &err)
 *   kerf_codec_find("nvfp4:4/6", &codec, &err)
 *   kerf_plan_make(in, NULL, NULL, 0, codec, &(kerf_output){.path = "out/"}, &plan, &err)
 *   kerf_plan_at(plan, i)                              what will become of each weight, and why
 *   kerf_quantize(plan, NULL, NULL, NULL, &err)
 *
 * An output is whole or absent: it appears under its path when all of it is on disk, was read back
 * and is what was meant to be written. A call that fails or is canceled (kerf/job.h) leaves nothing
 * behind, unless `resume` asks for it. Canceling takes at most 100 ms, save for what cannot be
 * interrupted: a sync of the disk, the packing of 1 MiB at the highest levels of zstd, and with
 * error feedback the reading of a Gram matrix, by count two tenths of a second for 14,336 columns,
 * and on a GPU 128 MiB of a weight, mostly a tenth of a second.
 *
 * The bytes depend on the source, the plan and `nan` of the team: never on the number of threads,
 * on who computes, or on runs that were broken off. */
#ifndef KERF_QUANTIZE_H
#define KERF_QUANTIZE_H

#include <kerf/importance.h>
#include <kerf/job.h>
#include <kerf/parts.h>
#include <kerf/ranks.h>
#include <kerf/words.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is written, and where; all zeros but for the path are usual. */
typedef struct kerf_output {
    const char *path; /* *.safetensors, *.safetensors.zst, *.gguf, else a folder. A file merges the
                         files of the source, a folder mirrors them                              */
    const kerf_layout *layout; /* NULL: gguf for *.gguf, else kerf                               */
    int overwrite;             /* 1: replace what is at the path; else that is KERF_E_EXISTS     */
    int resume;     /* 1: go on with what a run that was killed has left for the same path,
                       source and plan, after comparing it, and leave what is finished to
                       the next run when this one does not end well                        */
    int zstd_level; /* 1 to 22, of *.zst alone; 0: 3                                        */
    int threads;    /* for compressing and reading back; 0: all cores                       */
    const kerf_checkpoint *imatrix; /* of the inputs (kerf/importance.h), for encoders that take it:
                                       must outlive the plan; NULL: none                         */
    const kerf_moments *moments;    /* weights that it has are rounded with error feedback: must
                                       outlive the plan; NULL: none                              */
    kerf_inputs inputs;   /* layers get scales of their inputs where the layout has them beside the
                             format (kerf_layout_input) and the source none; all zeros: none. What is
                             behind ctx and path must outlive the plan                           */
    kerf_cached cached;   /* the KV cache is FP8 (E4M3), and each attention gets a scale of its keys
                             and one of its values: of layouts modelopt and compressed-tensors. All
                             zeros: what the source says of its cache. Lives as long as `inputs`   */
    uint64_t shard_bytes; /* a folder: new files of at most this size, but no weight is split;
                             0: the files of the source                                          */
    /* Part `part` (from 1) of `parts`: of a folder, some of its files, which wait beside the path
     * until all parts are there and kerf_merge (kerf/parts.h) makes the output of them. Which ones
     * follows from source, plan and the two numbers. A part that is there and whole is left as it
     * is. 0: the whole output */
    unsigned part, parts;
    /* Processes that write it together: each file of a folder is a part, which goes to the rank
     * that is free, the one with the most work first; rank 0 makes the output of them, and then all
     * return. What a run that was killed has finished is found by the next, with any number of
     * ranks. NULL: this process is alone */
    const kerf_ranks *ranks;
} kerf_output;

/* --- plan ---------------------------------------------------------------------------------- */

/* Another format for the weights that a pattern matches. A pattern with wildcards that matches some
 * which are quantized by default is for those alone: it leaves norms, biases and routers among its
 * matches, and one that matches matrices leaves vectors. What is left as it is by default takes a
 * pattern that matches nothing better ("*lm_head*") or its whole name. Patterns of recipes, and
 * those that leave weights as they are, take all that they match. Of several rules that take a
 * weight the last one counts. */
typedef struct kerf_rule {
    const char *glob;   /* over names of weights, as kerf_glob_matches reads it           */
    const char *origin; /* what asks for it, as reasons and errors call it: "--tensor *=nf4";
                           NULL: the pattern                                              */
    kerf_codec codec;   /* format NULL: the weight is left as it is                       */
} kerf_rule;

/* What becomes of one weight. */
typedef struct kerf_decision {
    const kerf_weight *weight;
    kerf_codec codec;         /* format NULL: it is left as it is              */
    char reason[96];          /* why it is left, or which rule asks for the codec; else empty */
    int decoded;              /* 1: left, in its dense type, for the output has another layout than
                                 the one that it is quantized in                              */
    int dropped;              /* 1: left out: a scale of what was quantized and is decoded now */
    const kerf_format *asked; /* the format that `base` asked for, where the layout cannot hold the
                                 weight in it: it is left, or has the one that the layout's own
                                 quantizer falls back to; else NULL */
} kerf_decision;

typedef struct kerf_totals {
    size_t weights, quantized; /* quantized: by this plan         */
    uint64_t elements;
    uint64_t bytes_in, bytes_out; /* of tensors, without headers */
} kerf_totals;

typedef struct kerf_plan kerf_plan;

/* Decides for every weight of `source`, which must outlive the plan; nothing is written. select
 * (NULL: all zeros) says which weights get `base`; a rule overrules it. base with format NULL: only
 * rules quantize. What the layout of the output cannot hold so is left as it is; in a GGUF file
 * rows that are no multiple of 256 get what llama.cpp falls back to, q5_0 in place of q4_k. out:
 * the path may be NULL for a plan that is only looked at. Texts are copied. A plan that quantizes
 * nothing can be looked at, not executed. KERF_E_ARG: a codec without an encoder, a pattern that
 * matches no weight, a rule that cannot be followed, layers that loaders merge would differ in
 * format, or path and layout do not fit. KERF_E_NOSUP: a weight cannot be encoded so, is quantized
 * already in another layout, or the loaders of the layout cannot be told of such a mixture.
 * KERF_E_DATA: a name that is needed is taken. */
KERF_API KERF_CHECK kerf_status kerf_plan_make(const kerf_checkpoint *source,
                                               const kerf_select *select, const kerf_rule *rules,
                                               size_t rule_count, kerf_codec base,
                                               const kerf_output *out, kerf_plan **plan,
                                               kerf_error *err);
KERF_API void kerf_plan_free(kerf_plan *p); /* NULL is fine */

/* The decision for weight i of the plan's source; NULL past the end. */
KERF_API const kerf_decision *kerf_plan_at(const kerf_plan *p, size_t i);
/* Bytes of the weight when the decision is carried out. */
KERF_API uint64_t kerf_decision_bytes(const kerf_decision *d);
/* What the plan could not tell, a line each: tensors of unknown role, a model that is in no row of
 * the table of families (kerf/roles.h); an imatrix that changes nothing, a rule that decides
 * nothing; and after kerf_quantize what it has seen: NaN and Inf in weights that are kept, weights
 * of nothing but zeros. NULL past the end. */
KERF_API const char *kerf_plan_note(const kerf_plan *p, size_t i);
KERF_API void kerf_plan_totals(const kerf_plan *p, kerf_totals *out);
KERF_API const kerf_layout *kerf_plan_layout(const kerf_plan *p);
/* The source as the plan sees it: experts that the layout wants arranged another way (one by one,
 * or stacked) are arranged so. It belongs to the plan. */
KERF_API const kerf_checkpoint *kerf_plan_source(const kerf_plan *p);

/* --- write --------------------------------------------------------------------------------- */

/* What one part wrote; without parts, all of it. */
typedef struct kerf_share {
    size_t shards, of_shards;
    uint64_t bytes; /* of their tensors */
} kerf_share;

/* What a call has done: with parts, what all of them do, but for `share` and `seconds`. */
typedef struct kerf_result {
    size_t changed, kept; /* weights that were quantized, decoded or converted; all others */
    uint64_t bytes_in, bytes_out; /* of tensors, without headers */
    double seconds;
    kerf_share share;
    size_t nonfinite; /* of kerf_dequantize: weights with NaN or Inf in the output, but masks */
    const char *first_nonfinite; /* the first of them, as the source names it; else NULL      */
} kerf_result;

/* Writes what the plan says. Phases that job is told of: "comparing what is there" (with resume),
 * "writing", "comparing what was written". team, job and result may be NULL. KERF_E_ARG: the plan
 * quantizes no weight; the text has the reason for one of them. KERF_E_DATA: NaN or Inf in a weight
 * that is quantized, with its name and place, unless `nan` of the team accepts it. */
KERF_API KERF_CHECK kerf_status kerf_quantize(const kerf_plan *p, const kerf_team *team,
                                              const kerf_job *job, kerf_result *result,
                                              kerf_error *err);

/* What becomes of each weight, and what was written, as JSON, schema kerf.quantize/1: malloc'd,
 * ends in a 0 that n (may be NULL) does not count, to be freed. r: of kerf_quantize; NULL: the plan
 * was only looked at.
 */
KERF_API KERF_CHECK kerf_status kerf_plan_write(const kerf_plan *p, const kerf_result *r,
                                                char **text, size_t *n, kerf_error *err);
/* The same for people, in the form that is asked for (kerf/words.h): a table where r is NULL, else
 * sums of what was written in a line; then the notes of the plan. */
KERF_API KERF_CHECK kerf_status kerf_plan_text(const kerf_plan *p, const kerf_result *r,
                                               const kerf_text_form *form, char **text, size_t *n,
                                               kerf_error *err);

/* Writes every quantized weight as one dense tensor of its own name, and all others as they are.
 * dtype: F32, F16 or BF16 of all decoded weights; KERF_DTYPE_NONE: the type that each had before it
 * was quantized. out->layout is not looked at. KERF_E_NOSUP: nothing is quantized, or a tensor
 * belongs to a quantized weight that kerf cannot read. */
KERF_API KERF_CHECK kerf_status kerf_dequantize(const kerf_checkpoint *source, kerf_dtype dtype,
                                                const kerf_output *out, const kerf_team *team,
                                                const kerf_job *job, kerf_result *result,
                                                kerf_error *err);

/* What that call has done as JSON, schema kerf.dequantize/1, as kerf_plan_write writes. */
KERF_API KERF_CHECK kerf_status kerf_dequantized_write(const kerf_checkpoint *source,
                                                       const kerf_output *out, const kerf_result *r,
                                                       char **text, size_t *n, kerf_error *err);
/* The same for people, in some lines. */
KERF_API KERF_CHECK kerf_status kerf_dequantized_text(const kerf_checkpoint *source,
                                                      const kerf_output *out, const kerf_result *r,
                                                      const kerf_text_form *form, char **text,
                                                      size_t *n, kerf_error *err);

/* What did not survive a conversion; all zeros: nothing was lost. */
typedef struct kerf_losses {
    uint64_t input_scales; /* scales of activations that keep names which the new layout does not
                              read                                                                */
    uint64_t smoothed;     /* layers whose inputs must be multiplied by a pre_quant_scale, which the
                              new layout does not read                                            */
    uint64_t groups;       /* groups of layers that loaders merge, whose tensor scales differ: they
                              take the largest for all                                            */
    uint64_t rounded;      /* scales stored as another number, a reciprocal for one, that fp32
                              rounds: converted back they differ in the last place                */
    uint64_t foreign;      /* block scales whose byte one of the layouts reads as another number  */
    uint64_t cache;        /* 1: config.json said that the KV cache is quantized, in a way that the
                              new layout has no words for                                         */
    uint64_t undeclared;   /* 1: the new layout's loaders look in config.json for how weights are
                              quantized, and the source has none that could say it                */
} kerf_losses;

/* The i-th kind of loss in words, to be written behind its number, which is *count; NULL past the
 * end. */
KERF_API const char *kerf_losses_at(const kerf_losses *l, size_t i, uint64_t *count);

/* Writes the codes and scales of every quantized weight as out->layout has them, code for code, and
 * copies all others. result and losses may be NULL. KERF_E_NOSUP: something cannot move, with the
 * reason. */
KERF_API KERF_CHECK kerf_status kerf_convert(const kerf_checkpoint *source, const kerf_output *out,
                                             const kerf_job *job, kerf_result *result,
                                             kerf_losses *losses, kerf_error *err);

/* What that call has done as JSON, schema kerf.convert/1, as kerf_plan_write writes. */
KERF_API KERF_CHECK kerf_status kerf_converted_write(const kerf_checkpoint *source,
                                                     const kerf_output *out, const kerf_result *r,
                                                     const kerf_losses *losses, char **text,
                                                     size_t *n, kerf_error *err);
/* The same for people, in a line, and one for each kind of loss. */
KERF_API KERF_CHECK kerf_status kerf_converted_text(const kerf_checkpoint *source,
                                                    const kerf_output *out, const kerf_result *r,
                                                    const kerf_losses *losses,
                                                    const kerf_text_form *form, char **text,
                                                    size_t *n, kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
