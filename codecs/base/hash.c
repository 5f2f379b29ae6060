/* hash.c - XXH64 with seed 0, from its published specification (github.com/Cyan4973/xxHash,
 * doc/xxhash_spec.md). Names the content of planes in digests, and is what zstd's seekable
 * format stores per frame. Not for security. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

#define P1 0x9E3779B185EBCA87u
#define P2 0xC2B2AE3D27D4EB4Fu
#define P3 0x165667B19E3779F9u
#define P4 0x85EBCA77C2B2AE63u
#define P5 0x27D4EB2F165667C5u

static uint64_t rotl(uint64_t x, int r)
{
    return x << r | x >> (64 - r);
}

static uint64_t load64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

static uint32_t load32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

static uint64_t mix(uint64_t lane, uint64_t input)
{
    return rotl(lane + input * P2, 31) * P1;
}

uint64_t kerf_hash(const void *data, size_t n)
{
    const uint8_t *p = data;
    size_t left = n;
    uint64_t h;

    if (n >= 32) {
        uint64_t lane[4] = {P1 + P2, P2, 0, 0u - P1};
        for (; left >= 32; p += 32, left -= 32)
            for (int i = 0; i < 4; i++) lane[i] = mix(lane[i], load64(p + 8 * i));
        h = rotl(lane[0], 1) + rotl(lane[1], 7) + rotl(lane[2], 12) + rotl(lane[3], 18);
        for (int i = 0; i < 4; i++) h = (h ^ mix(0, lane[i])) * P1 + P4;
    } else {
        h = P5;
    }
    h += n;
    for (; left >= 8; p += 8, left -= 8) h = rotl(h ^ mix(0, load64(p)), 27) * P1 + P4;
    if (left >= 4) {
        h = rotl(h ^ load32(p) * P1, 23) * P2 + P3;
        p += 4;
        left -= 4;
    }
    for (; left > 0; p++, left--) h = rotl(h ^ *p * P5, 11) * P1;
    h = (h ^ h >> 33) * P2;
    h = (h ^ h >> 29) * P3;
    return h ^ h >> 32;
}

int kf_content_read(const char *text, uint64_t *number)
{
    if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) return 0;
    *number = strtoull(text, NULL, 16);
    return 1;
}
