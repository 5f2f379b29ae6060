/* advisor.h - what a format costs a tensor: its size, and the error of the bytes written.
 *
 * A kerf_score holds sums only, so that the parts of a tensor, or the tensors of a model, merge by
 * addition; the figures that people read are functions of the sums. All sums are doubles, taken
 * in an order that depends on the tensor alone, never on the number of threads.
 *
 * w is an element of the source, v the same element decoded to fp32 from the stored bytes.
 */
#ifndef KERF_ADVISOR_H
#define KERF_ADVISOR_H

#include <kerf/codec.h>

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
    double weighted_noise;  /* sum of h (v - w)^2                                           */
    double max_error;       /* largest |v - w|                                              */
    uint64_t code_bytes;    /* of the codes plane ...                                       */
    uint64_t zstd_bytes;    /* ... and of the same compressed; 0: not asked for             */
} kerf_score;

KERF_API void kerf_score_merge(kerf_score *into, const kerf_score *from);

KERF_API double kerf_score_bpw(const kerf_score *s);         /* bits per weight, all planes      */
KERF_API double kerf_score_t2(const kerf_score *s);          /* noise / signal; 0 for 0 / 0      */
KERF_API double kerf_score_weighted_t2(const kerf_score *s); /* NaN without importance           */
KERF_API double kerf_score_bias(const kerf_score *s);        /* cross / signal; < 0: shrinks     */
KERF_API double kerf_score_clip_share(const kerf_score *s);  /* clipped / elements               */

/* --- what some bands lose ------------------------------------------------------------------ */

/* Sets *out to the sums over bands [b0, b1), without sizes: planes as for kerf_decode, src and
 * dtype as for kerf_encode, importance as in kerf_scorer_options. Several threads may do this at a
 * time. Sums are made of runs of bands from b0 on, the last of which may be short, and these are
 * added up in order: whoever merges the scores of single runs finds the same bits. */
KERF_API KERF_CHECK kerf_status kerf_score_bands(const kerf_geometry *g, uint64_t b0, uint64_t b1,
                                                 const kerf_cspan planes[KERF_PLANES],
                                                 kerf_cspan src, kerf_dtype dtype,
                                                 const float *importance, const kerf_exec *exec,
                                                 kerf_score *out, kerf_error *err);
/* Bands of a run; 0 where bands differ in size, and with them the runs of different calls. */
KERF_API uint64_t kerf_score_run(const kerf_geometry *g);

/* --- scoring one encoded tensor, some bands at a time -------------------------------------- */

typedef struct kerf_scorer_options {
    const float *importance; /* one weight per column of the tensor (its last dimension), kept
                                by the caller; NULL: none                                       */
    int zstd_level;          /* also compress the codes at this level; 0: do not                */
} kerf_scorer_options;

typedef struct kerf_scorer kerf_scorer;

KERF_API KERF_CHECK kerf_status kerf_scorer_open(const kerf_geometry *g,
                                                 const kerf_scorer_options *opt, kerf_scorer **out,
                                                 kerf_error *err);

/* Begins anew with another tensor, in the memory that there is; options->zstd_level as before. */
KERF_API KERF_CHECK kerf_status kerf_scorer_reopen(kerf_scorer *s, const kerf_geometry *g,
                                                   const kerf_scorer_options *opt, kerf_error *err);

/* Adds bands [b0, b1): planes as for kerf_decode, src and dtype as for kerf_encode. Bands are
 * added in order, each once. */
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

#ifdef __cplusplus
}
#endif
#endif
