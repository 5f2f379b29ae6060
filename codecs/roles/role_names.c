/* role_names.c - cuts names and matches patterns. Both are walked from their end, where names
 * differ most; no memory is taken. */
#include "roles/role_names.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* What a module calls its tensors. */
static const char *const parameters[] = {"weight", "bias",     "base_layer",      "kernel",
                                         "data",   "original", "parametrizations"};

static int is_word(const char *p, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(p, word, n) == 0;
}

static int is_number(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isdigit((unsigned char)p[i])) return 0;
    return n > 0;
}

/* "expert_3": a word of seven letters, and a number. */
static int is_numbered(const char *p, size_t n, const char word[7])
{
    return n > 7 && memcmp(p, word, 7) == 0 && is_number(p + 7, n - 7);
}

static int is_parameter(const char *p, size_t n)
{
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++)
        if (is_word(p, n, parameters[i])) return 1;
    return is_numbered(p, n, "weight_"); /* a second weight of the module */
}

static void add_part(kf_parts *p, const char *at, size_t n)
{
    if (p->count == KF_NAME_PARTS) {
        memmove(p->part, p->part + 1, (KF_NAME_PARTS - 1) * sizeof *p->part);
        p->count--;
    }
    p->part[p->count].at = (unsigned)(at - p->text);
    p->part[p->count].bytes = (unsigned)n;
    p->part[p->count++].is_number = is_number(at, n);
}

static void find_numbers(kf_parts *p)
{
    p->layer = -1;
    for (int i = 0; i < p->count; i++) {
        if (is_numbered(p->text + p->part[i].at, p->part[i].bytes, "expert_")) p->expert = 1;
        if (!p->part[i].is_number) continue;
        const char *before = i > 0 ? p->text + p->part[i - 1].at : "";
        const size_t n = i > 0 ? p->part[i - 1].bytes : 0;
        if (n >= 6 && memcmp(before + n - 6, "expert", 6) == 0) p->expert = 1;
        if (n >= 7 && memcmp(before + n - 7, "experts", 7) == 0) p->expert = 1;
        if (p->layer < 0 && !p->expert && p->part[i].bytes < 7)
            p->layer = (int)strtol(p->text + p->part[i].at, NULL, 10);
    }
}

void kf_parts_cut(const char *name, kf_parts *p)
{
    *p = (kf_parts){.text = name, .parameter = ""};
    for (const char *at = name;;) {
        const char *dot = strchr(at, '.');
        const size_t n = dot ? (size_t)(dot - at) : strlen(at);
        add_part(p, at, n);
        if (!dot) break;
        at = dot + 1;
    }
    while (p->count > 1 &&
           is_parameter(name + p->part[p->count - 1].at, p->part[p->count - 1].bytes))
        p->parameter = name + p->part[--p->count].at;
    find_numbers(p);
}

/* --- patterns ------------------------------------------------------------------------------ */

/* A star is any text. */
static int part_fits(const char *pattern, const char *end, const char *text, const char *text_end)
{
    const char *star = NULL, *back = NULL;
    while (text < text_end) {
        if (pattern < end && *pattern == '*') {
            star = ++pattern;
            back = text;
        } else if (pattern < end && *pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star;
            text = ++back;
        } else {
            return 0;
        }
    }
    while (pattern < end && *pattern == '*') pattern++;
    return pattern == end;
}

static int fits_at(const kf_parts *p, int i, const char *pattern, const char *end)
{
    if (end - pattern == 1 && *pattern == '#') return p->part[i].is_number;
    const char *text = p->text + p->part[i].at;
    /* most differ in the last letter */
    if (p->part[i].bytes && end[-1] != '*' && end[-1] != text[p->part[i].bytes - 1]) return 0;
    return part_fits(pattern, end, text, text + p->part[i].bytes);
}

/* One alternative, whose parts are compared from the last on. */
static int end_fits(const kf_parts *p, const char *pattern, const char *end)
{
    if (*pattern == '^') {
        if (p->layer >= 0 || p->expert) return 0;
        pattern++;
    }
    for (int i = p->count - 1; i >= 0; i--) {
        const char *from = end;
        while (from > pattern && from[-1] != '.') from--;
        if (!fits_at(p, i, from, end)) return 0;
        if (from == pattern) return 1;
        end = from - 1;
    }
    return 0;
}

static const char *alternative_end(const char *patterns)
{
    while (*patterns && *patterns != '|') patterns++;
    return patterns;
}

int kf_parts_end_in(const kf_parts *p, const char *patterns)
{
    for (const char *at = patterns;; at++) {
        const char *end = alternative_end(at);
        if (end_fits(p, at, end)) return 1;
        if (!*end) return 0;
        at = end;
    }
}

int kf_parts_around(const kf_parts *p, const char *patterns)
{
    for (int i = 0; i < p->count; i++) {
        if (p->part[i].is_number) continue; /* which no pattern of these asks for */
        for (const char *at = patterns;; at++) {
            const char *end = alternative_end(at);
            const int is_first = *at == '^';
            if ((!is_first || (i == 0 && p->part[0].at == 0 && p->count > 1)) &&
                fits_at(p, i, at + is_first, end))
                return i;
            if (!*end) break;
            at = end;
        }
    }
    return -1;
}
