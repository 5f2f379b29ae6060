/* spoil.c - spoil KIND FILE OFFSET N [M]: changes bytes of a file the way faulty writers do.
 *
 *   nibbles   the two codes of each of N bytes change places
 *   tiles     N x M scales of one byte go into tiles of 128 x 4, as kernels want them
 *   bytes     N bytes become the value M
 *   inverse   each F32 in N bytes becomes one over itself
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kerf/codec.h>

static void die(const char *why)
{
    fprintf(stderr, "spoil: %s\n", why);
    exit(1);
}

static void change(const char *kind, unsigned char *p, size_t n, unsigned long rows,
                   unsigned long last)
{
    kerf_error err = {0};
    if (strcmp(kind, "nibbles") == 0) {
        for (size_t i = 0; i < n; i++) p[i] = (unsigned char)(p[i] << 4 | p[i] >> 4);
    } else if (strcmp(kind, "bytes") == 0) {
        memset(p, (int)last, n);
    } else if (strcmp(kind, "inverse") == 0) {
        for (size_t i = 0; i + sizeof(float) <= n; i += sizeof(float)) {
            float x;
            memcpy(&x, p + i, sizeof x);
            x = 1 / x;
            memcpy(p + i, &x, sizeof x);
        }
    } else {
        unsigned char *plain = malloc(n);
        if (!plain) die("no memory");
        memcpy(plain, p, n);
        if (kerf_scales_to_tiles(1, rows, last, (kerf_cspan){plain, n}, (kerf_span){p, n}, &err) !=
            KERF_OK)
            die(err.text);
        free(plain);
    }
}

int main(int argc, char **argv)
{
    if (argc < 5) die("usage: spoil nibbles|tiles|bytes|inverse FILE OFFSET N [M]");
    const int is_tiles = strcmp(argv[1], "tiles") == 0;
    const long offset = strtol(argv[3], NULL, 10);
    const unsigned long rows = strtoul(argv[4], NULL, 10);
    const unsigned long last = argc > 5 ? strtoul(argv[5], NULL, 0) : 0;
    const size_t n = is_tiles ? rows * last : rows;
    unsigned char *p = malloc(n);
    FILE *f = fopen(argv[2], "r+b");
    if (!p || !f || fseek(f, offset, SEEK_SET) != 0 || fread(p, 1, n, f) != n) die("cannot read");
    change(argv[1], p, n, rows, last);
    if (fseek(f, offset, SEEK_SET) != 0 || fwrite(p, 1, n, f) != n || fclose(f) != 0)
        die("cannot write");
    free(p);
    return 0;
}
