/* selftest.h - are the bytes of this machine the bytes of every machine?
 *
 * Two questions per codec. Golden vectors: on every backend, does it write what an independent
 * program, or the package that the encoder is named after, has written? Trials: does every backend
 * agree with the scalar reference on tensors of all shapes and numbers, and does the digest of all
 * that the reference wrote and read equal the one recorded when this version was made?
 *
 * The library carries the golden vectors and the digests; no file is needed.
 */
#ifndef KERF_SELFTEST_H
#define KERF_SELFTEST_H

#include <kerf/job.h>
#include <kerf/words.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Start from all zeros. */
typedef struct kerf_selftest_options {
    const kerf_format *const *format;
    size_t formats;      /* 0: all */
    kerf_device *device; /* tried instead of the processor's backends, and its bytes give the
                            digests; NULL: the processor                                      */
    const char *vectors; /* path of a file of golden vectors, in the form of tests/golden and named
                            after its format, as in nvfp4.txt: these alone are checked. NULL: the
                            library's own, then trials                                        */
} kerf_selftest_options;

/* What was found out about one codec. */
typedef struct kerf_selftest_row {
    kerf_codec codec;
    int tried;                  /* trials were made, so that there is a digest                  */
    int recorded;               /* this version knows what the digest must be                   */
    uint64_t digest, expected;  /* of what the codec wrote and read; as it was recorded         */
    uint64_t vectors;           /* golden vectors that it was held against                      */
    size_t problems;            /* 0: it passes                                                 */
    const char *const *problem; /* the first `texts` of them, a line each                       */
    size_t texts;
} kerf_selftest_row;

typedef struct kerf_selftest_result {
    const kerf_selftest_row *row; /* by format, its encoders in the order of the table          */
    size_t rows;
    size_t passed, failed;
    size_t unrecorded;          /* codecs with a digest that this version does not know         */
    uint64_t vectors;           /* golden vectors, of all rows                                  */
    size_t tensors;             /* of which trials are made at most; 0: none were made          */
    const char *const *backend; /* that were tried                                              */
    size_t backends;
    double seconds; /* that the call took */
} kerf_selftest_result;

/* Some ten seconds on two cores. A failed codec is a row with problems, not a failure of the call;
 * those are KERF_E_DATA (malformed vectors), KERF_E_ARG (the file is not named after a format),
 * KERF_E_IO, KERF_E_NOMEM, KERF_E_CUDA and KERF_E_CANCELED. The job is told of every codec, and of
 * progress in bytes of tensors. o may be NULL: all defaults. *out is NULL after a failure. */
KERF_API KERF_CHECK kerf_status kerf_selftest(const kerf_selftest_options *o, const kerf_job *job,
                                              kerf_selftest_result **out, kerf_error *err);
KERF_API void kerf_selftest_free(kerf_selftest_result *r); /* NULL is fine */

/* JSON, schema kerf.selftest/1: malloc'd, ends in a 0 that n (may be NULL) does not count, to be
 * freed. */
KERF_API KERF_CHECK kerf_status kerf_selftest_write(const kerf_selftest_result *r, char **text,
                                                    size_t *n, kerf_error *err);
/* The same for people, in the form that is asked for (kerf/words.h). */
KERF_API KERF_CHECK kerf_status kerf_selftest_text(const kerf_selftest_result *r,
                                                   const kerf_text_form *form, char **text,
                                                   size_t *n, kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
