/* options_codecs.c - picks codecs of the format table by a list of patterns. */
#include "options_codecs.h"

#include <kerf/words.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

static const char default_list[] = "*,nvfp4:*,mx*:*";

enum { BY_PATTERN = 1, BY_NAME = 2 };

/* Whether a pattern picks encoder e of format f; without a ':' it means the default encoder. */
static int picks(const char *pattern, const kerf_format *f, size_t e)
{
    char name[64];
    if (strcmp(pattern, "all") == 0) return 1;
    if (!strchr(pattern, ':')) return e == 0 && kerf_glob_matches(pattern, f->name);
    kerf_codec_name((kerf_codec){f, kerf_encoder_at(f, e)}, name, sizeof name);
    return kerf_glob_matches(pattern, name);
}

static int is_pattern(const char *word)
{
    return strpbrk(word, "*?[") || strcmp(word, "all") == 0;
}

/* Marks what a word picks, a pattern in lower case; `chosen` is indexed like the loop below. */
static kerf_status mark(const char *word, unsigned char *chosen, kerf_error *err)
{
    kerf_codec named = {NULL, NULL};
    char pattern[128];
    size_t at = 0, found = 0;
    if (!is_pattern(word)) TRY(option_codec(word, &named, err));
    for (at = 0; word[at] && at + 1 < sizeof pattern; at++)
        pattern[at] = (char)(word[at] >= 'A' && word[at] <= 'Z' ? word[at] | 0x20 : word[at]);
    pattern[at] = 0;
    at = 0;
    for (size_t i = 0; i < kerf_format_count(); i++) {
        const kerf_format *f = kerf_format_at(i);
        for (size_t e = 0; e < kerf_encoder_count(f); e++, at++) {
            const int is_named = f == named.format && kerf_encoder_at(f, e) == named.encoder;
            if (!is_named && (named.format || !picks(pattern, f, e))) continue;
            chosen[at] |= named.format ? BY_NAME : BY_PATTERN;
            found++;
        }
    }
    if (found) return KERF_OK;
    return USAGE(err, "-f %.100s picks no format; kerf formats lists them", word);
}

static kerf_status mark_all(const char *text, unsigned char *chosen, kerf_error *err)
{
    char word[128];
    for (const char *p = text;;) {
        size_t n = strcspn(p, ",");
        if (n == 0 || n >= sizeof word) {
            return USAGE(err, "-f %.200s: expected words separated by commas", text);
        }
        memcpy(word, p, n);
        word[n] = 0;
        TRY(mark(word, chosen, err));
        if (!p[n]) return KERF_OK;
        p += n + 1;
    }
}

kerf_status codec_list_parse(codec_list *out, const char *text, kerf_error *err)
{
    size_t total = 0;
    unsigned char *chosen = NULL;
    *out = (codec_list){0};
    for (size_t i = 0; i < kerf_format_count(); i++) total += kerf_encoder_count(kerf_format_at(i));
    TRY(allocate(&chosen, total, 1, err));
    kerf_status s = mark_all(text ? text : default_list, chosen, err);
    if (s == KERF_OK) s = allocate(&out->item, total, sizeof *out->item, err);
    if (s == KERF_OK) s = allocate(&out->named, total, 1, err);
    size_t at = 0;
    for (size_t i = 0; i < kerf_format_count() && s == KERF_OK; i++) {
        const kerf_format *f = kerf_format_at(i);
        for (size_t e = 0; e < kerf_encoder_count(f); e++, at++) {
            if (!chosen[at]) continue;
            out->named[out->count] = (chosen[at] & BY_NAME) != 0;
            out->item[out->count++] = (kerf_codec){f, kerf_encoder_at(f, e)};
        }
    }
    free(chosen);
    return s;
}

void codec_list_free(codec_list *l)
{
    free(l->named);
    free(l->item);
    *l = (codec_list){0};
}
