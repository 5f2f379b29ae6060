/* malformed_gguf.h - bad GGUF files, each with the status and a part of the line it must give; see
 * gguf_bytes.h for how they are written. Used as malformed.h is. */
#ifndef KERF_TESTS_MALFORMED_GGUF_H
#define KERF_TESTS_MALFORMED_GGUF_H

#include <kerf/file.h>

#include "gguf_bytes.h"

struct malformed_gguf {
    const char *name;
    kerf_status status;
    const char *message; /* stands in the text */
    const char *line;    /* NULL: make */
    void (*make)(struct bytes *b);
};

/* 65,537 tensors in as many bytes as they need. */
static void make_gguf_tensors(struct bytes *b)
{
    gguf_bytes(b, "'GGUF' 3:4 65537:8 0:8 ");
    for (int i = 0; i < 65537; i++) gguf_bytes(b, "s'a' 0:4 24:4 0:8 ");
}

/* Eight tensors of 2^60 bytes. */
static void make_gguf_sum(struct bytes *b)
{
    gguf_bytes(b, "'GGUF' 3:4 8:8 0:8 ");
    for (uint64_t i = 0; i < 8; i++) {
        bytes_number(b, 1, 8);
        bytes_number(b, 'a' + i, 1);
        gguf_bytes(b, "2:4 0x10000000000:8 0x20000:8 28:4");
        bytes_number(b, i << 60, 8);
    }
}

static void make_gguf_long_key(struct bytes *b)
{
    gguf_bytes(b, "'GGUF' 3:4 0:8 1:8 65536:8 *65536 107 4:4 1:4");
}

#define DATA KERF_E_DATA
#define NOSUP KERF_E_NOSUP
#define G_KEY(...) G_HEAD(0, 1) __VA_ARGS__
#define G_ONE(tensor, data) G_HEAD(1, 0) tensor "a32 " data
#define G_TWO(a, b, data) G_HEAD(2, 0) a b "a32 " data
#define F32_2(name, offset) G_TENSOR1(name, 2, 0, offset)

/* clang-format off */
static const struct malformed_gguf malformed_gguf_cases[] = {
    /* header */
    {"g-empty-file",        DATA,  "needs 4 bytes",             "", NULL},
    {"g-three-bytes",       DATA,  "needs 4 bytes",             "'GGU'", NULL},
    {"g-magic",             DATA,  "does not begin with",       "'GGML' 3:4 0:8 0:8", NULL},
    {"g-safetensors",       DATA,  "does not begin with",       "2:8 '{}'", NULL},
    {"g-only-magic",        DATA,  "needs 4 bytes",             "'GGUF'", NULL},
    {"g-version-cut",       DATA,  "needs 4 bytes",             "'GGUF' 3:3", NULL},
    {"g-version-0",         NOSUP, "version 0",                 "'GGUF' 0:4 0:8 0:8", NULL},
    {"g-version-1",         NOSUP, "version 1",                 "'GGUF' 1:4 0:4 0:4", NULL},
    {"g-version-4",         NOSUP, "version 4",                 "'GGUF' 4:4 0:8 0:8", NULL},
    {"g-version-huge",      NOSUP, "version 4294967295",        "'GGUF' 0xffffffff:4 0:8 0:8", NULL},
    {"g-big-endian",        NOSUP, "big-endian",                "'GGUF' 0x03000000:4 0:8 0:8", NULL},
    {"g-counts-cut",        DATA,  "needs 8 bytes",             "'GGUF' 3:4 0:7", NULL},
    {"g-keys-cut",          DATA,  "needs 8 bytes",             "'GGUF' 3:4 0:8 0:7", NULL},
    {"g-tensors-negative",  DATA,  "claims 18446744073709551615 tensors", "'GGUF' 3:4 0xffffffffffffffff:8 0:8 *64 0", NULL},
    {"g-tensors-huge",      DATA,  "claims 1152921504606846976 tensors",  "'GGUF' 3:4 0x1000000000000000:8 0:8 *64 0", NULL},
    {"g-tensors-no-room",   DATA,  "claims 3 tensors",          "'GGUF' 3:4 3:8 0:8 *64 0", NULL},
    {"g-keys-negative",     DATA,  "and 18446744073709551615 keys",       "'GGUF' 3:4 0:8 0xffffffffffffffff:8 *64 0", NULL},
    {"g-keys-no-room",      DATA,  "and 5 keys",                "'GGUF' 3:4 0:8 5:8 *64 0", NULL},
    {"g-both-no-room",      DATA,  "claims 2 tensors and 2",    "'GGUF' 3:4 2:8 2:8 *64 0", NULL},
    {"g-many-tensors",      KERF_E_LIMIT, "at most 65536",      NULL, make_gguf_tensors},

    /* keys */
    {"g-key-empty",         DATA,  "its name is empty",         G_KEY("s'' 4:4 1:4 *8 0"), NULL},
    {"g-key-no-room",       DATA,  "needs 100 bytes",           G_KEY("100:8 'key' 4:4 1:4"), NULL},
    {"g-key-negative",      DATA,  "needs 18446744073709551615 bytes",    G_KEY("0xffffffffffffffff:8 'key' 4:4 1:4"), NULL},
    {"g-key-long",          DATA,  "its name has 65536 bytes",  NULL, make_gguf_long_key},
    {"g-key-zero-inside",   DATA,  "is not UTF-8",              G_KEY("3:8 'a' 0:1 'b' 4:4 1:4"), NULL},
    {"g-key-not-utf8",      DATA,  "is not UTF-8",              G_KEY("2:8 0xc3:1 'b' 4:4 1:4"), NULL},
    {"g-key-surrogate",     DATA,  "is not UTF-8",              G_KEY("3:8 0xed:1 0xa0:1 0x80:1 4:4 1:4"), NULL},
    {"g-key-twice",         DATA,  "key \"k\" occurs twice",    G_HEAD(0, 2) G_U32("k", 1) G_U32("k", 1), NULL},
    {"g-key-twice-apart",   DATA,  "key \"k\" occurs twice",    G_HEAD(0, 4) G_U32("k", 1) G_U32("a", 1) G_U32("z", 1) G_STRING("k", "v"), NULL},
    {"g-type-cut",          DATA,  "needs 4 bytes",             G_KEY("s'keykey' 4:1"), NULL},
    {"g-type-13",           DATA,  "value of type 13",          G_KEY("s'k' 13:4 1:8"), NULL},
    {"g-type-huge",         DATA,  "value of type 4294967295",  G_KEY("s'k' 0xffffffff:4 1:8"), NULL},
    {"g-u8-cut",            DATA,  "needs 1 bytes",             G_KEY("s'kk' 0:4"), NULL},
    {"g-u64-cut",           DATA,  "needs 8 bytes",             G_KEY("s'k' 10:4 1:7"), NULL},
    {"g-f64-cut",           DATA,  "needs 8 bytes",             G_KEY("s'k' 12:4 1:4"), NULL},
    {"g-bool-2",            DATA,  "a bool of 2",               G_KEY("s'k' 7:4 2:1"), NULL},
    {"g-string-no-length",  DATA,  "needs 8 bytes",             G_KEY("s'k' 8:4 1:7"), NULL},
    {"g-string-no-room",    DATA,  "needs 9 bytes",             G_KEY("s'k' 8:4 9:8 'value'"), NULL},
    {"g-string-huge",       DATA,  "needs 9223372036854775808", G_KEY("s'k' 8:4 0x8000000000000000:8 'value'"), NULL},
    {"g-array-no-type",     DATA,  "needs 4 bytes",             G_KEY("s'k' 9:4 4:1"), NULL},
    {"g-array-no-count",    DATA,  "needs 8 bytes",             G_KEY("s'k' 9:4 4:4 1:4"), NULL},
    {"g-array-no-room",     DATA,  "needs 12 bytes",            G_KEY("s'k' 9:4 4:4 3:8 *8 0"), NULL},
    {"g-array-huge",        DATA,  "an array of 18446744073709551615 values", G_KEY("s'k' 9:4 0:4 0xffffffffffffffff:8 *8 0"), NULL},
    {"g-array-overflow",    DATA,  "an array of 2305843009213693953 values",  G_KEY("s'k' 9:4 10:4 0x2000000000000001:8 *8 0"), NULL},
    {"g-array-type-13",     DATA,  "value of type 13",          G_KEY("s'k' 9:4 13:4 1:8 *8 0"), NULL},
    {"g-array-of-arrays",   DATA,  "an array of arrays",        G_KEY("s'k' 9:4 9:4 1:8 4:4 1:8 1:4"), NULL},
    {"g-array-of-none",     DATA,  "an array of arrays",        G_KEY("s'k' 9:4 9:4 0:8"), NULL},
    {"g-array-strings",     DATA,  "an array of 9 values",      G_KEY("s'k' 9:4 8:4 9:8 *64 0"), NULL},
    {"g-array-string-cut",  DATA,  "needs 7 bytes",             G_KEY("s'k' 9:4 8:4 2:8 s'one' 7:8 'two'"), NULL},
    {"g-array-bool-2",      DATA,  "a bool of 255",             G_KEY("s'k' 9:4 7:4 3:8 1:1 0:1 255:1"), NULL},
    {"g-align-0",           DATA,  "0 is not a power of two",   G_KEY(G_U32("general.alignment", 0)), NULL},
    {"g-align-48",          DATA,  "48 is not a power of two",  G_KEY(G_U32("general.alignment", 48)), NULL},
    {"g-align-huge",        DATA,  "2147483648 is more than",   G_KEY(G_U32("general.alignment", 0x80000000)), NULL},
    {"g-align-u64",         DATA,  "its type is not u32",       G_KEY("s'general.alignment' 10:4 32:8"), NULL},
    {"g-align-string",      DATA,  "its type is not u32",       G_KEY(G_STRING("general.alignment", "32")), NULL},
    {"g-align-array",       DATA,  "its type is not u32",       G_KEY("s'general.alignment' 9:4 4:4 1:8 32:4"), NULL},
    {"g-quant-version",     NOSUP, "quantization_version 1",    G_HEAD(1, 1) G_U32("general.quantization_version", 1) G_TENSOR1("w", 32, 8, 0) "a32 *34 0", NULL},
    {"g-quant-type",        DATA,  "its type is not u32",       G_KEY("s'general.quantization_version' 5:4 2:4"), NULL},
    {"g-split",             DATA,  "must be named",             G_KEY("s'split.count' 2:4 3:2"), NULL},
    {"g-split-later",       DATA,  "is part 3 of 3: give the first", G_HEAD(0, 2) "s'split.count' 2:4 3:2 s'split.no' 2:4 2:2", NULL},
    {"g-split-beyond",      DATA,  "says that it is part 4 of 3", G_HEAD(0, 2) "s'split.count' 2:4 3:2 s'split.no' 2:4 3:2", NULL},
    {"g-split-no",          DATA,  "says that it is part 6 of 0", G_KEY("s'split.no' 2:4 5:2"), NULL},
    {"g-split-tensors",     DATA,  "its type is not i32",       G_KEY(G_U32("split.tensors.count", 3)), NULL},
    {"g-split-type",        DATA,  "its type is not u16",       G_KEY(G_U32("split.count", 3)), NULL},

    /* tensors */
    {"g-name-empty",        DATA,  "its name is empty",         G_ONE(F32_2("", 0), "*32 0"), NULL},
    {"g-name-64",           DATA,  "its name has 64 bytes",     G_ONE("64:8 *64 110 1:4 2:8 0:4 0:8 ", "*32 0"), NULL},
    {"g-name-zero-inside",  DATA,  "is not UTF-8",              G_ONE("2:8 'a' 0:1 1:4 2:8 0:4 0:8 ", "*32 0"), NULL},
    {"g-name-not-utf8",     DATA,  "is not UTF-8",              G_ONE("1:8 0xff:1 1:4 2:8 0:4 0:8 ", "*32 0"), NULL},
    {"g-name-no-room",      DATA,  "needs 1099511627776 bytes", G_ONE("0x10000000000:8 'w' 1:4 2:8 0:4 0:8 ", "*32 0"), NULL},
    {"g-names-twice",       DATA,  "two tensors are named \"a\"", G_TWO(F32_2("a", 0), F32_2("a", 32), "*64 0"), NULL},
    {"g-names-twice-apart", DATA,  "two tensors are named \"a\"", G_HEAD(3, 0) F32_2("a", 0) F32_2("b", 32) F32_2("a", 64) "a32 *96 0", NULL},
    {"g-rank-5",            DATA,  "5 dimensions",              G_ONE("s'w' 5:4 1:8 1:8 1:8 1:8 2:8 0:4 0:8 ", "*32 0"), NULL},
    {"g-rank-huge",         DATA,  "4294967295 dimensions",     G_ONE("s'w' 0xffffffff:4 2:8 0:4 0:8 ", "*32 0"), NULL},
    {"g-dims-cut",          DATA,  "needs 8 bytes",             G_HEAD(1, 0) "s'wwwwwwww' 4:4 1:8 1:4", NULL},
    {"g-dim-negative",      DATA,  "dimension 0 is negative",   G_ONE("s'w' 1:4 0xffffffffffffffff:8 0:4 0:8 ", "*32 0"), NULL},
    {"g-dim-huge",          DATA,  "dimension 1 is negative or above 2^53", G_ONE("s'w' 2:4 1:8 0x20000000000001:8 0:4 0:8 ", "*32 0"), NULL},
    {"g-dims-overflow",     DATA,  "does not fit 64 bits",      G_ONE("s'w' 2:4 0x10000000000:8 0x10000000000:8 0:4 0:8 ", "*32 0"), NULL},
    {"g-dims-wrap-to-0",    DATA,  "does not fit 64 bits",      G_ONE("s'w' 2:4 0x100000000:8 0x100000000:8 0:4 0:8 ", "*32 0"), NULL},
    {"g-dims-zero-hides",   DATA,  "does not fit 64 bits",      G_ONE("s'w' 3:4 0x10000000000000:8 0:8 0x10000000000000:8 0:4 0:8 ", "*32 0"), NULL},
    {"g-bytes-overflow",    DATA,  "does not fit 64 bits",      G_ONE("s'w' 2:4 0x10000000000:8 0x200000:8 28:4 0:8 ", "*32 0"), NULL},
    {"g-type-cut-short",    DATA,  "needs 4 bytes",             G_HEAD(1, 0) "s'wwww' 1:4 2:8 0:3", NULL},
    {"g-type-removed",      NOSUP, "ggml type 4 is unknown",    G_ONE(G_TENSOR1("w", 32, 4, 0), "*32 0"), NULL},
    {"g-type-repacked",     NOSUP, "ggml type 31 is unknown",   G_ONE(G_TENSOR1("w", 32, 31, 0), "*32 0"), NULL},
    {"g-type-43",           NOSUP, "ggml type 43 is unknown",   G_ONE(G_TENSOR1("w", 32, 43, 0), "*32 0"), NULL},
    {"g-type-negative",     NOSUP, "ggml type 4294967295",      G_ONE(G_TENSOR1("w", 32, 0xffffffff, 0), "*32 0"), NULL},
    {"g-q8_0-part",         DATA,  "not whole blocks of Q8_0",  G_ONE(G_TENSOR2("w", 33, 2, 8, 0), "*128 0"), NULL},
    {"g-q4_k-part",         DATA,  "not whole blocks of Q4_K",  G_ONE(G_TENSOR2("w", 128, 2, 12, 0), "*160 0"), NULL},
    {"g-nvfp4-part",        DATA,  "not whole blocks of NVFP4", G_ONE(G_TENSOR2("w", 32, 2, 40, 0), "*64 0"), NULL},
    {"g-q8_0-scalar",       DATA,  "rows of 1 elements",        G_ONE("s'w' 0:4 8:4 0:8 ", "*64 0"), NULL},
    {"g-offset-cut",        DATA,  "needs 8 bytes",             G_HEAD(1, 0) "s'wwww' 1:4 2:8 0:4 0:5", NULL},
    {"g-offset-unaligned",  DATA,  "not a multiple of the alignment 32", G_ONE(F32_2("w", 8), "*64 0"), NULL},
    {"g-offset-alignment",  DATA,  "not a multiple of the alignment 64", G_HEAD(2, 1) G_U32("general.alignment", 64) F32_2("a", 0) F32_2("b", 32) "a64 *96 0", NULL},
    {"g-offset-hole",       DATA,  "(hole)",                    G_ONE(F32_2("w", 32), "*64 0"), NULL},
    {"g-offset-hole-2",     DATA,  "(hole)",                    G_TWO(F32_2("a", 0), F32_2("b", 64), "*96 0"), NULL},
    {"g-offset-overlap",    DATA,  "(overlap)",                 G_TWO(G_TENSOR1("a", 16, 0, 0), F32_2("b", 32), "*96 0"), NULL},
    {"g-offset-same",       DATA,  "(overlap)",                 G_TWO(F32_2("a", 0), F32_2("b", 0), "*64 0"), NULL},
    {"g-offset-order",      DATA,  "(hole)",                    G_TWO(F32_2("a", 32), F32_2("b", 0), "*64 0"), NULL},
    {"g-offset-huge",       DATA,  "(hole)",                    G_ONE(F32_2("w", 0x8000000000000000), "*64 0"), NULL},
    {"g-sum-overflow",      DATA,  "beyond 64 bits",            NULL, make_gguf_sum},
    {"g-data-cut",          DATA,  "data ends at",              G_ONE(G_TENSOR1("w", 16, 0, 0), "*63 0"), NULL},
    {"g-data-none",         DATA,  "data ends at",              G_ONE(G_TENSOR1("w", 16, 0, 0), ""), NULL},
    {"g-data-no-padding",   DATA,  "data ends at",              G_HEAD(1, 0) G_TENSOR1("w", 16, 0, 0), NULL},
    {"g-data-second",       DATA,  "tensor \"b\": data ends at", G_TWO(F32_2("a", 0), F32_2("b", 32), "*39 0"), NULL},
    {"g-data-sparse",       DATA,  "data ends at",              G_ONE(G_TENSOR2("w", 0x10000000, 0x10000, 0, 0), "*64 0"), NULL},
    {"g-behind",            DATA,  "1 bytes stand behind",      G_ONE(F32_2("w", 0), "*33 0"), NULL},
    {"g-behind-nothing",    DATA,  "stand behind",              G_HEAD(0, 0) "a32 *1 0", NULL},
    {"g-blocks-behind",     DATA,  "stand behind",              G_ONE(G_TENSOR1("w", 32, 8, 0), "*96 0"), NULL},

    /* weights */
    {"g-scale-type",        DATA,  "not 1 numbers of type F32", G_TWO(G_TENSOR2("w.weight", 64, 1, 40, 0), G_TENSOR1("w.scale", 1, 1, 64), "*66 0"), NULL},
    {"g-scale-count",       DATA,  "not 1 numbers of type F32", G_TWO(G_TENSOR2("w.weight", 64, 1, 40, 0), F32_2("w.scale", 64), "*72 0"), NULL},
    {"g-scale-of-experts",  DATA,  "not 3 numbers of type F32", G_TWO("s'w.weight' 3:4 64:8 1:8 3:8 40:4 0:8 ", F32_2("w.scale", 128), "*136 0"), NULL},
};
/* clang-format on */

#undef DATA
#undef NOSUP
#undef G_KEY
#undef G_ONE
#undef G_TWO
#undef F32_2

#define MALFORMED_GGUF_CASES (sizeof malformed_gguf_cases / sizeof *malformed_gguf_cases)

/* Writes a case below `folder`; its path goes to `path`. */
static void malformed_gguf_put(const struct malformed_gguf *m, const char *folder, char *path,
                               size_t size)
{
    struct bytes b = {0};
    if (m->line)
        gguf_bytes(&b, m->line);
    else
        m->make(&b);
    snprintf(path, size, "%s/%s.gguf", folder, m->name);
    put_file(folder, path + strlen(folder) + 1, b.p ? b.p : (unsigned char *)"", b.n);
    free(b.p);
}

#endif
