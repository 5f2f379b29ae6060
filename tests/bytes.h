/* bytes.h - bytes that grow, for tests that build files by hand. */
#ifndef KERF_TESTS_BYTES_H
#define KERF_TESTS_BYTES_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that grow; tests may run out of memory and stop. */
struct bytes {
    unsigned char *p;
    size_t n, capacity;
};

static inline void bytes_add(struct bytes *b, const void *p, size_t n)
{
    if (b->n + n >= b->capacity) {
        b->capacity = 2 * (b->n + n) + 64;
        b->p = realloc(b->p, b->capacity);
        if (!b->p) exit(70);
    }
    if (n > 0) memcpy(b->p + b->n, p, n);
    b->n += n;
    b->p[b->n] = 0;
}

static inline void bytes_text(struct bytes *b, const char *text)
{
    bytes_add(b, text, strlen(text));
}

static inline void bytes_number(struct bytes *b, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        unsigned char byte = (unsigned char)(v >> 8 * i);
        bytes_add(b, &byte, 1);
    }
}

static inline void bytes_zeros(struct bytes *b, size_t n)
{
    for (size_t i = 0; i < n; i++) bytes_add(b, "", 1);
}

static inline void put_file(const char *folder, const char *name, const void *p, size_t n)
{
    char path[8192];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(p, 1, n, f) != n || fclose(f) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(4);
    }
}

#endif
