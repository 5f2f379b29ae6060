/* normalize.h - what a tokenizer changes of a text before it is cut: steps one after another. */
#ifndef KERF_TOKENS_NORMALIZE_H
#define KERF_TOKENS_NORMALIZE_H

#include "charsmap.h"

typedef enum kf_normal_kind {
    KF_NORMAL_PREPEND, /* `with` before a text that is not empty    */
    KF_NORMAL_REPLACE, /* `what`, or what matches regex, by `with`  */
    KF_NORMAL_NFC,
    KF_NORMAL_NFD,
    KF_NORMAL_STRIP, /* space at its ends                            */
    KF_NORMAL_CHARSMAP
} kf_normal_kind;

typedef struct kf_normal {
    kf_normal_kind kind;
    char *what, *with;
    kf_regex *regex;
    int left, right;
    kf_charsmap map;
} kf_normal;

enum { KF_MOST_STEPS = 16 };

void kf_normal_free(kf_normal *s);

/* Applies `count` steps. The result is the text itself or stands in one of the two works. */
kerf_status kf_normalize(const kf_normal *step, size_t count, kf_match *match, const char *text,
                         size_t n, kf_text work[2], const char **out, size_t *out_n,
                         kerf_error *err);

#endif
