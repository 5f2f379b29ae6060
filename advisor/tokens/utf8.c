/* utf8.c - whether a text is UTF-8, and which characters are space. */
#include "utf8.h"

#include <string.h>

static size_t check_one(const unsigned char *p, size_t n)
{
    const size_t bytes = kf_utf8_bytes(p[0]);
    const unsigned second_from = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
    const unsigned second_to = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
    if (p[0] < 0xc2 || p[0] > 0xf4 || bytes > n) return 0;
    if (p[1] < second_from || p[1] > second_to) return 0;
    for (size_t i = 2; i < bytes; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    return bytes;
}

size_t kf_utf8_check(const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *)text;
    size_t i = 0;
    while (i < n) {
        uint64_t eight;
        if (n - i >= 8) {
            memcpy(&eight, p + i, 8);
            if (!(eight & 0x8080808080808080u)) {
                i += 8;
                continue;
            }
        }
        const size_t bytes = p[i] < 0x80 ? 1 : check_one(p + i, n - i);
        if (!bytes) return i;
        i += bytes;
    }
    return n;
}

int kf_is_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}
