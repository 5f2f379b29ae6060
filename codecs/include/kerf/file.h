/* file.h - weight files: open and read checkpoints, write them whole or not at all.
 *
 * Reading: a checkpoint is one safetensors file (plain, or zstd in its seekable format) or a
 * folder with model.safetensors or model.safetensors.index.json. All of a header is validated
 * before anything else is believed; tensor data is read with pread, never mapped.
 *
 * Writing: the list of tensors is declared first, the header is written from it, then bytes go
 * to any place in any order; commit checks what is on disk, syncs and renames. Until then the
 * target does not exist, and a killed writer leaves only a temporary that the next one removes.
 *
 * Quantized tensors inside a checkpoint are described by a layout: see kerf_layout below.
 *
 * Threads: a reader may be used by many threads at once, a writer by one at a time except
 * kerf_writer_write, which may run concurrently on disjoint ranges.
 */
#ifndef KERF_FILE_H
#define KERF_FILE_H

#include <kerf/codec.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- bounds on what is read (documented in README; all checked before memory is taken) ----- */
#define KERF_MAX_HEADER_BYTES 100000000u
#define KERF_MAX_TENSORS 1000000u
#define KERF_MAX_NAME_BYTES 1024u
#define KERF_MAX_METADATA_BYTES (1u << 26)

/* --- read ---------------------------------------------------------------------------------- */

typedef struct kerf_tensor {
    const char *name; /* owned by the reader                       */
    kerf_dtype dtype;
    kerf_shape shape;
    uint64_t bytes;
    unsigned shard;  /* index for kerf_reader_shard               */
    uint64_t offset; /* of its first byte in that (unpacked) file */
} kerf_tensor;

typedef struct kerf_reader kerf_reader;

/* Opens a file or a folder. Tensors are ordered by shard, then by offset: reading them in order
 * reads files front to back. */
KERF_API KERF_CHECK kerf_status kerf_reader_open(const char *path, kerf_reader **out,
                                                 kerf_error *err);
KERF_API void kerf_reader_close(kerf_reader *r); /* NULL is fine */

KERF_API size_t kerf_reader_count(const kerf_reader *r);
KERF_API const kerf_tensor *kerf_reader_at(const kerf_reader *r, size_t i); /* NULL past the end */
KERF_API const kerf_tensor *kerf_reader_find(const kerf_reader *r,
                                             const char *name); /* NULL if absent   */

KERF_API size_t kerf_reader_shard_count(const kerf_reader *r);
/* File name of a shard without its folder, "model-00001-of-00002.safetensors". */
KERF_API const char *kerf_reader_shard(const kerf_reader *r, size_t i);
/* Folder that holds the shards, and whether the checkpoint was opened as a folder. */
KERF_API const char *kerf_reader_folder(const kerf_reader *r);
KERF_API int kerf_reader_is_folder(const kerf_reader *r);

/* The i-th key of a shard's __metadata__; returns 0 past the end. */
KERF_API int kerf_reader_metadata_at(const kerf_reader *r, size_t shard, size_t i, const char **key,
                                     const char **value);
/* The value of a key of a shard's __metadata__, or NULL. */
KERF_API const char *kerf_reader_metadata(const kerf_reader *r, size_t shard, const char *key);

/* Reads n bytes of a tensor from its byte `offset` into dst. */
KERF_API KERF_CHECK kerf_status kerf_reader_read(const kerf_reader *r, const kerf_tensor *t,
                                                 uint64_t offset, void *dst, size_t n,
                                                 kerf_error *err);

/* --- write --------------------------------------------------------------------------------- */

/* A tensor to be written; name and dtype as they shall stand in the file. */
typedef struct kerf_entry {
    const char *name;
    kerf_dtype dtype;
    kerf_shape shape;
    unsigned shard; /* which file of a folder; 0 for a single file */
} kerf_entry;

typedef struct kerf_key_value {
    const char *key, *value;
} kerf_key_value;

typedef struct kerf_writer_options {
    int overwrite;             /* replace an existing target                                  */
    int threads;               /* for compression; 0: all cores                               */
    int zstd_level;            /* for targets named *.zst; 0: 3                               */
    const kerf_reader *source; /* refuse to write over it; its folder's small files (config,
                                  tokenizer, ...) are copied when the target is a folder       */
    const char *const *shard;  /* file names of the shards of a folder; NULL: one file,
                                  model.safetensors. With several, the index is written last   */
    size_t shards;
    /* metadata[i]: the strings of shard i's __metadata__ besides "format":"pt"; NULL: none     */
    const kerf_key_value *const *metadata;
    const size_t *metadata_count;
} kerf_writer_options;

typedef struct kerf_writer kerf_writer;

/* Declares the output. `path` ending in .safetensors or .safetensors.zst is a file, anything
 * else a folder. Nothing is visible under `path` before commit. The header is on disk when this
 * returns. KERF_E_EXISTS: the target is there and overwrite is 0. Duplicate names: KERF_E_ARG. */
KERF_API KERF_CHECK kerf_status kerf_writer_create(const char *path, const kerf_entry *entries,
                                                   size_t count, const kerf_writer_options *opt,
                                                   kerf_writer **out, kerf_error *err);

/* Writes n bytes of entry i from its byte `offset`. */
KERF_API KERF_CHECK kerf_status kerf_writer_write(kerf_writer *w, size_t i, uint64_t offset,
                                                  const void *src, size_t n, kerf_error *err);

/* Checks that every byte was written, reads all back and compares, syncs, renames, and writes
 * the index last. The writer is closed whether this succeeds or not. */
KERF_API KERF_CHECK kerf_status kerf_writer_commit(kerf_writer *w, kerf_error *err);

/* Gives up: removes every temporary and closes. NULL is fine. */
KERF_API void kerf_writer_abort(kerf_writer *w);

/* Bytes of the files that create would write, headers included. */
KERF_API uint64_t kerf_writer_bytes(const kerf_writer *w);

/* Removes the temporaries of every open writer: async-signal-safe, for SIGINT and SIGTERM. */
KERF_API void kerf_writer_cleanup_signal(void);

/* Writes n bytes to path in the same safe way (temporary, sync, rename). */
KERF_API KERF_CHECK kerf_status kerf_file_replace(const char *path, const void *p, size_t n,
                                                  int overwrite, kerf_error *err);

/* --- quantized tensors in a checkpoint: layouts --------------------------------------------- */

/* A tensor as a model sees it: dense, or quantized and spread over several planes. */
typedef struct kerf_weight {
    const char *name;                      /* owned by the kerf_weights                       */
    kerf_shape shape;                      /* of the dense tensor                             */
    kerf_dtype dtype;                      /* of the dense tensor, or of the source before
                                              it was quantized                                */
    kerf_codec codec;                      /* format NULL: dense; encoder NULL: not recorded  */
    kerf_geometry geometry;                /* when quantized                                  */
    const kerf_tensor *plane[KERF_PLANES]; /* dense: plane[0] alone                           */
} kerf_weight;

typedef struct kerf_weights kerf_weights;

/* Groups a checkpoint's tensors into weights by its `kerf` metadata; every plane is checked
 * against the geometry that format and shape demand. Tensors without a description are dense.
 * The reader must outlive the result. */
KERF_API KERF_CHECK kerf_status kerf_weights_open(const kerf_reader *r, kerf_weights **out,
                                                  kerf_error *err);
KERF_API void kerf_weights_close(kerf_weights *w);
KERF_API size_t kerf_weights_count(const kerf_weights *w);
KERF_API const kerf_weight *kerf_weights_at(const kerf_weights *w, size_t i);
KERF_API const kerf_weight *kerf_weights_find(const kerf_weights *w, const char *name);

/* Name of a plane of tensor `name` in layout `kerf`: name, name_scale, name_scale_2,
 * name_zero_point. Cut to size, always terminated; returns the length it needs. */
KERF_API size_t kerf_layout_plane_name(const char *name, kerf_plane_id p, char *out, size_t size);

/* The JSON string of the `kerf` metadata key that describes these weights (name, codec, dtype and
 * shape are read; dense ones are skipped). malloc'd, to be freed by the caller; NULL: no memory. */
KERF_API char *kerf_layout_describe(const kerf_weight *weights, size_t count);

#ifdef __cplusplus
}
#endif
#endif
