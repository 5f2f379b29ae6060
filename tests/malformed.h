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

/* --- the table --- */

#define ENTRY(dtype, shape, offsets) \
    "{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}"
#define ONE(dtype, shape, offsets) "{\"a\":" ENTRY(dtype, shape, offsets) "}"
#define TWO(first, second) "{\"a\":" first ",\"b\":" second "}"
#define F32AT(shape, offsets) ENTRY("\"F32\"", shape, offsets)

#define BAD(name, message, header, data)                             \
    {                                                                \
        name, FILE_CASE, KERF_E_DATA, message, header, 0, data, NULL \
    }
#define LIMIT(name, message, header, data)                            \
    {                                                                 \
        name, FILE_CASE, KERF_E_LIMIT, message, header, 0, data, NULL \
    }
#define BYTES(name, message, text)                                           \
    {                                                                        \
        name, RAW_CASE, KERF_E_DATA, message, text, sizeof text - 1, 0, NULL \
    }
#define WITH_NUL(name, message, header, data)                                        \
    {                                                                                \
        name, FILE_CASE, KERF_E_DATA, message, header, sizeof header - 1, data, NULL \
    }
#define INDEXED(name, message, text)                             \
    {                                                            \
        name, INDEX_CASE, KERF_E_DATA, message, text, 0, 0, NULL \
    }
#define MAPPED(name, message, map) \
    INDEXED(name, message, "{\"metadata\":{},\"weight_map\":" map "}")
#define PACKED(name, status, message, how)                     \
    {                                                          \
        name, PACKED_CASE, status, message, NULL, 0, how, NULL \
    }
#define DESCRIBED(name, status, message, text)               \
    {                                                        \
        name, LAYOUT_CASE, status, message, text, 0, 0, NULL \
    }
#define QUANT(fields) "{\"version\":1,\"tensors\":{\"w.weight\":{" fields "}}}"
#define LAYOUT(layout, name, format, shape)                                                     \
    "{\"tensors\":{\"" name "\":{\"format\":\"" format "\",\"dtype\":\"BF16\",\"shape\":" shape \
    "}},\"layout\":\"" layout "\",\"version\":1}"
#define MADE(name, status, message, make)                  \
    {                                                      \
        name, MAKE_CASE, status, message, NULL, 0, 0, make \
    }

/* clang-format off */
static const struct malformed malformed_cases[] = {
    /* the first 8 bytes */
    BYTES("empty", "too short", ""),
    BYTES("seven-bytes", "too short", "\2\0\0\0\0\0\0"),
    BYTES("no-header", "does not start with '{'", "\0\0\0\0\0\0\0\0"),
    BYTES("n-beyond-file", "claims 100 bytes", "\144\0\0\0\0\0\0\0{}"),
    BYTES("n-100-mb-claimed", "claims 100000001 bytes", "\1\341\365\5\0\0\0\0{}"),
    BYTES("n-largest", "claims 18446744073709551615", "\377\377\377\377\377\377\377\377{}"),
    BYTES("n-2-to-63", "claims 9223372036854775808", "\0\0\0\0\0\0\0\200{}"),
    BYTES("n-wraps", "claims 18446744073709551608", "\370\377\377\377\377\377\377\377{}"),
    BYTES("n-one-too-many", "claims 3 bytes", "\3\0\0\0\0\0\0\0{}"),
    BYTES("n-one-too-few", "does not end", "\1\0\0\0\0\0\0\0{}"),
    BYTES("not-safetensors", "not a safetensors file", "PK\3\4 this is a zip archive"),

    /* JSON as such */
    BAD("space-before-brace", "does not start with '{'", " {}", 0),
    BAD("byte-order-mark", "does not start with '{'", "\xef\xbb\xbf{}", 0),
    BAD("array", "does not start with '{'", "[]", 0),
    BAD("string", "does not start with '{'", "\"a\"", 0),
    BAD("number", "does not start with '{'", "1", 0),
    BAD("null", "does not start with '{'", "null", 0),
    MADE("only-spaces", KERF_E_DATA, "does not start with '{'", make_only_spaces),
    BAD("garbage-after", "bytes follow", "{}x", 0),
    BAD("object-after", "bytes follow", "{}{}", 0),
    WITH_NUL("nul-after", "NUL bytes follow", "{}\0\0\0\0\0\0", 0),
    BAD("not-closed", "does not end", "{", 0),
    BAD("closed-by-bracket", "in quotes", "{]", 0),
    BAD("string-not-closed", "does not end", "{\"a", 0),
    BAD("escape-at-end", "does not end", "{\"a\\", 0),
    BAD("comma-at-end", "in quotes", "{\"a\":" MALFORMED_GOOD ",}", 8),
    BAD("comma-alone", "in quotes", "{,}", 0),
    BAD("comma-doubled", "in quotes", "{\"a\":" MALFORMED_GOOD ",,\"b\":" MALFORMED_GOOD "}", 8),
    BAD("comma-missing", "not valid JSON", "{\"a\":" MALFORMED_GOOD " \"b\":" MALFORMED_GOOD "}", 8),
    BAD("colon-missing", "':' must follow", "{\"a\" " MALFORMED_GOOD "}", 8),
    BAD("colon-doubled", "not valid JSON", "{\"a\"::" MALFORMED_GOOD "}", 8),
    BAD("value-missing", "not valid JSON", "{\"a\":}", 0),
    BAD("single-quotes", "in quotes", "{'a':" MALFORMED_GOOD "}", 8),
    BAD("no-quotes", "in quotes", "{a:" MALFORMED_GOOD "}", 8),
    BAD("comment", "in quotes", "{/* */\"a\":" MALFORMED_GOOD "}", 8),
    BAD("brackets-crossed", "not valid JSON", "{\"a\":{\"dtype\":[}]}", 0),
    BAD("depth-4", "nested too deep", "{\"a\":{\"dtype\":\"F32\",\"shape\":[[2]],\"data_offsets\":[0,8]}}", 8),
    BAD("depth-4-ignored-field", "nested too deep", "{\"a\":{\"x\":{\"y\":[1]}}}", 0),
    MADE("depth-100000", KERF_E_DATA, "nested too deep", make_deep_nesting),
    BAD("utf8-broken", "not valid JSON", "{\"a\xff\":" MALFORMED_GOOD "}", 8),
    BAD("utf8-overlong", "not valid JSON", "{\"a\xc0\xaf\":" MALFORMED_GOOD "}", 8),
    BAD("utf8-surrogate", "not valid JSON", "{\"a\xed\xa0\x80\":" MALFORMED_GOOD "}", 8),
    BAD("utf8-cut", "not valid JSON", "{\"a\xe2\x82\":" MALFORMED_GOOD "}", 8),
    BAD("utf8-broken-outside", "not valid JSON", "{\"a\":\xff" MALFORMED_GOOD "}", 8),
    BAD("escape-lone-surrogate", "not valid JSON", "{\"\\ud800\":" MALFORMED_GOOD "}", 8),
    BAD("escape-unknown", "not valid JSON", "{\"\\x41\":" MALFORMED_GOOD "}", 8),
    BAD("escape-nul-in-name", "NUL in a string", "{\"a\\u0000b\":" MALFORMED_GOOD "}", 8),
    WITH_NUL("raw-nul-in-name", "NUL in a string", "{\"a\0b\":" MALFORMED_GOOD "}", 8),
    BAD("newline-in-name", "not valid JSON", "{\"a\nb\":" MALFORMED_GOOD "}", 8),

    /* names that occur twice */
    BAD("tensor-twice", "the name occurs twice", "{\"a\":" MALFORMED_GOOD ",\"a\":" F32AT("[2]", "[8,16]") "}", 16),
    BAD("tensor-twice-same-bytes", "the name occurs twice", "{\"a\":" MALFORMED_GOOD ",\"a\":" MALFORMED_GOOD "}", 8),
    BAD("tensor-twice-escaped", "the name occurs twice", "{\"a\":" MALFORMED_GOOD ",\"\\u0061\":" F32AT("[2]", "[8,16]") "}", 16),
    BAD("dtype-twice", "duplicate object key", "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8),
    BAD("shape-twice", "duplicate object key", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"shape\":[2],\"data_offsets\":[0,8]}}", 8),
    BAD("offsets-twice", "duplicate object key", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"data_offsets\":[0,8]}}", 8),
    BAD("metadata-twice", "two members are named __metadata__", "{\"__metadata__\":{},\"__metadata__\":{}}", 0),
    BAD("metadata-key-twice", "key \"k\" occurs twice", "{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0),

    /* entries */
    BAD("entry-array", "not a JSON object", "{\"a\":[]}", 0),
    BAD("entry-number", "not a JSON object", "{\"a\":1}", 0),
    BAD("entry-string", "not a JSON object", "{\"a\":\"F32\"}", 0),
    BAD("entry-null", "not a JSON object", "{\"a\":null}", 0),
    BAD("entry-empty", "dtype is missing", "{\"a\":{}}", 0),
    BAD("dtype-missing", "dtype is missing", "{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8),
    BAD("dtype-number", "dtype is missing or not a string", ONE("32", "[2]", "[0,8]"), 8),
    BAD("dtype-null", "dtype is missing or not a string", ONE("null", "[2]", "[0,8]"), 8),
    BAD("dtype-array", "dtype is missing or not a string", ONE("[\"F32\"]", "[2]", "[0,8]"), 8),
    BAD("dtype-unknown", "unknown dtype \"F31\"", ONE("\"F31\"", "[2]", "[0,8]"), 8),
    BAD("dtype-lower-case", "unknown dtype \"f32\"", ONE("\"f32\"", "[2]", "[0,8]"), 8),
    BAD("dtype-empty", "unknown dtype \"\"", ONE("\"\"", "[2]", "[0,8]"), 8),
    BAD("dtype-question-mark", "unknown dtype \"?\"", ONE("\"?\"", "[2]", "[0,0]"), 0),
    BAD("dtype-line-break", "unknown dtype", ONE("\"F32\\n\"", "[2]", "[0,8]"), 8),
    BAD("shape-missing", "shape is missing", "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8),
    BAD("shape-number", "shape is missing or not an array", ONE("\"F32\"", "2", "[0,8]"), 8),
    BAD("shape-string", "shape is missing or not an array", ONE("\"F32\"", "\"[2]\"", "[0,8]"), 8),
    BAD("shape-object", "shape is missing or not an array", ONE("\"F32\"", "{}", "[0,8]"), 8),
    BAD("shape-of-strings", "shape[0] is not an integer", ONE("\"F32\"", "[\"2\"]", "[0,8]"), 8),
    BAD("shape-of-null", "shape[0] is not an integer", ONE("\"F32\"", "[null]", "[0,8]"), 8),
    BAD("shape-of-bool", "shape[0] is not an integer", ONE("\"F32\"", "[true]", "[0,8]"), 8),
    BAD("shape-negative", "not a plain unsigned integer", ONE("\"F32\"", "[-2]", "[0,8]"), 8),
    BAD("shape-both-negative", "not a plain unsigned integer", ONE("\"F32\"", "[-1,-2]", "[0,8]"), 8),
    BAD("shape-minus-zero", "not a plain unsigned integer", ONE("\"F32\"", "[-0]", "[0,0]"), 0),
    BAD("shape-float", "not a plain unsigned integer", ONE("\"F32\"", "[2.0]", "[0,8]"), 8),
    BAD("shape-exponent", "not a plain unsigned integer", ONE("\"F32\"", "[2e0]", "[0,8]"), 8),
    BAD("shape-plus", "not valid JSON", ONE("\"F32\"", "[+2]", "[0,8]"), 8),
    BAD("shape-leading-zero", "not valid JSON", ONE("\"F32\"", "[02]", "[0,8]"), 8),
    BAD("shape-nan", "not valid JSON", ONE("\"F32\"", "[NaN]", "[0,8]"), 8),
    BAD("shape-infinity", "not valid JSON", ONE("\"F32\"", "[Infinity]", "[0,8]"), 8),
    BAD("shape-hex", "not valid JSON", ONE("\"F32\"", "[0x2]", "[0,8]"), 8),
    BAD("shape-above-2-to-53", "above 2^53", ONE("\"F32\"", "[9007199254740993,0]", "[0,0]"), 0),
    BAD("shape-above-2-to-63", "not valid JSON", ONE("\"F32\"", "[9223372036854775808]", "[0,8]"), 8),
    BAD("shape-200-digits", "not valid JSON", ONE("\"F32\"", "[99999999999999999999999999999999999999999999999999]", "[0,8]"), 8),
    BAD("shape-product-overflows", "does not fit 64 bits", ONE("\"F32\"", "[4294967296,4294967296]", "[0,0]"), 0),
    BAD("shape-product-overflows-to-8", "does not fit 64 bits", ONE("\"U8\"", "[4294967296,2147483648,2]", "[0,0]"), 0),
    BAD("shape-product-overflows-beside-0", "does not fit 64 bits", ONE("\"F32\"", "[9007199254740992,9007199254740992,0]", "[0,0]"), 0),
    BAD("shape-bits-overflow", "does not fit 64 bits", ONE("\"F64\"", "[9007199254740992,64]", "[0,0]"), 0),
    LIMIT("shape-rank-9", "at most 8", ONE("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4),
    BAD("f4-odd", "do not fill whole bytes", ONE("\"F4\"", "[3]", "[0,1]"), 1),
    BAD("f4-odd-rounded-up", "do not fill whole bytes", ONE("\"F4\"", "[3]", "[0,2]"), 2),
    BAD("f6-e2m3-odd", "do not fill whole bytes", ONE("\"F6_E2M3\"", "[3]", "[0,3]"), 3),
    BAD("f6-e3m2-odd", "do not fill whole bytes", ONE("\"F6_E3M2\"", "[2]", "[0,2]"), 2),
    BAD("offsets-missing", "data_offsets is missing", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8),
    BAD("offsets-one", "not two integers", ONE("\"F32\"", "[2]", "[0]"), 8),
    BAD("offsets-three", "not two integers", ONE("\"F32\"", "[2]", "[0,8,8]"), 8),
    BAD("offsets-empty", "not two integers", ONE("\"F32\"", "[2]", "[]"), 8),
    BAD("offsets-number", "not two integers", ONE("\"F32\"", "[2]", "8"), 8),
    BAD("offsets-object", "not two integers", ONE("\"F32\"", "[2]", "{\"0\":0,\"1\":8}"), 8),
    BAD("offsets-of-strings", "not two integers", ONE("\"F32\"", "[2]", "[\"0\",\"8\"]"), 8),
    BAD("offsets-negative", "not a plain unsigned integer", ONE("\"F32\"", "[2]", "[-8,0]"), 8),
    BAD("offsets-float", "not a plain unsigned integer", ONE("\"F32\"", "[2]", "[0,8.0]"), 8),
    BAD("offsets-exponent", "not a plain unsigned integer", ONE("\"F32\"", "[2]", "[0,8E0]"), 8),
    BAD("offsets-end-before-begin", "before it begins", ONE("\"F32\"", "[2]", "[8,0]"), 8),
    BAD("offsets-beyond-file", "the file has 8 bytes of data", ONE("\"F32\"", "[4]", "[0,16]"), 8),
    BAD("offsets-largest", "bytes of data", ONE("\"F32\"", "[2]", "[0,9223372036854775807]"), 8),
    BAD("offsets-above-2-to-63", "not valid JSON", ONE("\"F32\"", "[2]", "[0,18446744073709551615]"), 8),
    BAD("offsets-wrap", "bytes of data", ONE("\"F32\"", "[2]", "[9223372036854775800,9223372036854775807]"), 8),
    BAD("offsets-too-short", "dtype and shape need 8", ONE("\"F32\"", "[2]", "[0,4]"), 8),
    BAD("offsets-too-long", "dtype and shape need 8", ONE("\"F32\"", "[2]", "[0,16]"), 16),
    BAD("offsets-empty-for-scalar", "dtype and shape need 4", ONE("\"F32\"", "[]", "[0,0]"), 0),
    BAD("offsets-for-empty-tensor", "dtype and shape need 0", ONE("\"F32\"", "[0]", "[0,4]"), 4),

    /* places */
    BAD("hole-at-start", "(hole)", ONE("\"F32\"", "[2]", "[8,16]"), 16),
    BAD("hole-between", "(hole)", TWO(F32AT("[2]", "[0,8]"), F32AT("[2]", "[16,24]")), 24),
    BAD("hole-of-one-byte", "(hole)", TWO(F32AT("[2]", "[0,8]"), F32AT("[2]", "[9,17]")), 17),
    BAD("overlap-whole", "(overlap)", TWO(F32AT("[2]", "[0,8]"), F32AT("[2]", "[0,8]")), 8),
    BAD("overlap-part", "(overlap)", TWO(F32AT("[2]", "[0,8]"), F32AT("[2]", "[4,12]")), 12),
    BAD("overlap-inside", "(overlap)", TWO(F32AT("[4]", "[0,16]"), F32AT("[1]", "[4,8]")), 16),
    BAD("overlap-empty-inside", "(overlap)", TWO(F32AT("[4]", "[0,16]"), F32AT("[0]", "[4,4]")), 16),
    BAD("empty-beyond-end", "bytes of data", TWO(F32AT("[2]", "[0,8]"), F32AT("[0]", "[12,12]")), 8),
    BAD("trailing-bytes", "tensors end at byte", "{\"a\":" MALFORMED_GOOD "}", 9),
    BAD("trailing-bytes-no-tensors", "tensors end at byte", "{}", 1),
    BAD("data-cut", "the file has 7 bytes of data", "{\"a\":" MALFORMED_GOOD "}", 7),
    BAD("data-absent", "the file has 0 bytes of data", "{\"a\":" MALFORMED_GOOD "}", 0),

    /* metadata */
    BAD("metadata-array", "not a JSON object", "{\"__metadata__\":[]}", 0),
    BAD("metadata-string", "not a JSON object", "{\"__metadata__\":\"pt\"}", 0),
    BAD("metadata-null", "not a JSON object", "{\"__metadata__\":null}", 0),
    BAD("metadata-of-number", "is not a string", "{\"__metadata__\":{\"format\":1}}", 0),
    BAD("metadata-of-null", "is not a string", "{\"__metadata__\":{\"format\":null}}", 0),
    BAD("metadata-of-object", "is not a string", "{\"__metadata__\":{\"format\":{}}}", 0),
    BAD("metadata-of-array", "is not a string", "{\"__metadata__\":{\"format\":[\"pt\"]}}", 0),
    BAD("metadata-garbage", "not valid JSON", "{\"__metadata__\":{\"format\":\"pt\"x}}", 0),

    /* bounds */
    MADE("tensors-1000002", KERF_E_LIMIT, "more than 1000000 tensors", make_many_tensors),
    MADE("name-1025-bytes", KERF_E_LIMIT, "name of 1025 bytes", make_long_name),
    MADE("entry-65537-bytes", KERF_E_LIMIT, "at most 65536", make_long_entry),

    /* the index of a folder */
    INDEXED("index-empty-file", "does not start with '{'", ""),
    INDEXED("index-array", "does not start with '{'", "[]"),
    INDEXED("index-cut", "does not end", "{\"weight_map\":{\"a\":\"s1.safetensors\""),
    INDEXED("index-garbage-after", "bytes follow", "{\"weight_map\":{\"a\":\"s1.safetensors\",\"b\":\"s2.safetensors\"}} x"),
    INDEXED("index-deep", "nested too deep", "{\"metadata\":[[[[[[[[[[]]]]]]]]]]}"),
    INDEXED("index-no-map", "no weight_map", "{\"metadata\":{}}"),
    INDEXED("index-map-twice", "weight_map occurs twice", "{\"weight_map\":{\"a\":\"s1.safetensors\"},\"weight_map\":{\"b\":\"s2.safetensors\"}}"),
    INDEXED("index-metadata-bad", "not valid JSON", "{\"metadata\":{x},\"weight_map\":{\"a\":\"s1.safetensors\"}}"),
    MAPPED("index-map-empty", "no weight_map, or an empty one", "{}"),
    MAPPED("index-map-array", "not a JSON object", "[\"s1.safetensors\"]"),
    MAPPED("index-map-string", "not a JSON object", "\"s1.safetensors\""),
    MAPPED("index-value-number", "is not a string", "{\"a\":1,\"b\":\"s2.safetensors\"}"),
    MAPPED("index-value-null", "is not a string", "{\"a\":null,\"b\":\"s2.safetensors\"}"),
    MAPPED("index-value-array", "is not a string", "{\"a\":[\"s1.safetensors\"],\"b\":\"s2.safetensors\"}"),
    MAPPED("index-tensor-twice", "occurs twice", "{\"a\":\"s1.safetensors\",\"a\":\"s2.safetensors\",\"b\":\"s2.safetensors\"}"),
    MAPPED("index-path-parent", "in this folder", "{\"a\":\"../s1.safetensors\",\"b\":\"s2.safetensors\"}"),
    MAPPED("index-path-absolute", "in this folder", "{\"a\":\"/etc/s1.safetensors\",\"b\":\"s2.safetensors\"}"),
    MAPPED("index-path-below", "in this folder", "{\"a\":\"sub/s1.safetensors\",\"b\":\"s2.safetensors\"}"),
    MAPPED("index-path-here", "in this folder", "{\"a\":\"./s1.safetensors\",\"b\":\"s2.safetensors\"}"),
    MAPPED("index-path-backslash", "in this folder", "{\"a\":\"..\\\\s1.safetensors\",\"b\":\"s2.safetensors\"}"),
    MAPPED("index-path-escaped-slash", "in this folder", "{\"a\":\"..\\u002fs1.safetensors\",\"b\":\"s2.safetensors\"}"),
    MAPPED("index-path-dots", "in this folder", "{\"a\":\"..\",\"b\":\"s2.safetensors\"}"),
    MAPPED("index-path-dot", "in this folder", "{\"a\":\".\",\"b\":\"s2.safetensors\"}"),
    MAPPED("index-path-empty", "in this folder", "{\"a\":\"\",\"b\":\"s2.safetensors\"}"),
    MAPPED("index-path-other-file", "in this folder", "{\"a\":\"config.json\",\"b\":\"s2.safetensors\"}"),
    MAPPED("index-path-nul", "NUL in a string", "{\"a\":\"s1.safetensors\\u0000x\",\"b\":\"s2.safetensors\"}"),
    MAPPED("index-shard-absent", "named in the index, but not there", "{\"a\":\"s1.safetensors\",\"b\":\"s3.safetensors\"}"),
    MAPPED("index-shard-is-folder", "not a regular file", "{\"a\":\"s1.safetensors\",\"b\":\"folder.safetensors\"}"),
    MAPPED("index-shard-cut", "too short", "{\"a\":\"s1.safetensors\",\"b\":\"cut.safetensors\"}"),
    MAPPED("index-tensor-absent", "is in the index, but not in s1.safetensors", "{\"a\":\"s1.safetensors\",\"a1\":\"s1.safetensors\",\"b\":\"s2.safetensors\"}"),
    MAPPED("index-tensor-unlisted", "\"a2\" is in s1.safetensors, but not in the index", "{\"a\":\"s1.safetensors\",\"b\":\"s2.safetensors\",\"b2\":\"s2.safetensors\"}"),
    MAPPED("index-wrong-shard", "the index says", "{\"a\":\"s2.safetensors\",\"a2\":\"s2.safetensors\",\"b\":\"s1.safetensors\",\"b2\":\"s1.safetensors\"}"),
    MAPPED("index-tensor-in-two-shards", "is in two shards", "{\"a\":\"s1.safetensors\",\"b\":\"s2.safetensors\",\"c\":\"s4.safetensors\"}"),

    /* zstd's seekable format */
    PACKED("packed-no-table", KERF_E_NOSUP, "without a seek table", PACK_NO_TABLE),
    PACKED("packed-footer-cut", KERF_E_NOSUP, "without a seek table", PACK_CUT_FOOTER),
    PACKED("packed-trailing-byte", KERF_E_NOSUP, "without a seek table", PACK_TRAILING),
    PACKED("packed-many-frames", KERF_E_DATA, "more frames than the file can hold", PACK_MANY_FRAMES),
    PACKED("packed-huge-count", KERF_E_LIMIT, "zstd frames, at most", PACK_HUGE_COUNT),
    PACKED("packed-few-frames", KERF_E_DATA, "do not end where the table begins", PACK_FEW_FRAMES),
    PACKED("packed-no-frames", KERF_E_DATA, "do not end where the table begins", PACK_NO_FRAMES),
    PACKED("packed-reserved-bits", KERF_E_DATA, "reserved bits", PACK_RESERVED),
    PACKED("packed-table-magic", KERF_E_DATA, "disagree", PACK_MAGIC),
    PACKED("packed-table-length", KERF_E_DATA, "disagree", PACK_LENGTH),
    PACKED("packed-frame-claims-more", KERF_E_DATA, "its seek table says", PACK_PLAIN_MORE),
    PACKED("packed-frame-claims-less", KERF_E_DATA, "is damaged", PACK_PLAIN_LESS),
    PACKED("packed-frame-claims-4-gb", KERF_E_LIMIT, "at most 67108864", PACK_PLAIN_HUGE),
    PACKED("packed-frame-empty", KERF_E_DATA, "an empty frame", PACK_PLAIN_ZERO),
    PACKED("packed-checksum", KERF_E_DATA, "does not match the checksum", PACK_CHECKSUM),
    PACKED("packed-damaged", KERF_E_DATA, "frame 0", PACK_DAMAGED),
    PACKED("packed-frame-fat", KERF_E_DATA, "far larger than its content", PACK_FAT),
    PACKED("packed-table-alone", KERF_E_DATA, "an empty frame", PACK_FOOTER_ALONE),
    {"packed-bad-header", PACKED_CASE, KERF_E_DATA, "does not start with '{'", "[]", 0, PACK_NOTHING, NULL},

    /* descriptions of quantized tensors */
    DESCRIBED("kerf-not-json", KERF_E_DATA, "does not start with '{'", "nvfp4"),
    DESCRIBED("kerf-cut", KERF_E_DATA, "does not end", "{\"version\":1"),
    DESCRIBED("kerf-version-2", KERF_E_NOSUP, "version of its kerf metadata is not 1", "{\"version\":2,\"tensors\":{}}"),
    DESCRIBED("kerf-version-string", KERF_E_NOSUP, "is not 1", "{\"version\":\"1\",\"tensors\":{}}"),
    DESCRIBED("kerf-version-missing", KERF_E_DATA, "not one version", "{\"tensors\":{}}"),
    DESCRIBED("kerf-tensors-missing", KERF_E_DATA, "not one version", "{\"version\":1}"),
    DESCRIBED("kerf-tensors-twice", KERF_E_DATA, "not one version", "{\"version\":1,\"tensors\":{},\"tensors\":{}}"),
    DESCRIBED("kerf-tensors-array", KERF_E_DATA, "not a JSON object", "{\"version\":1,\"tensors\":[]}"),
    DESCRIBED("kerf-unknown-key", KERF_E_DATA, "unknown key", "{\"version\":1,\"tensors\":{},\"more\":1}"),
    DESCRIBED("kerf-deep", KERF_E_DATA, "nested too deep", "{\"version\":1,\"tensors\":{\"w.weight\":{\"shape\":[[]]}}}"),
    DESCRIBED("kerf-entry-number", KERF_E_DATA, "not a JSON object", "{\"version\":1,\"tensors\":{\"w.weight\":1}}"),
    DESCRIBED("kerf-tensor-absent", KERF_E_DATA, "described, but not in this file", "{\"version\":1,\"tensors\":{\"x\":{}}}"),
    DESCRIBED("kerf-tensor-twice", KERF_E_DATA, "described twice", "{\"version\":1,\"tensors\":{\"w.weight\":{\"format\":\"fp8-e4m3\",\"dtype\":\"BF16\",\"shape\":[2,4]},\"w.weight\":{}}}"),
    DESCRIBED("kerf-format-missing", KERF_E_DATA, "is not a string", QUANT("\"dtype\":\"BF16\",\"shape\":[2,4]")),
    DESCRIBED("kerf-format-unknown", KERF_E_NOSUP, "unknown format \"fp8-e9m9\"", QUANT("\"format\":\"fp8-e9m9\",\"dtype\":\"BF16\",\"shape\":[2,4]")),
    DESCRIBED("kerf-encoder-number", KERF_E_DATA, "is not a string", QUANT("\"format\":\"fp8-e4m3\",\"encoder\":1,\"dtype\":\"BF16\",\"shape\":[2,4]")),
    DESCRIBED("kerf-dtype-unknown", KERF_E_DATA, "unknown dtype", QUANT("\"format\":\"fp8-e4m3\",\"dtype\":\"bf16\",\"shape\":[2,4]")),
    DESCRIBED("kerf-shape-missing", KERF_E_DATA, "shape is not an array", QUANT("\"format\":\"fp8-e4m3\",\"dtype\":\"BF16\"")),
    DESCRIBED("kerf-shape-negative", KERF_E_DATA, "not a plain unsigned integer", QUANT("\"format\":\"fp8-e4m3\",\"dtype\":\"BF16\",\"shape\":[-2,-4]")),
    DESCRIBED("kerf-shape-of-strings", KERF_E_DATA, "shape[0] is not an integer", QUANT("\"format\":\"fp8-e4m3\",\"dtype\":\"BF16\",\"shape\":[\"2\",4]")),
    DESCRIBED("kerf-shape-rank-9", KERF_E_DATA, "at most 8", QUANT("\"format\":\"fp8-e4m3\",\"dtype\":\"BF16\",\"shape\":[1,1,1,1,1,1,1,1,8]")),
    DESCRIBED("kerf-shape-overflows", KERF_E_DATA, "tensor \"w.weight\"", QUANT("\"format\":\"fp8-e4m3\",\"dtype\":\"BF16\",\"shape\":[4294967296,4294967296,2]")),
    DESCRIBED("kerf-shape-other", KERF_E_DATA, "plane \"w.weight\" is F8_E4M3 [2,4]", QUANT("\"format\":\"fp8-e4m3\",\"dtype\":\"BF16\",\"shape\":[4,2]")),
    DESCRIBED("kerf-plane-missing", KERF_E_DATA, "its plane \"v.weight_scale\" is not in this file", "{\"version\":1,\"tensors\":{\"v.weight\":{\"format\":\"fp8-e4m3\",\"dtype\":\"BF16\",\"shape\":[2,4]}}}"),
    DESCRIBED("kerf-plane-dtype", KERF_E_DATA, "plane \"w.weight\" is F8_E4M3", QUANT("\"format\":\"fp8-e5m2\",\"dtype\":\"BF16\",\"shape\":[2,4]")),
    DESCRIBED("kerf-plane-shape", KERF_E_DATA, "plane \"w.weight_scale\"", QUANT("\"format\":\"fp8-e4m3-row\",\"dtype\":\"BF16\",\"shape\":[2,4]")),
    DESCRIBED("kerf-plane-extra", KERF_E_DATA, "has no plane \"u_scale\"", "{\"version\":1,\"tensors\":{\"u\":{\"format\":\"fp32\",\"dtype\":\"F32\",\"shape\":[2]}}}"),
    DESCRIBED("layout-unknown", KERF_E_NOSUP, "it needs a newer kerf", "{\"version\":1,\"layout\":\"mlx\",\"tensors\":{}}"),
    DESCRIBED("layout-no-string", KERF_E_NOSUP, "it needs a newer kerf", "{\"version\":1,\"layout\":1,\"tensors\":{}}"),
    DESCRIBED("layout-twice", KERF_E_DATA, "unknown key", "{\"version\":1,\"layout\":\"modelopt\",\"layout\":\"kerf\",\"tensors\":{}}"),
    DESCRIBED("layout-format", KERF_E_DATA, "layout modelopt has no format int4-g128", LAYOUT("modelopt", "w.weight", "int4-g128", "[2,4]")),
    DESCRIBED("layout-plane-missing", KERF_E_DATA, "\"v.weight_scale\" is not in this file", LAYOUT("modelopt", "v.weight", "fp8-e4m3", "[2,4]")),
    DESCRIBED("layout-plane-shape", KERF_E_DATA, "plane \"w.weight_scale\" is F32 []", LAYOUT("modelopt", "w.weight", "fp8-e4m3-row", "[2,4]")),
    DESCRIBED("layout-codes-type", KERF_E_DATA, "plane \"w.weight\" is F8_E4M3", LAYOUT("modelopt", "w.weight", "nvfp4", "[2,16]")),
    DESCRIBED("layout-codes-name", KERF_E_DATA, "\"w.weight_packed\" is not in this file", LAYOUT("compressed-tensors", "w.weight", "mxfp4", "[2,32]")),
    DESCRIBED("layout-rank-3", KERF_E_DATA, "takes matrices only", LAYOUT("modelopt", "w.weight", "fp8-e4m3", "[1,2,4]")),
    DESCRIBED("layout-rank-0", KERF_E_DATA, "takes matrices only", LAYOUT("modelopt", "w.weight", "fp8-e4m3-row", "[]")),
    DESCRIBED("layout-empty", KERF_E_DATA, "takes matrices only", LAYOUT("modelopt", "w.weight", "fp8-e4m3", "[0,4]")),
    DESCRIBED("layout-multiple", KERF_E_DATA, "columns must be a multiple of 128", LAYOUT("deepseek", "w.weight", "fp8-e4m3-128x128", "[2,4]")),
    DESCRIBED("layout-large-shape", KERF_E_DATA, "quantized tensor \"w.weight\"", LAYOUT("compressed-tensors", "w.weight", "fp8-e4m3-row", "[9007199254740992,9007199254740992]")),
    DESCRIBED("layout-name", KERF_E_DATA, "layout modelopt takes names in .weight only", LAYOUT("modelopt", "u", "fp8-e4m3", "[2,4]")),
    DESCRIBED("layout-turned", KERF_E_DATA, "described, but not in this file", LAYOUT("gptq", "q.weight", "int4-g128", "[32,128]")),
    DESCRIBED("layout-not-there", KERF_E_DATA, "described, but not in this file", LAYOUT("compressed-tensors", "x", "int4-g128", "[2,128]")),
    DESCRIBED("kerf-plane-shared", KERF_E_DATA, "serves two tensors", "{\"version\":1,\"tensors\":{\"w.weight_scale\":{\"format\":\"fp32\",\"dtype\":\"F32\",\"shape\":[]},\"w.weight\":{\"format\":\"fp8-e4m3\",\"dtype\":\"BF16\",\"shape\":[2,4]}}}"),
};
/* clang-format on */

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
