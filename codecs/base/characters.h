/* characters.h - where the characters of a text in UTF-8 end. */
#ifndef KERF_BASE_CHARACTERS_H
#define KERF_BASE_CHARACTERS_H

#include <stddef.h>

/* The bytes that a character of UTF-8 takes; 0: it is none. Overlong forms, halves of surrogate
 * pairs and numbers above 10FFFF are none (RFC 3629). */
static inline size_t kf_character_bytes(const unsigned char *s)
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

/* 1: such a character, a whole one, is a control: of ASCII, or U+0080 to U+009F, which take two
 * bytes; or it ends a line (U+2028, U+2029) or says in which direction text runs (U+061C, U+200E,
 * U+200F, U+202A to U+202E, U+2066 to U+2069), by which a name can be shown as another one. */
static inline int kf_is_control(const unsigned char *s)
{
    if (s[0] == 0xe2 && s[1] == 0x80)
        return s[2] == 0x8e || s[2] == 0x8f || (s[2] >= 0xa8 && s[2] <= 0xae);
    if (s[0] == 0xe2 && s[1] == 0x81) return s[2] >= 0xa6 && s[2] <= 0xa9;
    return s[0] < 0x20 || s[0] == 0x7f || (s[0] == 0xc2 && s[1] < 0xa0) ||
           (s[0] == 0xd8 && s[1] == 0x9c);
}

#endif
