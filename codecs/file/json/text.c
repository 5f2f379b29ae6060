/* text.c - JSON into a text that grows. */
#include "file/json/text.h"

#include "base/characters.h"

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

int kf_is_utf8(const char *s)
{
    const unsigned char *p = (const unsigned char *)s;
    while (*p) {
        const size_t n = kf_character_bytes(p);
        if (n == 0) return 0;
        p += n;
    }
    return 1;
}
