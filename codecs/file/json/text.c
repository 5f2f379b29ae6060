/* text.c - JSON into a text that grows. */
#include "file/json/text.h"

static int append(const char *p, size_t n, void *text)
{
    kf_text *t = text;
    kf_text_add_bytes(t, p, n);
    return t->failed ? -1 : 0;
}

void kf_text_add_json(kf_text *t, const json_t *j, size_t flags)
{
    if (!j || json_dump_callback(j, append, t, flags) != 0) t->failed = 1;
}

void kf_text_add_quoted(kf_text *t, const char *s)
{
    json_t *j = json_string(s);
    kf_text_add_json(t, j, JSON_ENCODE_ANY);
    json_decref(j);
}

/* The bytes that a character of UTF-8 takes; 0: it is none. Overlong forms, halves of surrogate
 * pairs and numbers above 10FFFF are none (RFC 3629). */
static size_t character_bytes(const unsigned char *s)
{
    const unsigned char lead = s[0];
    const size_t n = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    if (lead > 0xf4) return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0; /* the end of the text too */
    if (lead == 0xe0 && s[1] < 0xa0) return 0;
    if (lead == 0xed && s[1] > 0x9f) return 0;
    if (lead == 0xf0 && s[1] < 0x90) return 0;
    if (lead == 0xf4 && s[1] > 0x8f) return 0;
    return n;
}

int kf_is_utf8(const char *s)
{
    const unsigned char *p = (const unsigned char *)s;
    while (*p) {
        const size_t n = character_bytes(p);
        if (n == 0) return 0;
        p += n;
    }
    return 1;
}
