/* text_case.h - texts for people, in tests: what the last call gave, and what must stand in it.
 * Each program has `must` from another header. */
#ifndef KERF_TESTS_TEXT_CASE_H
#define KERF_TESTS_TEXT_CASE_H

#include <kerf/words.h>
#include <stdlib.h>
#include <string.h>

static const kerf_text_form wide = {.wide = 1};

/* What a call gave, until the next one. */
static char *text;
static size_t size;
static kerf_error why;

static inline void check(kerf_status s)
{
    must(s, &why);
    assert_int_equal(size, strlen(text));
    assert_true(size > 0 && text[size - 1] == '\n');
    for (const char *p = text; *p; p++) assert_true((unsigned char)*p >= 32 || *p == '\n');
}

static inline void done(void)
{
    free(text);
    text = NULL;
}

static inline void has(const char *part)
{
    if (!strstr(text, part)) fail_msg("no \"%s\" in:\n%s", part, text);
}

static inline size_t lines(void)
{
    size_t n = 0;
    for (const char *p = text; *p; p++) n += *p == '\n';
    return n;
}

#endif
