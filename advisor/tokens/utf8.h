/* utf8.h - characters of a text that is known to be UTF-8, and the check that it is. */
#ifndef KERF_TOKENS_UTF8_H
#define KERF_TOKENS_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of the character that begins with this byte. */
static inline size_t kf_utf8_bytes(unsigned char first)
{
    return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* The code point at p, and its bytes in *n. */
static inline uint32_t kf_utf8_get(const char *p, size_t *n)
{
    const unsigned char *c = (const unsigned char *)p;
    *n = kf_utf8_bytes(c[0]);
    switch (*n) {
    case 1: return c[0];
    case 2: return (uint32_t)(c[0] & 0x1f) << 6 | (c[1] & 0x3fu);
    case 3: return (uint32_t)(c[0] & 0x0f) << 12 | (uint32_t)(c[1] & 0x3f) << 6 | (c[2] & 0x3fu);
    default:
        return (uint32_t)(c[0] & 0x07) << 18 | (uint32_t)(c[1] & 0x3f) << 12 |
               (uint32_t)(c[2] & 0x3f) << 6 | (c[3] & 0x3fu);
    }
}

/* Writes a code point; returns its bytes, at most 4. */
static inline size_t kf_utf8_put(char *out, uint32_t c)
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    const size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[5] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n - 1; i > 0; i--, c >>= 6) out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(lead[n] | c);
    return n;
}

/* The first byte that is no UTF-8 (RFC 3629: no surrogates, nothing overlong); n: all of it is. */
size_t kf_utf8_check(const char *text, size_t n);

/* The White_Space property. */
int kf_is_space(uint32_t c);

#endif
