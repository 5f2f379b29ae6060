/* gguf.h - GGUF files, llama.cpp's container: typed metadata, a list of tensors, their data.
 *
 * Little-endian throughout: "GGUF", version, the number of tensors and of keys, the keys with their
 * values, the tensors (name, dimensions innermost first, type, offset), padding, data. Types are
 * ggml's: plain numbers, or blocks of some elements in some bytes.
 *
 * Sources: ggml 0.13, src/gguf.cpp and docs/gguf.md; gguf-py 0.19, constants.py. */
#ifndef KERF_FILE_GGUF_H
#define KERF_FILE_GGUF_H

#include "file/disk/blob.h"
#include "file/table/header.h"
#include "file/json/text.h"

#define KF_GGUF_MAX_ITEMS 65536u /* tensors, and keys */
#define KF_GGUF_MAX_STRING_BYTES (1u << 26)
#define KF_GGUF_MAX_NAME_BYTES 63u /* llama.cpp's own buffer has 64 */
#define KF_GGUF_MAX_KEY_BYTES 65535u
#define KF_GGUF_MAX_RANK 4u
#define KF_GGUF_MAX_ALIGNMENT (1u << 20)
#define KF_GGUF_DEFAULT_ALIGNMENT 32u
#define KF_GGUF_QUANTIZATION_VERSION 2u /* of ggml's blocks; older ones lie otherwise */

/* The metadata of other files may carry the header of a GGUF file under this key, so that it can be
 * written again: kf_gguf_pack. */
#define KF_GGUF_CARRIED "gguf"

typedef struct kf_gguf_type {
    const char *name; /* "Q8_0" */
    uint32_t id;
    unsigned elements, bytes; /* of one block                                                */
    kerf_dtype dtype;         /* KERF_DTYPE_NONE: blocks                                     */
    int file_type; /* general.file_type of files that are mostly this; -1: kerf knows no number */
} kf_gguf_type;

const kf_gguf_type *kf_gguf_type_at(uint32_t id); /* NULL: no such type */
const kf_gguf_type *kf_gguf_type_find(const char *name);
const kf_gguf_type *kf_gguf_type_of(kerf_dtype t); /* NULL: GGUF has no such numbers */

/* Value types of keys. */
typedef enum kf_gguf_value {
    KF_GGUF_U8,
    KF_GGUF_I8,
    KF_GGUF_U16,
    KF_GGUF_I16,
    KF_GGUF_U32,
    KF_GGUF_I32,
    KF_GGUF_F32,
    KF_GGUF_BOOL,
    KF_GGUF_STRING,
    KF_GGUF_ARRAY,
    KF_GGUF_U64,
    KF_GGUF_I64,
    KF_GGUF_F64,
    KF_GGUF_VALUES
} kf_gguf_value;

typedef struct kf_gguf_key {
    const char *name;
    size_t at, bytes; /* of the record: name, type and value */
    size_t value;     /* where the value is; of a string, its length */
    kf_gguf_value type;
} kf_gguf_key;

/* A header as a validated table. */
typedef struct kf_gguf {
    uint8_t *bytes; /* the file up to its data */
    size_t n;
    uint32_t alignment;
    kf_gguf_key *key; /* in the order of the file */
    size_t keys;
    kerf_tensor *tensor; /* in the order of the file, which is that of offsets */
    kf_named *by_name;
    size_t count;
    char *strings; /* names of keys and tensors */
} kf_gguf;

/* A little-endian number. */
static inline uint64_t kf_gguf_get(const uint8_t *p, unsigned bytes)
{
    uint64_t v = 0;
    while (bytes-- > 0) v = v << 8 | p[bytes];
    return v;
}

int kf_gguf_is(const uint8_t first[4]);

/* Reads and validates all of a file but its data. */
kerf_status kf_gguf_read(const kf_blob *b, kf_gguf *out, kerf_error *err);
/* The same for a header alone: n bytes whose data lies elsewhere. Takes the bytes over, also when
 * it fails. `what` stands for the file in errors. */
kerf_status kf_gguf_parse(const char *what, uint8_t *bytes, size_t n, kf_gguf *out,
                          kerf_error *err);
void kf_gguf_free(kf_gguf *g);

/* As the reader has headers. Its metadata are the keys that are strings, and the whole header under
 * KF_GGUF_CARRIED. Takes the tensors of g over. */
kerf_status kf_gguf_take(kf_gguf *g, kf_header *out, kerf_error *err);

/* The header as a string of metadata (base64), and back: malloc'd. */
size_t kf_gguf_packed_bytes(size_t n);
void kf_gguf_pack(const uint8_t *p, size_t n, char *out); /* terminated */
kerf_status kf_gguf_unpack(const char *text, uint8_t **out, size_t *n, kerf_error *err);

#endif
