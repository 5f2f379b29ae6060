/* cut_regex.c - regular expressions through PCRE2.
 *
 * The patterns come from tokenizer.json and are made for Oniguruma with Ruby's syntax and Unicode.
 * PCRE2 with UTF and UCP reads them alike, but for
 *
 *   \s   also has U+180E, which Unicode no longer calls a space
 *   \w   has no marks in older versions
 *   ^ $  are of lines in Ruby always
 *
 * and for characters that are newer than the tables of either library. */
#include "cut_regex.h"

#if KERF_PCRE2

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

#include "file/json/text.h"
#include "utf8.h"

#define SPACE "\\t-\\r\\x{85}\\p{Z}"
#define WORD "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}"

enum { STACK_START = 1 << 16, STACK_MOST = 1 << 24, MOST_STEPS = 5000000 };

struct kf_regex {
    pcre2_code *code;
};

struct kf_match {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

/* Writes what stands for the escape \c, inside of brackets or not; 0: as it is. */
static int rewrite(kf_text *t, char c, int in_class)
{
    const char *set = c == 's' || c == 'S' ? SPACE : c == 'w' || c == 'W' ? WORD : NULL;
    const int inverse = c == 'S' || c == 'W';
    if (!set || (in_class && inverse)) return 0;
    kf_text_add(t, in_class ? "%s" : inverse ? "[^%s]" : "[%s]", set);
    return 1;
}

static char *translate(const char *pattern)
{
    kf_text t = {0};
    int in_class = 0;
    for (const char *p = pattern; *p; p++) {
        if (*p == '\\' && p[1]) {
            p++;
            if (rewrite(&t, *p, in_class)) continue;
            kf_text_add(&t, "\\");
        } else if (*p == '[' && !in_class) {
            in_class = 1;
        } else if (*p == ']') {
            in_class = 0;
        }
        kf_text_add_bytes(&t, p, 1);
    }
    kf_text_add_bytes(&t, "", 1);
    if (!t.failed) return t.p;
    free(t.p);
    return NULL;
}

kerf_status kf_regex_compile_plain(const char *pattern, kf_regex **out, kerf_error *err)
{
    char why[128];
    int code;
    PCRE2_SIZE at;
    *out = NULL;
    kf_regex *r = kf_alloc_zero(1, sizeof *r);
    if (!r) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a pattern");
    r->code = pcre2_compile((PCRE2_SPTR)pattern, strlen(pattern),
                            PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                            &code, &at, NULL);
    if (!r->code) {
        free(r);
        pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
        return kf_fail(err, code == PCRE2_ERROR_HEAP_FAILED ? KERF_E_NOMEM : KERF_E_NOSUP,
                       KF_NOWHERE, "PCRE2 does not take the pattern \"%.*s\" that cuts texts: %s",
                       KF_NAME(pattern), why);
    }
    (void)pcre2_jit_compile(r->code, PCRE2_JIT_COMPLETE); /* without it the same, slower */
    *out = r;
    return KERF_OK;
}

kerf_status kf_regex_compile(const char *pattern, kf_regex **out, kerf_error *err)
{
    *out = NULL;
    if (strstr(pattern, "&&"))
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "the pattern \"%.*s\" cuts sets of characters with &&", KF_NAME(pattern));
    char *text = translate(pattern);
    if (!text) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a pattern");
    kerf_status s = kf_regex_compile_plain(text, out, err);
    free(text);
    return s;
}

void kf_regex_free(kf_regex *r)
{
    if (!r) return;
    pcre2_code_free(r->code);
    free(r);
}

kerf_status kf_match_open(kf_match **out, kerf_error *err)
{
    kf_match *m = kf_alloc_zero(1, sizeof *m);
    *out = NULL;
    if (m) {
        m->data = pcre2_match_data_create(1, NULL);
        m->context = pcre2_match_context_create(NULL);
        m->stack = pcre2_jit_stack_create(STACK_START, STACK_MOST, NULL);
    }
    if (!m || !m->data || !m->context) {
        kf_match_close(m);
        return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory to match patterns");
    }
    if (m->stack) pcre2_jit_stack_assign(m->context, NULL, m->stack);
    pcre2_set_match_limit(m->context, MOST_STEPS);
    *out = m;
    return KERF_OK;
}

void kf_match_close(kf_match *m)
{
    if (!m) return;
    pcre2_match_data_free(m->data);
    pcre2_match_context_free(m->context);
    pcre2_jit_stack_free(m->stack);
    free(m);
}

kerf_status kf_regex_next(const kf_regex *r, kf_match *m, const char *text, size_t n, size_t at,
                          size_t *from, size_t *to, int *found, kerf_error *err)
{
    char why[128];
    *found = 0;
    while (at < n) {
        const int got =
            pcre2_match(r->code, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK, m->data, m->context);
        if (got == PCRE2_ERROR_NOMATCH) return KERF_OK;
        if (got < 0) {
            pcre2_get_error_message(got, (PCRE2_UCHAR *)why, sizeof why);
            return kf_fail(err, got == PCRE2_ERROR_NOMEMORY ? KERF_E_NOMEM : KERF_E_LIMIT, at,
                           "the pattern that cuts texts gives up at byte %zu of a piece: %s", at,
                           why);
        }
        const PCRE2_SIZE *span = pcre2_get_ovector_pointer(m->data);
        *from = span[0];
        *to = span[1];
        *found = span[1] > span[0] && span[0] >= at;
        if (*found) return KERF_OK;
        at = (span[0] > at ? span[0] : at); /* an empty one: on to the next character */
        if (at < n) at += kf_utf8_bytes((unsigned char)text[at]);
    }
    return KERF_OK;
}

#else

static kerf_status refuse(kerf_error *err)
{
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "this tokenizer cuts texts by patterns, and kerf was built without PCRE2: "
                   "apt-get install libpcre2-dev, then build kerf again");
}

kerf_status kf_regex_compile(const char *pattern, kf_regex **out, kerf_error *err)
{
    (void)pattern;
    *out = NULL;
    return refuse(err);
}

kerf_status kf_regex_compile_plain(const char *pattern, kf_regex **out, kerf_error *err)
{
    return kf_regex_compile(pattern, out, err);
}

void kf_regex_free(kf_regex *r)
{
    (void)r;
}

kerf_status kf_match_open(kf_match **out, kerf_error *err)
{
    (void)err;
    *out = NULL;
    return KERF_OK;
}

void kf_match_close(kf_match *m)
{
    (void)m;
}

kerf_status kf_regex_next(const kf_regex *r, kf_match *m, const char *text, size_t n, size_t at,
                          size_t *from, size_t *to, int *found, kerf_error *err)
{
    (void)r, (void)m, (void)text, (void)n, (void)at, (void)from, (void)to;
    *found = 0;
    return refuse(err);
}

#endif
