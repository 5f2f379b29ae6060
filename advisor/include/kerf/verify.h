/* verify.h - what a quantized checkpoint has lost against its source, and whether that is allowed.
 *
 * A limits file says what each tensor may lose. It is JSON with the schema kerf.limits/1:
 *
 *   {"schema": "kerf.limits/1",
 *    "default": {"t2": 0.02},
 *    "tensors": {"*down_proj*": {"t2": 0.03, "max_error": 0.1}, "...": {...}}}
 *
 * Keys of "tensors" are shell patterns. All that match a name apply, a later one over an earlier
 * one, and all of them over "default". A figure that none of them names has no limit. A pattern
 * that matches no tensor of the source is an error, for it may be misspelt.
 */
#ifndef KERF_VERIFY_H
#define KERF_VERIFY_H

#include <kerf/checkpoint.h>
#include <kerf/score.h>
#include <kerf/words.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- limits -------------------------------------------------------------------------------- */

/* The figures of a kerf_score that can have a limit. */
typedef enum kerf_figure {
    KERF_FIGURE_T2,
    KERF_FIGURE_MAX_ERROR,
    KERF_FIGURE_BIAS, /* by its magnitude */
    KERF_FIGURE_CLIP_SHARE,
    KERF_FIGURE_BPW,        /* held to three digits: kerf_bits_most */
    KERF_FIGURE_REST_T2,    /* t2 of what is not an outlier */
    KERF_FIGURE_ZERO_SHARE, /* of that, what has become zero */
    KERF_FIGURE_LOST_SHARE, /* blocks of 128 that have lost more than half of themselves */
    KERF_FIGURES
} kerf_figure;

KERF_API const char *kerf_figure_name(kerf_figure f); /* "max_error", as in a limits file */
KERF_API double kerf_figure_of(const kerf_score *s, kerf_figure f);

typedef struct kerf_limits kerf_limits;

/* What applies where there is no limits file: t2 <= kerf_limit_t2 of the tensor's format, rest_t2
 * <= KERF_LIMIT_T2, and no block is lost. */
#define KERF_LIMIT_T2 0.5
/* Sixteen times what normally distributed numbers lose in this format with its default encoder;
 * 0.05 where one scale serves integers of a row or a matrix, whose outliers cost more; at most
 * KERF_LIMIT_T2. NULL: KERF_LIMIT_T2. */
KERF_API double kerf_limit_t2(const kerf_format *f);

/* Reads a limits file, or its text of n bytes; `name` stands for the file in failures. KERF_E_IO:
 * it cannot be read; KERF_E_DATA: it is no JSON, names an unknown figure, or has a limit that is
 * not a number of 0 or more. Close the result with kerf_limits_close. */
KERF_API KERF_CHECK kerf_status kerf_limits_open(const char *path, kerf_limits **out,
                                                 kerf_error *err);
KERF_API KERF_CHECK kerf_status kerf_limits_parse(const char *text, size_t n, const char *name,
                                                  kerf_limits **out, kerf_error *err);
KERF_API void kerf_limits_close(kerf_limits *l); /* NULL is fine */

/* Its patterns, "default" among them; l NULL: 0. */
KERF_API size_t kerf_limits_count(const kerf_limits *l);

/* The limits of one tensor in this format; INFINITY: none. l NULL: those without a limits file.
 * Returns how many limits l has for it. */
KERF_API unsigned kerf_limits_of(const kerf_limits *l, const char *tensor, const kerf_format *f,
                                 double out[KERF_FIGURES]);

/* --- verify -------------------------------------------------------------------------------- */

/* One tensor of the source beside the tensor of the same name in the other checkpoint. */
typedef struct kerf_verify_row {
    const kerf_weight *weight;
    const kerf_weight *other;   /* NULL: missing                                               */
    int measured;               /* score holds figures; else the two were compared byte for byte */
    kerf_score score;           /* of `other`, measured against `weight`; of a quantized weight that
                                   is equal, where others were measured: its elements, no error */
    double limit[KERF_FIGURES]; /* INFINITY: none                                              */
    unsigned over;              /* bit f: figure f is over its limit, or NaN                   */
    char problem[160];          /* what is wrong besides figures; empty: nothing               */
} kerf_verify_row;

typedef struct kerf_verification {
    const char *source, *other; /* paths of the checkpoints                                    */
    kerf_verify_row *row;       /* one for each tensor of the source, in its order             */
    size_t rows;
    const char **extra; /* names of tensors that only the other checkpoint has         */
    size_t extras;
    kerf_score total;       /* of all measured rows, and of weights that were quantized in the
                               source and are equal to it                                      */
    size_t measured, equal; /* rows that were measured, and rows equal byte for byte           */
    size_t over;            /* limits that were exceeded, all rows together                    */
    size_t problems;        /* rows with a problem, and extras                                 */
    int passed;             /* nothing is over a limit and there is no problem                 */
    size_t nonfinite; /* rows compared byte for byte, with NaN or Inf in the source; no masks  */
    const char *first_nonfinite; /* the first of them, as the source names it; else NULL       */
} kerf_verification;

typedef struct kerf_verify_options {
    const kerf_limits *limits;   /* NULL: those of each format. KERF_E_DATA: patterns of which none
                                    matches a tensor                                           */
    int by_value;                /* measure dense tensors too, where their bytes may differ      */
    int exact;                   /* encode what is quantized again, by its recorded encoder, and
                                    compare every byte                                           */
    const kerf_moments *moments; /* for `exact`, of weights that were rounded with error feedback:
                                    those that made them, else that is a problem of the weight    */
} kerf_verify_options;

/* Compares every tensor of `source` with the one of the same name in `other`:
 *   dense and quantized   decoded and measured
 *   quantized and dense   the second must be the exact decoding of the first
 *   of the same kind      equal byte for byte, or measured where options->by_value
 * Experts of the source are arranged as those of `other` before. That a tensor differs, is missing
 * or over its limit is a result, not a failure. options NULL: all zeros. team NULL: the processor,
 * all cores. KERF_E_ARG: a pattern of options->limits matches no tensor, though another does;
 * KERF_E_DATA: of those that were measured none has a limit. Close the result with
 * kerf_verification_close; both checkpoints must outlive it. */
KERF_API KERF_CHECK kerf_status kerf_verify(const kerf_checkpoint *source,
                                            const kerf_checkpoint *other,
                                            const kerf_verify_options *options,
                                            const kerf_team *team, const kerf_job *job,
                                            kerf_verification **out, kerf_error *err);
KERF_API void kerf_verification_close(kerf_verification *v); /* NULL is fine */

/* The measured rows into order[rows], those with NaN or Inf of their own first, then the
 * largest t2; returns how many they are. */
KERF_API size_t kerf_verification_worst(const kerf_verification *v, const kerf_verify_row **order);

/* The text of a limits file that allows what was measured and 2 % more. */
KERF_API KERF_CHECK kerf_status kerf_verification_limits(const kerf_verification *v, char **text,
                                                         size_t *n, kerf_error *err);
/* The result as a JSON document with the schema kerf.verify/1, as `kerf verify --json` prints it.
 * Texts are malloc'd, end in a 0 that n (may be NULL) does not count, and are to be freed. */
KERF_API KERF_CHECK kerf_status kerf_verification_write(const kerf_verification *v, char **text,
                                                        size_t *n, kerf_error *err);
/* The same for people, in the form that is asked for (kerf/words.h): the ten worst tensors, or all
 * of them where `every` asks for that. */
KERF_API KERF_CHECK kerf_status kerf_verification_text(const kerf_verification *v, int every,
                                                       const kerf_text_form *form, char **text,
                                                       size_t *n, kerf_error *err);

/* The result for the programs that run kerf: JUnit's XML, as Jenkins, GitLab and others read it, a
 * test per tensor; Markdown, with the limits that were exceeded and the ten worst tensors; lines
 * that GitHub Actions shows beside a run, an ::error for each problem and limit, 50 at most. */
typedef enum kerf_verify_kind {
    KERF_VERIFY_JUNIT,
    KERF_VERIFY_MARKDOWN,
    KERF_VERIFY_ANNOTATIONS
} kerf_verify_kind;

/* As kerf_verification_write. Characters that a kind gives a meaning to are escaped; control
 * characters, and what is not UTF-8, become '?'. */
KERF_API KERF_CHECK kerf_status kerf_verification_report(const kerf_verification *v,
                                                         kerf_verify_kind kind, char **text,
                                                         size_t *n, kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
