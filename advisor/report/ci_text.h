/* ci_text.h - results for the programs that run kerf, whatever was tested: a test has a name and
 * maybe a fault. Names come from files: each kind of text has its own escapes. */
#ifndef KERF_CI_TEXT_H
#define KERF_CI_TEXT_H

#include <stdio.h>

#include "base/base.h"

enum { KF_CI_TEXT = 512 };

typedef struct kf_ci_test {
    const char *group, *name;
    char fault[KF_CI_TEXT]; /* empty: passed */
} kf_ci_test;

typedef struct kf_ci_tests {
    const char *verb; /* "kerf verify" */
    const char *noun; /* "tensor"      */
    size_t count;
    void (*at)(const void *ctx, size_t i, kf_ci_test *out);
    const void *ctx;
} kf_ci_tests;

size_t kf_ci_faults(const kf_ci_tests *t);

void kf_ci_put_junit(FILE *to, const kf_ci_tests *t);
void kf_ci_put_annotations(FILE *to, const kf_ci_tests *t); /* as GitHub shows them, 50 at most */

/* A Markdown table of the faults; nothing when there is none. */
void kf_ci_put_faults(FILE *to, const kf_ci_tests *t);
/* Code in a cell of a Markdown table. */
void kf_ci_put_code(FILE *to, const char *text);

/* A text that `put` prints, malloc'd; ends in a 0 that n does not count. */
kerf_status kf_ci_print(void (*put)(FILE *to, const void *ctx), const void *ctx, char **text,
                        size_t *n, kerf_error *err);

#endif
