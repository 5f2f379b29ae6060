/* checksums.c - SHA-256 from its standard (FIPS 180-4), and a list of it for the files of an
 * output, so that who receives a checkpoint can check it with nothing of kerf. */
#include <errno.h>
#include <kerf/checksums.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/growing_text.h"
#include "file/disk/io.h"

typedef struct sha256 {
    uint32_t h[8];
    uint64_t bytes;
    uint8_t block[64]; /* the first bytes % 64 of it are waiting */
} sha256;

static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotr(uint32_t x, int r)
{
    return x >> r | x << (32 - r);
}

static void take_block(uint32_t h[8], const uint8_t *p)
{
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
               (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        const uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (rotr(a, 7) ^ rotr(a, 18) ^ a >> 3) + w[i - 7] +
               (rotr(b, 17) ^ rotr(b, 19) ^ b >> 10);
    }
    memcpy(s, h, sizeof s);
    for (int i = 0; i < 64; i++) {
        const uint32_t a = s[0], e = s[4];
        const uint32_t one = s[7] + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) +
                             ((e & s[5]) ^ (~e & s[6])) + k[i] + w[i];
        const uint32_t two =
            (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one;
        s[0] = one + two;
    }
    for (int i = 0; i < 8; i++) h[i] += s[i];
}

static void start(sha256 *x)
{
    static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memset(x, 0, sizeof *x);
    memcpy(x->h, first, sizeof first);
}

static void add(sha256 *x, const uint8_t *p, size_t n)
{
    while (n > 0) {
        const size_t at = x->bytes % sizeof x->block;
        if (at == 0 && n >= sizeof x->block) {
            take_block(x->h, p);
            x->bytes += sizeof x->block;
            p += sizeof x->block;
            n -= sizeof x->block;
            continue;
        }
        const size_t part = n < sizeof x->block - at ? n : sizeof x->block - at;
        memcpy(x->block + at, p, part);
        x->bytes += part;
        p += part;
        n -= part;
        if (x->bytes % sizeof x->block == 0) take_block(x->h, x->block);
    }
}

static char *finish(sha256 *x, char out[KERF_SHA256_TEXT])
{
    static const uint8_t end[64] = {0x80};
    const uint64_t bits = 8 * x->bytes;
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
    add(x, end, 1 + (119 - x->bytes % 64) % 64);
    add(x, length, sizeof length);
    for (int i = 0; i < 8; i++) snprintf(out + 8 * i, 9, "%08x", (unsigned)x->h[i]);
    return out;
}

char *kerf_sha256(const void *p, size_t n, char out[KERF_SHA256_TEXT])
{
    sha256 x;
    start(&x);
    if (n > 0) add(&x, p, n);
    return finish(&x, out);
}

/* --- files ---------------------------------------------------------------------------------------
 */

static kerf_status sum_file(const char *path, char out[KERF_SHA256_TEXT], kerf_error *err)
{
    enum { STEP = 1 << 18 };
    sha256 x;
    int fd;
    uint64_t bytes;
    uint8_t *buffer = malloc(STEP);
    if (!buffer) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", path);
    kerf_status s = kf_open_regular(path, &fd, &bytes, err);
    const int is_open = s == KERF_OK;
    start(&x);
    for (uint64_t at = 0; s == KERF_OK && at < bytes;) {
        const size_t n = (size_t)kf_min_u64(bytes - at, STEP);
        s = kf_read_at(fd, path, at, buffer, n, err);
        if (s == KERF_OK) add(&x, buffer, n);
        at += n;
    }
    if (s == KERF_OK) finish(&x, out);
    if (is_open) close(fd);
    free(buffer);
    return s;
}

/* A name with a backslash or a line end is written with escapes, behind a backslash. */
static void put_name(FILE *to, const char *name)
{
    for (; *name; name++) {
        if (*name == '\\')
            fputs("\\\\", to);
        else if (*name == '\n')
            fputs("\\n", to);
        else
            fputc(*name, to);
    }
}

static kerf_status put_line(FILE *to, const char *path, const char *folder, kerf_error *err)
{
    char digest[KERF_SHA256_TEXT];
    const char *name = kf_path_base(path);
    KF_TRY(sum_file(path, digest, err));
    if (strpbrk(name, "\\\n") || (folder && strpbrk(folder, "\\\n"))) fputc('\\', to);
    fprintf(to, "%s  ", digest);
    if (folder) {
        put_name(to, folder);
        fputc('/', to);
    }
    put_name(to, name);
    fputc('\n', to);
    return KERF_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

typedef struct names {
    char **name;
    size_t count, room;
} names;

static kerf_status list_names(const char *path, names *all, kerf_error *err)
{
    const char *name;
    int failed = 0;
    kerf_status s = KERF_OK;
    DIR *d = opendir(path);
    if (!d) return kf_fail_errno(err, errno, "%s: cannot open the folder", path);
    while (s == KERF_OK && (name = kf_next_name(d, &failed)) != NULL) {
        struct stat st;
        if (fstatat(dirfd(d), name, &st, 0) != 0 || !S_ISREG(st.st_mode)) continue;
        if (all->count == all->room) {
            const size_t room = 2 * all->room + 16;
            char **grown = realloc(all->name, room * sizeof *grown);
            if (grown) all->name = grown;
            if (grown) all->room = room;
        }
        char *whole = all->count < all->room ? kf_path_join(path, name) : NULL;
        if (whole)
            all->name[all->count++] = whole;
        else
            s = kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", path);
    }
    closedir(d);
    if (s == KERF_OK && failed) s = kf_fail_errno(err, failed, "%s: cannot read it", path);
    if (all->count) qsort(all->name, all->count, sizeof *all->name, by_name);
    return s;
}

static kerf_status put_folder(FILE *to, const char *path, kerf_error *err)
{
    names all = {NULL, 0, 0};
    kerf_status s = list_names(path, &all, err);
    for (size_t i = 0; i < all.count; i++) {
        if (s == KERF_OK) s = put_line(to, all.name[i], kf_path_base(path), err);
        free(all.name[i]);
    }
    free(all.name);
    return s;
}

kerf_status kerf_checksums(const char *path, char **text, size_t *n, kerf_error *err)
{
    struct stat st;
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    char *plain = strndup(path, length);
    kf_text all = {0};
    FILE *to = plain ? kf_text_stream(&all) : NULL;
    kerf_status s = KERF_OK;
    if (!to)
        s = kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", path);
    else if (stat(plain, &st) != 0)
        s = kf_fail_errno(err, errno, "%s: cannot look at it", path);
    else
        s = S_ISDIR(st.st_mode) ? put_folder(to, plain, err) : put_line(to, plain, NULL, err);
    free(plain);
    int whole = kf_text_close(&all, to, text, n);
    if (s == KERF_OK && whole) return KERF_OK;
    free(*text);
    *text = NULL;
    return s != KERF_OK ? s : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", path);
}
