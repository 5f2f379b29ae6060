/* malformed.h - bad weight files, each with the status and a part of the line it must give.
 *
 * One table for the unit test, which opens every case through the library, and for make_malformed,
 * which writes them to a folder for tests of the command. A case is one of
 *
 *   FILE    a length and a header, then zero bytes as data
 *   RAW     the bytes as they stand
 *   INDEX   a folder: two good shards ("a" and "a2" in s1, "b" and "b2" in s2) under a bad index
 *   PACKED  a good file in zstd's seekable format, then damaged
 *   LAYOUT  a good file whose `kerf` metadata is wrong
 *   MAKE    written by a function
 */
#ifndef KERF_TESTS_MALFORMED_H
#define KERF_TESTS_MALFORMED_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <kerf/file.h>

#include "bytes.h"

enum malformed_kind { FILE_CASE, RAW_CASE, INDEX_CASE, PACKED_CASE, LAYOUT_CASE, MAKE_CASE };

/* A whole safetensors file. */
static void bytes_file(struct bytes *b, const char *header, size_t header_bytes, size_t data_bytes)
{
    bytes_number(b, header_bytes, 8);
    bytes_add(b, header, header_bytes);
    bytes_zeros(b, data_bytes);
}

struct malformed {
    const char *name;
    enum malformed_kind kind;
    kerf_status status;
    const char *message; /* stands in the text */
    const char *text;    /* header, bytes, index or metadata */
    size_t text_bytes;   /* 0: strlen */
    size_t data_bytes;
    void (*make)(struct bytes *b);
};

#define MALFORMED_GOOD "{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"

/* --- cases that are built --- */

static void make_many_tensors(struct bytes *b)
{
    struct bytes h = {0};
    bytes_text(&h, "{\"\":0");
    for (int i = 1; i < 1000002; i++) bytes_add(&h, ",\"\":0", 5);
    bytes_text(&h, "}");
    bytes_number(b, h.n, 8);
    bytes_add(b, h.p, h.n);
    free(h.p);
}

static void make_repeated(struct bytes *b, const char *start, char c, size_t n, const char *end,
                          size_t data_bytes)
{
    struct bytes h = {0};
    bytes_text(&h, start);
    for (size_t i = 0; i < n; i++) bytes_add(&h, &c, 1);
    bytes_text(&h, end);
    bytes_file(b, (char *)h.p, h.n, data_bytes);
    free(h.p);
}

static void make_deep_nesting(struct bytes *b)
{
    make_repeated(b, "{\"a\":", '[', 100000, "", 0);
}

static void make_long_name(struct bytes *b)
{
    make_repeated(b, "{\"", 'n', 1025, "\":" MALFORMED_GOOD "}", 8);
}

static void make_long_entry(struct bytes *b)
{
    make_repeated(b, "{\"a\":", ' ', 65537, MALFORMED_GOOD "}", 8);
}

static void make_only_spaces(struct bytes *b)
{
    make_repeated(b, "", ' ', 64, "", 0);
}

/* --- packed cases --- */

#define PACKED_FRAMES 3
#define PACKED_FRAME_BYTES 64u

/* A good packed file and where its parts lie, before it is damaged. */
struct packed {
    struct bytes frame[PACKED_FRAMES];
    uint32_t plain_bytes[PACKED_FRAMES], checksum[PACKED_FRAMES];
    uint32_t frames, magic, length_error;
    unsigned char descriptor;
    int footer_cut, extra;
};

static void packed_init(struct packed *p, const struct bytes *plain)
{
    *p = (struct packed){.frames = PACKED_FRAMES, .magic = 0x184D2A5E, .descriptor = 0x80};
    for (size_t i = 0, at = 0; i < PACKED_FRAMES; i++, at += PACKED_FRAME_BYTES) {
        size_t n = plain->n - at;
        if (i + 1 < PACKED_FRAMES && n > PACKED_FRAME_BYTES) n = PACKED_FRAME_BYTES;
        unsigned char out[4096];
        size_t packed = ZSTD_compress(out, sizeof out, plain->p + at, n, 1);
        if (ZSTD_isError(packed)) exit(70);
        bytes_add(&p->frame[i], out, packed);
        p->plain_bytes[i] = (uint32_t)n;
        p->checksum[i] = (uint32_t)kerf_hash(plain->p + at, n);
    }
}

static void packed_emit(struct packed *p, struct bytes *b)
{
    for (uint32_t i = 0; i < PACKED_FRAMES; i++) bytes_add(b, p->frame[i].p, p->frame[i].n);
    uint32_t listed = p->frames < PACKED_FRAMES ? p->frames : PACKED_FRAMES;
    bytes_number(b, p->magic, 4);
    bytes_number(b, listed * 12 + 9 + p->length_error, 4);
    for (uint32_t i = 0; i < listed; i++) {
        bytes_number(b, p->frame[i].n, 4);
        bytes_number(b, p->plain_bytes[i], 4);
        bytes_number(b, p->checksum[i], 4);
    }
    bytes_number(b, p->frames, 4);
    bytes_add(b, &p->descriptor, 1);
    bytes_number(b, 0x8F92EAB1, 4);
    b->n -= (size_t)p->footer_cut;
    bytes_zeros(b, (size_t)p->extra);
    for (int i = 0; i < PACKED_FRAMES; i++) free(p->frame[i].p);
}

/* What each packed case breaks. */
enum {
    PACK_NOTHING,
    PACK_NO_TABLE,
    PACK_CUT_FOOTER,
    PACK_TRAILING,
    PACK_MANY_FRAMES,
    PACK_HUGE_COUNT,
    PACK_FEW_FRAMES,
    PACK_NO_FRAMES,
    PACK_RESERVED,
    PACK_MAGIC,
    PACK_LENGTH,
    PACK_PLAIN_MORE,
    PACK_PLAIN_LESS,
    PACK_PLAIN_HUGE,
    PACK_PLAIN_ZERO,
    PACK_CHECKSUM,
    PACK_DAMAGED,
    PACK_FAT,
    PACK_FOOTER_ALONE
};

static void packed_break(struct packed *p, size_t how)
{
    switch (how) {
    case PACK_CUT_FOOTER: p->footer_cut = 1; break;
    case PACK_TRAILING: p->extra = 1; break;
    case PACK_MANY_FRAMES: p->frames = 5000; break;
    case PACK_HUGE_COUNT: p->frames = UINT32_MAX; break;
    case PACK_FEW_FRAMES: p->frames = PACKED_FRAMES - 1; break;
    case PACK_NO_FRAMES: p->frames = 0; break;
    case PACK_RESERVED: p->descriptor = 0xc0; break;
    case PACK_MAGIC: p->magic = 0x184D2A5D; break;
    case PACK_LENGTH: p->length_error = 12; break;
    case PACK_PLAIN_MORE: p->plain_bytes[0]++; break;
    case PACK_PLAIN_LESS: p->plain_bytes[0]--; break;
    case PACK_PLAIN_HUGE: p->plain_bytes[1] = UINT32_MAX; break;
    case PACK_PLAIN_ZERO: p->plain_bytes[1] = 0; break;
    case PACK_CHECKSUM: p->checksum[0]++; break;
    case PACK_DAMAGED: p->frame[0].p[p->frame[0].n / 2] ^= 0x55; break;
    case PACK_FAT: bytes_zeros(&p->frame[1], 100000); break;
    default: break;
    }
}

static void make_packed(const struct malformed *m, struct bytes *b)
{
    struct bytes plain = {0};
    struct packed p;
    const char *header = "{\"a\":{\"dtype\":\"F32\",\"shape\":[40],\"data_offsets\":[0,160]}}";
    if (m->text) header = m->text;
    bytes_file(&plain, header, strlen(header), 160);
    packed_init(&p, &plain);
    packed_break(&p, m->data_bytes);
    if (m->data_bytes == PACK_FOOTER_ALONE) {
        struct packed whole = p;
        for (int i = 0; i < PACKED_FRAMES; i++) whole.frame[i].n = 0;
        packed_emit(&whole, b);
    } else if (m->data_bytes == PACK_NO_TABLE) {
        for (int i = 0; i < PACKED_FRAMES; i++) {
            bytes_add(b, p.frame[i].p, p.frame[i].n);
            free(p.frame[i].p);
        }
    } else {
        packed_emit(&p, b);
    }
    free(plain.p);
}

/* --- layout cases: fp8-e4m3 tensors w.weight (with its scale) and v.weight (none), [2,4]; an F32
 * tensor u beside which a u_scale stands --- */

static void bytes_quoted(struct bytes *b, const char *text)
{
    bytes_text(b, "\"");
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') bytes_text(b, "\\");
        bytes_add(b, text, 1);
    }
    bytes_text(b, "\"");
}

static void make_layout(const struct malformed *m, struct bytes *b)
{
    struct bytes h = {0};
    bytes_text(&h, "{\"__metadata__\":{\"format\":\"pt\",\"kerf\":");
    bytes_quoted(&h, m->text);
    bytes_text(&h, "},\"w.weight_scale\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
                   "\"v.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,4],\"data_offsets\":[4,12]},"
                   "\"w.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,4],\"data_offsets\":[12,20]},"
                   "\"u\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[20,28]},"
                   "\"u_scale\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[28,29]}}");
    bytes_file(b, (char *)h.p, h.n, 29);
    free(h.p);
}

#include "malformed_cases.h"

#define MALFORMED_CASES (sizeof malformed_cases / sizeof *malformed_cases)

/* --- writing a case to disk --- */

static void put_shard(const char *folder, const char *name, const char *tensor)
{
    struct bytes b = {0};
    char header[256];
    snprintf(header, sizeof header,
             "{\"%s\":" MALFORMED_GOOD
             ",\"%s2\":{\"dtype\":\"I8\",\"shape\":[0],\"data_offsets\":[8,8]}}",
             tensor, tensor);
    bytes_file(&b, header, strlen(header), 8);
    put_file(folder, name, b.p, b.n);
    free(b.p);
}

static void put_folder(const struct malformed *m, const char *path)
{
    char below[4200];
    if (mkdir(path, 0777) != 0 && errno != EEXIST) exit(4);
    put_shard(path, "s1.safetensors", "a");
    put_shard(path, "s2.safetensors", "b");
    put_shard(path, "s4.safetensors", strstr(m->name, "two-shards") ? "a" : "d");
    put_file(path, "cut.safetensors", "x", 1);
    put_file(path, "config.json", "{}", 2);
    put_file(path, "model.safetensors.index.json", m->text, strlen(m->text));
    snprintf(below, sizeof below, "%s/folder.safetensors", path);
    if (mkdir(below, 0777) != 0 && errno != EEXIST) exit(4);
}

static void malformed_bytes(const struct malformed *m, struct bytes *b)
{
    size_t n = m->text_bytes ? m->text_bytes : m->text ? strlen(m->text) : 0;
    switch (m->kind) {
    case FILE_CASE: bytes_file(b, m->text, n, m->data_bytes); break;
    case RAW_CASE: bytes_add(b, m->text, n); break;
    case PACKED_CASE: make_packed(m, b); break;
    case LAYOUT_CASE: make_layout(m, b); break;
    default: m->make(b); break;
    }
}

/* Writes a case below `folder`; its path goes to `path`. */
static void malformed_put(const struct malformed *m, const char *folder, char *path, size_t size)
{
    const char *end = m->kind == INDEX_CASE    ? ""
                      : m->kind == PACKED_CASE ? ".safetensors.zst"
                                               : ".safetensors";
    snprintf(path, size, "%s/%s%s", folder, m->name, end);
    if (m->kind == INDEX_CASE) {
        put_folder(m, path);
        return;
    }
    struct bytes b = {0};
    malformed_bytes(m, &b);
    put_file(folder, path + strlen(folder) + 1, b.p ? b.p : (unsigned char *)"", b.n);
    free(b.p);
}

#endif
