/* codec_list.c - picks codecs of the format table by names and patterns. */
#include <kerf/words.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

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

static size_t codecs_there_are(void)
{
    size_t n = 0;
    for (size_t i = 0; i < kerf_format_count(); i++) n += kerf_encoder_count(kerf_format_at(i));
    return n;
}

/* Marks what a word picks, a pattern in lower case; `chosen` is indexed like the loop below. */
static kerf_status mark(const char *word, unsigned char *chosen, size_t *picked, kerf_error *err)
{
    kerf_codec named = {NULL, NULL};
    char pattern[128];
    size_t n = 0, at = 0;
    if (!is_pattern(word)) KF_TRY(kerf_codec_find(word, &named, err));
    for (; word[n] && n + 1 < sizeof pattern; n++)
        pattern[n] = (char)(word[n] >= 'A' && word[n] <= 'Z' ? word[n] | 0x20 : word[n]);
    pattern[n] = 0;
    for (size_t i = 0; i < kerf_format_count(); i++) {
        const kerf_format *f = kerf_format_at(i);
        for (size_t e = 0; e < kerf_encoder_count(f); e++, at++) {
            const int is_named = f == named.format && kerf_encoder_at(f, e) == named.encoder;
            if (!is_named && (named.format || !picks(pattern, f, e))) continue;
            chosen[at] |= named.format ? BY_NAME : BY_PATTERN;
            ++*picked;
        }
    }
    return KERF_OK;
}

/* The list in the order of the table, from the marks. */
static void list_marked(kerf_codec_list *l)
{
    size_t at = 0;
    l->count = 0;
    for (size_t i = 0; i < kerf_format_count(); i++) {
        const kerf_format *f = kerf_format_at(i);
        for (size_t e = 0; e < kerf_encoder_count(f); e++, at++) {
            if (!l->mark[at]) continue;
            l->named[l->count] = (l->mark[at] & BY_NAME) != 0;
            l->codec[l->count++] = (kerf_codec){f, kerf_encoder_at(f, e)};
        }
    }
}

kerf_status kerf_codec_list_add(kerf_codec_list *l, const char *word, size_t *picked,
                                kerf_error *err)
{
    const size_t all = codecs_there_are();
    *picked = 0;
    if (!l->mark) KF_TRY(kf_allocate(&l->mark, all, 1, err));
    if (!l->named) KF_TRY(kf_allocate(&l->named, all, 1, err));
    if (!l->codec) KF_TRY(kf_allocate(&l->codec, all, sizeof *l->codec, err));
    KF_TRY(mark(word, l->mark, picked, err));
    list_marked(l);
    return KERF_OK;
}

void kerf_codec_list_free(kerf_codec_list *l)
{
    free(l->codec);
    free(l->named);
    free(l->mark);
    *l = (kerf_codec_list){0};
}
