/* charsmap.c - SentencePiece's compiled normalizer, as the tokenizers package applies it: clusters
 * of less than six bytes are looked up whole and then, as longer ones always, character by
 * character; the shortest key that a part begins with decides.
 *
 * Sources: the crate spm_precompiled 0.1, src/lib.rs; tokenizers 0.22, normalizers/precompiled.rs;
 * darts-clone, darts.h (the units of the trie). */
#include "charsmap.h"

#include <stdlib.h>
#include <string.h>

#include "utf8.h"

enum { LONGEST_CLUSTER = 5, LONGEST_WITH = 60 }; /* the longest of NFKC has 33 bytes */

static kerf_status bad_map(kerf_error *err)
{
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "precompiled_charsmap is damaged");
}

static int value_of(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *p = c ? strchr(digits, c) : NULL;
    return p ? (int)(p - digits) : -1;
}

kerf_status kf_charsmap_read(const char *base64, kf_charsmap *out, kerf_error *err)
{
    size_t n = strlen(base64), bytes = 0;
    uint32_t bits = 0;
    unsigned have = 0;
    uint8_t *p = NULL;
    *out = (kf_charsmap){0};
    while (n > 0 && base64[n - 1] == '=') n--;
    KF_TRY(kf_allocate(&p, n + 1, 1, err));
    kerf_status s = KERF_OK;
    for (size_t i = 0; i < n && s == KERF_OK; i++) {
        const int v = value_of(base64[i]);
        if (v < 0) {
            s = bad_map(err);
            break;
        }
        bits = bits << 6 | (uint32_t)v;
        have += 6;
        if (have < 8) continue;
        have -= 8;
        p[bytes++] = (uint8_t)(bits >> have);
    }
    if (s == KERF_OK) s = kf_charsmap_take(p, bytes, out, err);
    free(p);
    return s;
}

kerf_status kf_charsmap_take(const uint8_t *p, size_t n, kf_charsmap *out, kerf_error *err)
{
    *out = (kf_charsmap){0};
    if (n < 8) return bad_map(err);
    const uint64_t trie =
        (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24;
    if (trie % 4 || trie < 4 || trie > n - 4) return bad_map(err);
    out->units = (size_t)trie / 4;
    out->bytes = n - 4 - (size_t)trie;
    kerf_status s = kf_allocate(&out->unit, out->units, sizeof *out->unit, err);
    if (s == KERF_OK) s = kf_allocate(&out->text, out->bytes + 1, 1, err);
    if (s == KERF_OK) s = kf_regex_compile_plain("\\X", &out->cluster, err);
    if (s != KERF_OK) {
        kf_charsmap_free(out);
        return s;
    }
    for (size_t i = 0; i < out->units; i++)
        for (size_t k = 0; k < 4; k++) out->unit[i] |= (uint32_t)p[4 + 4 * i + k] << (8 * k);
    memcpy(out->text, p + 4 + trie, out->bytes); /* kf_allocate has put a 0 behind it */
    return KERF_OK;
}

void kf_charsmap_free(kf_charsmap *m)
{
    free(m->unit);
    free(m->text);
    kf_regex_free(m->cluster);
    *m = (kf_charsmap){0};
}

static uint32_t offset_of(uint32_t unit)
{
    return (unit >> 10) << ((unit & 0x200) >> 6);
}

/* What replaces the text; NULL: nothing does. */
static const char *replacement(const kf_charsmap *m, const char *p, size_t n)
{
    size_t node = offset_of(m->unit[0]);
    for (size_t i = 0; i < n && p[i]; i++) {
        const uint8_t c = (uint8_t)p[i];
        node ^= c;
        if (node >= m->units) return NULL;
        const uint32_t unit = m->unit[node];
        if ((unit & 0x800000ffu) != c) return NULL;
        node ^= offset_of(unit);
        if (!(unit & 0x100)) continue;
        if (node >= m->units) return NULL;
        const uint32_t at = m->unit[node] & 0x7fffffffu;
        return at <= m->bytes && strnlen(m->text + at, LONGEST_WITH + 1) <= LONGEST_WITH
                   ? m->text + at
                   : NULL;
    }
    return NULL;
}

static void add_character(const kf_charsmap *m, const char *p, size_t n, kf_text *out)
{
    const char *with = replacement(m, p, n);
    kf_text_add_bytes(out, with ? with : p, with ? strlen(with) : n);
}

/* Replacements must be UTF-8, for what follows relies on it. */
static kerf_status check_text(const kf_text *out, size_t from, kerf_error *err)
{
    if (out->failed) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a text");
    if (kf_utf8_check(out->p + from, out->n - from) == out->n - from) return KERF_OK;
    return bad_map(err);
}

kerf_status kf_charsmap_apply(const kf_charsmap *m, kf_match *match, const char *text, size_t n,
                              kf_text *out, kerf_error *err)
{
    const size_t before = out->n;
    kf_text_add_bytes(out, "", 0);
    for (size_t i = 0; i < n;) {
        size_t from = i, to = i + 1;
        int found = 1;
        const unsigned char here = (unsigned char)text[i];
        const unsigned char next = i + 1 < n ? (unsigned char)text[i + 1] : 'a';
        if (here >= 0x80 || next >= 0x80 || here == '\r')
            KF_TRY(kf_regex_next(m->cluster, match, text, n, i, &from, &to, &found, err));
        if (!found || from != i) to = i + kf_utf8_bytes(here);
        const char *with = to - i <= LONGEST_CLUSTER ? replacement(m, text + i, to - i) : NULL;
        if (with)
            kf_text_add_bytes(out, with, strlen(with));
        else
            for (size_t k = i, bytes; k < to; k += bytes) {
                bytes = kf_utf8_bytes((unsigned char)text[k]);
                add_character(m, text + k, bytes, out);
            }
        i = to;
    }
    return check_text(out, before, err);
}
