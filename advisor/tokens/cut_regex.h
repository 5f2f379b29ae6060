/* cut_regex.h - the regular expressions by which tokenizers cut and replace text. PCRE2 runs them;
 * where kerf was built without it, they are refused. */
#ifndef KERF_TOKENS_CUT_REGEX_H
#define KERF_TOKENS_CUT_REGEX_H

#include "base/base.h"

typedef struct kf_regex kf_regex;

/* Compiles a pattern that was written for Oniguruma, which the tokenizers package uses: what the
 * two libraries understand otherwise is rewritten first. KERF_E_NOSUP: PCRE2 is not there, or does
 * not take the pattern. */
kerf_status kf_regex_compile(const char *pattern, kf_regex **out, kerf_error *err);
/* A pattern of PCRE2's own. */
kerf_status kf_regex_compile_plain(const char *pattern, kf_regex **out, kerf_error *err);
void kf_regex_free(kf_regex *r); /* NULL is fine */

/* What a thread needs to match any of them. */
typedef struct kf_match kf_match;
kerf_status kf_match_open(kf_match **out, kerf_error *err);
void kf_match_close(kf_match *m); /* NULL is fine */

/* The first match that is not empty from byte `at` of a valid UTF-8 text on: [*from, *to). *found
 * is 0 when there is none. KERF_E_LIMIT: the pattern takes too long over this text. */
kerf_status kf_regex_next(const kf_regex *r, kf_match *m, const char *text, size_t n, size_t at,
                          size_t *from, size_t *to, int *found, kerf_error *err);

#endif
