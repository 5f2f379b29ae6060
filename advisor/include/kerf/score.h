/* score.h - what a format costs a tensor, or all tensors of a checkpoint: the size, and the error
 * of the bytes that would be written.
 *
 * A kerf_score holds sums only, so that the parts of a tensor, or the tensors of a model, merge by
 * addition; the figures that people read are functions of the sums. All sums are doubles, taken
 * in an order that depends on the tensor alone, never on the number of threads.
 *
 * w is an element of the source, v the same element decoded to fp32 from the stored bytes.
 */
#ifndef KERF_SCORE_H
#define KERF_SCORE_H

#include <kerf/calibrate.h>
#include <kerf/job.h>
#include <kerf/ranks.h>
#include <kerf/words.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Start from all zeros. */
typedef struct kerf_score {
    uint64_t elements;
    uint64_t bytes;         /* all planes                                                   */
    uint64_t clipped;       /* elements outside the range of their stored scale             */
    uint64_t nonfinite;     /* w is finite and v is not. Sums leave out elements of which w
                               or v is NaN or Inf                                           */
    double signal;          /* sum of w^2                                                   */
    double noise;           /* sum of (v - w)^2                                             */
    double cross;           /* sum of (v - w) w                                             */
    double weighted_signal; /* sum of h w^2, h the importance of the column                 */
    double weighted_noise;  /* sum of h (v - w)^2; by Gram matrices: kerf_score_request     */
    double max_error;       /* largest |v - w|                                              */
    double rest_signal;     /* signal and noise of what is not an outlier: where one scale serves a
                               whole matrix whose largest element is far above most others, those
                               below a 64th of it; else of all                              */
    double rest_noise;
    uint64_t zeroed;      /* elements of the rest that were not zero and are               */
    uint64_t lost_blocks; /* of 128 elements of a row, the rest alone: those that have lost more
                             than half of their signal. Zero where no scale is far above the others
                             or above its matrix, for there no block loses so much           */
    uint64_t code_bytes;  /* of the codes plane ...                                       */
    uint64_t zstd_bytes;  /* ... and of the same compressed; 0: they were not             */
} kerf_score;

KERF_API void kerf_score_merge(kerf_score *into, const kerf_score *from);

KERF_API double kerf_score_bpw(const kerf_score *s);         /* bits per weight, all planes      */
KERF_API double kerf_score_t2(const kerf_score *s);          /* noise / signal; 0 for 0 / 0      */
KERF_API double kerf_score_weighted_t2(const kerf_score *s); /* NaN without importance           */
KERF_API double kerf_score_rest_t2(const kerf_score *s);     /* t2 of what is not an outlier     */
KERF_API double kerf_score_zero_share(const kerf_score *s);  /* zeroed / elements                */
KERF_API double kerf_score_lost_share(const kerf_score *s);  /* of lost blocks in all            */
KERF_API double kerf_score_bias(const kerf_score *s);        /* cross / signal; < 0: shrinks     */
KERF_API double kerf_score_clip_share(const kerf_score *s);  /* clipped / elements               */
KERF_API double kerf_score_sqnr_db(const kerf_score *s);     /* -10 log10 t2; never to be summed */

/* --- what some bands lose ------------------------------------------------------------------ */

/* Sets *out to the sums over bands [b0, b1), without sizes: planes as for kerf_decode, src and
 * dtype as for kerf_encode, importance as in kerf_scorer_options (else KERF_E_ARG). Several threads
 * may do this at a time. Sums are made of runs of bands from b0 on, the last of which may be short,
 * and these are added up in order: merging the scores of single runs gives the same bits. */
KERF_API KERF_CHECK kerf_status kerf_score_bands(const kerf_geometry *g, uint64_t b0, uint64_t b1,
                                                 const kerf_cspan planes[KERF_PLANES],
                                                 kerf_cspan src, kerf_dtype dtype,
                                                 const float *importance, const kerf_exec *exec,
                                                 kerf_score *out, kerf_error *err);
/* Bands of a run; 0 where bands differ in size, and with them the runs of different calls. */
KERF_API uint64_t kerf_score_run(const kerf_geometry *g);

/* --- scoring one encoded tensor, some bands at a time -------------------------------------- */

typedef struct kerf_scorer_options {
    const float *importance; /* one weight per column of the tensor (its last dimension), from 0
                                to 1e30, kept by the caller; NULL: none                         */
    int zstd_level;          /* also compress the codes at this level, 1 to 22; 0: do not       */
} kerf_scorer_options;

typedef struct kerf_scorer kerf_scorer;

KERF_API KERF_CHECK kerf_status kerf_scorer_open(const kerf_geometry *g,
                                                 const kerf_scorer_options *opt, kerf_scorer **out,
                                                 kerf_error *err);

/* Begins anew with another tensor, in the memory that there is; options->zstd_level as before. */
KERF_API KERF_CHECK kerf_status kerf_scorer_reopen(kerf_scorer *s, const kerf_geometry *g,
                                                   const kerf_scorer_options *opt, kerf_error *err);

/* Adds bands [b0, b1): planes as for kerf_decode, src and dtype as for kerf_encode. Bands are
 * added in order, each once (else KERF_E_ARG). */
KERF_API KERF_CHECK kerf_status kerf_scorer_add(kerf_scorer *s, uint64_t b0, uint64_t b1,
                                                const kerf_cspan planes[KERF_PLANES],
                                                kerf_cspan src, kerf_dtype dtype,
                                                const kerf_exec *exec, kerf_error *err);

/* The same for bands that kerf_score_bands has measured; codes: their plane of codes, from which
 * something may be missing that a later call brings. */
KERF_API KERF_CHECK kerf_status kerf_scorer_merge(kerf_scorer *s, const kerf_score *bands,
                                                  kerf_cspan codes, kerf_error *err);

/* The score of what was added; size is that of the whole tensor. */
KERF_API KERF_CHECK kerf_status kerf_scorer_finish(kerf_scorer *s, kerf_score *out,
                                                   kerf_error *err);
KERF_API void kerf_scorer_close(kerf_scorer *s); /* NULL is fine */

/* --- scoring a checkpoint ------------------------------------------------------------------ */

typedef struct kerf_score_request {
    const kerf_select *select; /* which tensors; NULL: those that are quantized by default      */
    const kerf_codec *codec;   /* in what to score them, each with its encoder                  */
    size_t codecs;
    /* [codecs] 0: where this codec cannot encode all these tensors, it is left out; else that is a
     * failure. NULL: always a failure. */
    const unsigned char *required;
    /* Weighs errors: the importance of the columns of each weight that it names
     * (kerf/importance.h). NULL: none. */
    const kerf_checkpoint *imatrix;
    /* Where it has the Gram matrix G of a weight that the imatrix names, the weighted sums are
     * those of the error of its output: of d G d^T over rows d = v - w, and of w G w^T. Of large
     * matrices some rows are measured, and stand for the others. Takes 4 columns^2 bytes. NULL:
     * none. */
    const kerf_calibration *calibration;
    int feedback;   /* 1: weights whose Gram matrix the calibration has are encoded with error
                       feedback (kerf/feedback.h), as kerf_output.moments asks quantize to; 2: and
                       columns are gone over again                                                 */
    int zstd_level; /* also compress the codes at this level, 1 to 22; 0: do not */
    const kerf_ranks
        *ranks;       /* processes that measure together, and all get the result; NULL: none */
    const char *path; /* also keep the scores in this folder, for kerf_scores_open; NULL: do not */
    int overwrite;    /* 1: replace it; else KERF_E_EXISTS                                */
    int resume;       /* 1: go on with what a killed run of the same request has left    */
    /* Part `part` (from 1) of `parts`: some of the tensors, by bytes of work. What is measured
     * waits beside the path until all parts are there and kerf_merge (kerf/parts.h) makes the
     * folder of them. Which ones follows from source, request and the two numbers; a part that is
     * there and whole is left as it is. Not with ranks, and not without a path. 0: all of them */
    unsigned part, parts;
} kerf_score_request;

/* A codec that is not in the result. */
typedef struct kerf_left_out {
    kerf_codec codec;
    char reason[512]; /* which tensor it cannot encode, and why */
} kerf_left_out;

typedef struct kerf_scores {
    const char *source, *imatrix; /* paths; imatrix may be NULL                                */
    const kerf_weight **weight;   /* [tensors], in the order of the checkpoint                 */
    size_t tensors;
    size_t considered; /* tensors of the checkpoint, those that are not scored among them   */
    kerf_codec *codec; /* [codecs], in the order of the request                             */
    size_t codecs;
    kerf_score *score;       /* [tensors][codecs]                                            */
    kerf_score *total;       /* [codecs]: sums over all tensors                              */
    kerf_left_out *left_out; /* [left_outs] */
    size_t left_outs;
    int zstd_level;
    /* Tensors that were measured: with parts, those of this one, which an earlier run may have left
     * and whose scores are then zeros, as are those of other parts. Else all */
    size_t measured;
    struct kerf_scores_kept *kept; /* of kerf_scores_open */
} kerf_scores;

/* Encodes every selected tensor in every codec, decodes the bytes and measures what was lost;
 * writes nothing but the folder that was asked for. Each tensor is read once for all codecs. The
 * result is the same for every team. team NULL: the processor, all cores. KERF_E_ARG: no tensor is
 * selected, or no codec is left; KERF_E_NOSUP: a codec cannot encode a tensor; KERF_E_DATA: the
 * imatrix names none of the tensors or is damaged, or the source has a NaN or Inf that the team's
 * kerf_nan does not allow. Close the result with kerf_scores_close; source and imatrix must outlive
 * it. */
KERF_API KERF_CHECK kerf_status kerf_score_checkpoint(const kerf_checkpoint *source,
                                                      const kerf_score_request *request,
                                                      const kerf_team *team, const kerf_job *job,
                                                      kerf_scores **out, kerf_error *err);
KERF_API void kerf_scores_close(kerf_scores *s); /* NULL is fine */

/* Scores that were kept: what kerf_score_checkpoint gave, bit for bit, but weights have no more
 * than a name. They need no source. KERF_E_IO: it cannot be read; KERF_E_DATA: it is no folder of
 * scores, is damaged, or is in parts that are not merged. */
KERF_API KERF_CHECK kerf_status kerf_scores_open(const char *path, kerf_scores **out,
                                                 kerf_error *err);
/* *is: 1 when it may be a folder of scores. KERF_E_IO: it cannot be looked at; KERF_E_NOMEM. */
KERF_API KERF_CHECK kerf_status kerf_scores_find(const char *path, int *is, kerf_error *err);

/* The result as a JSON document with the schema kerf.score/1, as `kerf score --json` prints it:
 * malloc'd, ends in a 0 that n (may be NULL) does not count, to be freed. */
KERF_API KERF_CHECK kerf_status kerf_scores_write(const kerf_scores *s, char **text, size_t *n,
                                                  kerf_error *err);
/* The same for people, in the form that is asked for (kerf/words.h): totals of each format, and
 * each tensor where they are few, or where `every` asks for them. */
KERF_API KERF_CHECK kerf_status kerf_scores_text(const kerf_scores *s, int every,
                                                 const kerf_text_form *form, char **text, size_t *n,
                                                 kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
