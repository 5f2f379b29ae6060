/* file.h - weight files: open and read checkpoints, write them whole or not at all.
 *
 * Reading: a checkpoint is one safetensors file (plain, or zstd in its seekable format), a folder
 * with model.safetensors or model.safetensors.index.json, or one GGUF file. All of a header is
 * validated before anything else is believed; tensor data is read with pread, never mapped.
 *
 * Writing: the list of tensors is declared first, the header is written from it, then bytes go
 * to any place in any order; commit checks what is on disk, syncs and renames. Until then the
 * target does not exist, and a killed writer leaves only a temporary that the next one removes, or
 * goes on with.
 *
 * How quantized tensors stand in a checkpoint is the matter of a layout: see kerf_layout below.
 *
 * Threads: a reader may be used by many threads at once, a writer by one at a time except
 * kerf_writer_write, which may run concurrently on disjoint ranges.
 */
#ifndef KERF_FILE_H
#define KERF_FILE_H

#include <kerf/codec.h>
#include <kerf/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- bounds on what is read (documented in README; all checked before memory is taken) ----- */
#define KERF_MAX_HEADER_BYTES 100000000u
#define KERF_MAX_TENSORS 1000000u
#define KERF_MAX_NAME_BYTES 1024u
#define KERF_MAX_METADATA_BYTES (1u << 26)

/* --- read ---------------------------------------------------------------------------------- */

typedef struct kerf_view kerf_view;

typedef struct kerf_tensor {
    const char *name; /* owned by the reader, or by the weights    */
    kerf_dtype dtype;
    kerf_shape shape;
    uint64_t bytes;
    unsigned shard;  /* index for kerf_reader_shard               */
    uint64_t offset; /* of its first byte in that (unpacked) file */
    const char
        *block_type;       /* GGUF: "Q8_0"; the tensor is the bytes of such blocks, U8. Else NULL */
    const kerf_view *view; /* its elements stand elsewhere in the file, in another order (see
                              kerf_weights_arrange); offset means nothing. Else NULL      */
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

KERF_API int kerf_reader_is_gguf(const kerf_reader *r);

/* The i-th key of a shard's __metadata__; returns 0 past the end. Of a GGUF file: its keys that are
 * strings, and under "gguf" its whole header, from which a writer can make another. */
KERF_API int kerf_reader_metadata_at(const kerf_reader *r, size_t shard, size_t i, const char **key,
                                     const char **value);
/* The value of a key of a shard's __metadata__, or NULL. */
KERF_API const char *kerf_reader_metadata(const kerf_reader *r, size_t shard, const char *key);

/* Reads n bytes of a tensor from its byte `offset` into dst. */
KERF_API KERF_CHECK kerf_status kerf_reader_read(const kerf_reader *r, const kerf_tensor *t,
                                                 uint64_t offset, void *dst, size_t n,
                                                 kerf_error *err);

/* A number for what was opened, which changes with it: sizes, times of change and headers of the
 * files, and samples of their data. Equal for the same files under other paths. */
KERF_API KERF_CHECK kerf_status kerf_reader_fingerprint(const kerf_reader *r, uint64_t *out,
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

/* A small file of a folder: its name and its text. */
typedef struct kerf_companion {
    const char *name;
    char *text;
} kerf_companion;

/* What the bytes of an output depend on besides its entries, for a run that is continued when it
 * was killed: what it finished is noted in a journal beside its temporaries. */
typedef struct kerf_resume {
    uint64_t source; /* kerf_reader_fingerprint of what is read              */
    uint64_t work;   /* hash of how that becomes the output                  */
    int goes_on;     /* begin with what a dead run for the same target left, and leave what is
                        finished to the next when this one does not end well */
} kerf_resume;

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
    /* block_type[i]: what the bytes of entry i are in a GGUF file, as kerf_tensor has it; NULL,
     * also the whole list: nothing but elements */
    const char *const *block_type;
    /* written into a folder, in place of a file of this name that would be copied              */
    const kerf_companion *companion;
    size_t companions;
    const kerf_resume *resume; /* NULL: no journal, what dead runs left is removed            */
    /* Told, by KERF_EVENT_PROGRESS, how much has been read back of what was written, in create (of a
     * dead run) and in commit; asked there for every few MiB. It must live as long as the writer. */
    const kerf_job *job;
} kerf_writer_options;

typedef struct kerf_writer kerf_writer;

/* Declares the output. `path` ending in .safetensors, .safetensors.zst or .gguf is a file, anything
 * else a folder. A GGUF file has the keys of the header that the metadata "gguf" carry, but for
 * general.file_type, which follows from the entries; without it, the metadata as strings. Nothing
 * is visible under `path` before commit. The header is on disk when this returns. KERF_E_EXISTS:
 * the target is there and overwrite is 0. Duplicate names: KERF_E_ARG. */
KERF_API KERF_CHECK kerf_status kerf_writer_create(const char *path, const kerf_entry *entries,
                                                   size_t count, const kerf_writer_options *opt,
                                                   kerf_writer **out, kerf_error *err);

/* Writes n bytes of entry i from its byte `offset`. */
KERF_API KERF_CHECK kerf_status kerf_writer_write(kerf_writer *w, size_t i, uint64_t offset,
                                                  const void *src, size_t n, kerf_error *err);

/* All bytes of entries [first, first + count) are written: a journal notes it, and `note` with it,
 * when that is worth the time. Nothing without a journal. */
KERF_API KERF_CHECK kerf_status kerf_writer_mark(kerf_writer *w, size_t first, size_t count,
                                                 uint64_t note, kerf_error *err);

/* 1 when a dead run has marked these entries and their bytes are there, compared with its journal:
 * they must not be written again. *note as it was. */
KERF_API int kerf_writer_marked(const kerf_writer *w, size_t first, size_t count, uint64_t *note);

/* Bytes that were found so. *why: in a few words why nothing could be used, or NULL. */
KERF_API uint64_t kerf_writer_found(const kerf_writer *w, const char **why);

/* Checks that every byte was written, reads all back and compares, syncs, renames, and writes
 * the index last. The writer is closed whether this succeeds or not. */
KERF_API KERF_CHECK kerf_status kerf_writer_commit(kerf_writer *w, kerf_error *err);

/* Gives up: removes every temporary, unless the next run is to go on with it, and closes. NULL is
 * fine. */
KERF_API void kerf_writer_abort(kerf_writer *w);

/* Bytes of the files that create would write, headers included. */
KERF_API uint64_t kerf_writer_bytes(const kerf_writer *w);

/* Removes the temporaries of every open writer: async-signal-safe, for SIGINT and SIGTERM. */
KERF_API void kerf_writer_cleanup_signal(void);

/* Writes n bytes to path in the same safe way (temporary, sync, rename). */
KERF_API KERF_CHECK kerf_status kerf_file_replace(const char *path, const void *p, size_t n,
                                                  int overwrite, kerf_error *err);

/* --- layouts: how the planes of a quantized tensor stand in a checkpoint --------------------- */

/* A layout names, types and arranges tensors; it computes nothing. `kerf` takes every format; the
 * others take what the programs that they are named after can load. */
typedef struct kerf_layout {
    const char *name; /* "compressed-tensors"                        */
    const char *note; /* whose it is, and who loads it               */
} kerf_layout;

KERF_API size_t kerf_layout_count(void);
KERF_API const kerf_layout *kerf_layout_at(size_t i); /* `kerf` first; NULL past the end */
KERF_API const kerf_layout *kerf_layout_find(const char *name); /* NULL if unknown       */

/* What the layout calls this format ("nvfp4-pack-quantized"), or NULL when it has no place for
 * it. *written: 0 when such tensors are only read. */
KERF_API const char *kerf_layout_scheme(const kerf_layout *l, const kerf_format *f, int *written);

/* The layout that config.json in the folder of these files names, or hf_quant_config.json where it
 * names none; NULL: none, or one that kerf does not know. */
KERF_API const kerf_layout *kerf_layout_configured(const kerf_reader *r);

/* A JSON file of that folder ("config.json") as text that any parser reads, to be freed: what Python
 * writes of numbers that JSON has not (NaN, Infinity, integers beyond 64 bits) is 0 there. KERF_E_DATA:
 * damaged, or no object; KERF_E_IO: not there; KERF_E_LIMIT: larger than 16 MiB. */
KERF_API KERF_CHECK kerf_status kerf_config_read(const kerf_reader *r, const char *name, char **out,
                                                 kerf_error *err);

/* Whether the layout can be written with this format: KERF_E_NOSUP says why not, and which formats
 * it takes. */
KERF_API KERF_CHECK kerf_status kerf_layout_check(const kerf_layout *l, const kerf_format *f,
                                                  kerf_error *err);

/* Whether this tensor can stand in the layout in this format: KERF_E_NOSUP with the reason. */
KERF_API KERF_CHECK kerf_status kerf_layout_check_tensor(const kerf_layout *l, const kerf_format *f,
                                                         const char *name, const kerf_shape *shape,
                                                         kerf_error *err);

/* 1 when layers that runtimes fuse into one matrix must have the same scale per matrix. */
KERF_API int kerf_layout_shares_scale(const kerf_layout *l, const kerf_format *f);

/* What the scale of a layer's activations is called beside weights of this format ("input_scale"):
 * one F32, of shape [1] where *is_vector, else []. *is_inverse: it divides. NULL: the layout has
 * none. */
KERF_API const char *kerf_layout_input(const kerf_layout *l, const kerf_format *f, int *is_inverse,
                                       int *is_vector);

/* The number to divide by instead of multiplying by x: of those near 1 / x the one whose reciprocal
 * is x, where there is one. */
KERF_API float kerf_inverse_of(float x);

/* --- quantized tensors in a checkpoint ------------------------------------------------------- */

#define KERF_EXTRAS 3 /* the most tensors of a weight that store no plane */

/* A tensor as a model sees it: dense, or quantized and spread over several stored tensors. */
typedef struct kerf_weight {
    const char *name;                      /* owned by the kerf_weights                       */
    kerf_shape shape;                      /* of the dense tensor                             */
    kerf_dtype dtype;                      /* of the dense tensor, or of the source before
                                              it was quantized                                */
    kerf_codec codec;                      /* format NULL: dense; encoder NULL: not recorded  */
    kerf_geometry geometry;                /* when quantized                                  */
    const kerf_layout *layout;             /* when quantized                                  */
    const kerf_tensor *plane[KERF_PLANES]; /* what stores each plane; dense: plane[0] alone    */
    const kerf_tensor *extra[KERF_EXTRAS]; /* tensors that store no plane, in the layout's order */
    int unit_second;   /* the second-level scales are 1, and layout gguf does not store them */
    const char *whole; /* the stack that it was a part of: kerf_weights_arrange; else NULL   */
} kerf_weight;

typedef struct kerf_weights kerf_weights;

/* Groups a checkpoint's tensors into weights. What the `kerf` metadata describes must be there
 * exactly as the layout has it; what it does not describe is recognized by the names, types and
 * shapes of its tensors. All others are dense. The reader must outlive the result. */
KERF_API KERF_CHECK kerf_status kerf_weights_open(const kerf_reader *r, kerf_weights **out,
                                                  kerf_error *err);
KERF_API void kerf_weights_close(kerf_weights *w);
KERF_API size_t kerf_weights_count(const kerf_weights *w);
KERF_API const kerf_weight *kerf_weights_at(const kerf_weights *w, size_t i);
KERF_API const kerf_weight *kerf_weights_find(const kerf_weights *w, const char *name);

/* The experts of a layer: as the files have them, one by one (X.experts.3.gate_proj.weight, a
 * matrix), or stacked with their input features last (X.experts.gate_up_proj, gate and up in turn,
 * as gpt-oss has them). */
typedef enum kerf_experts {
    KERF_EXPERTS_AS_THEY_ARE,
    KERF_EXPERTS_SINGLE,
    KERF_EXPERTS_STACKED
} kerf_experts;

/* What the loaders of a layout want. */
KERF_API kerf_experts kerf_layout_experts(const kerf_layout *l);

/* Arranges the experts of layers of which wanted (NULL: all) says so for their first weight; no
 * byte is read. What cannot be arranged stays: layers with parts that are missing or do not fit
 * each other, stacks in blocks that go across rows. Pointers to weights are invalid afterwards. */
KERF_API KERF_CHECK kerf_status kerf_weights_arrange(kerf_weights *w, kerf_experts how,
                                                     int (*wanted)(void *ctx, const kerf_weight *w),
                                                     void *ctx, kerf_error *err);

/* Why a tensor that is named and typed like codes of a quantized weight is not part of one: one
 * line into out, cut to size; returns 0 when it is one, or is not named like any. */
KERF_API int kerf_tensor_doubt(const kerf_reader *r, const kerf_tensor *t, char *out, size_t size);

/* Reads n bytes of a plane, as the codec has it, from its byte `offset`, however it is stored.
 * Both are whole elements of the plane's dtype. */
KERF_API KERF_CHECK kerf_status kerf_weight_read(const kerf_reader *r, const kerf_weight *w,
                                                 kerf_plane_id p, uint64_t offset, void *dst,
                                                 size_t n, kerf_error *err);

/* Counts the numbers of w that its planes cannot give back to its own layout exactly: reciprocals
 * that were rounded. */
KERF_API KERF_CHECK kerf_status kerf_weight_inexact(const kerf_reader *r, const kerf_weight *w,
                                                    uint64_t *count, kerf_error *err);

/* The i-th tensor that stores w (name, shape, codec and geometry are read) in a layout: its dtype
 * and shape into *out and its name, cut to size, into `name`, to which out->name points. *plane is
 * the plane that it holds, or KERF_PLANES. Returns 0 past the last. */
KERF_API int kerf_layout_entry(const kerf_layout *l, const kerf_weight *w, size_t i, char *name,
                               size_t size, kerf_entry *out, kerf_plane_id *plane);

/* Turns w into the weight that layout l can store, code for code: where l has no place for its
 * format, into the one that has the same numbers in planes of their own (ggml-nvfp4 -> nvfp4); for
 * layout gguf, scales of 1 per matrix are left out. Whether l takes the result is for
 * kerf_layout_check to say. *foreign_from: the lowest byte of a block scale that the two sides read
 * as different numbers; 256: none. */
KERF_API KERF_CHECK kerf_status kerf_weight_fit(const kerf_reader *r, const kerf_layout *l,
                                                kerf_weight *w, unsigned *foreign_from,
                                                kerf_error *err);

/* The JSON string of the `kerf` metadata key that describes these weights (name, codec, dtype and
 * shape are read; dense ones are skipped). malloc'd, to be freed by the caller; NULL: no memory. */
KERF_API char *kerf_layout_describe(const kerf_layout *l, const kerf_weight *weights, size_t count);

/* Writes the planes of one weight into the entries of its stored tensors, which begin at `first`
 * and are those of kerf_layout_entry. The weight and the writer must outlive it. */
typedef struct kerf_weight_writer kerf_weight_writer;
KERF_API KERF_CHECK kerf_status kerf_weight_writer_open(kerf_writer *w, const kerf_layout *l,
                                                        const kerf_weight *weight, size_t first,
                                                        kerf_weight_writer **out, kerf_error *err);
/* Writes n bytes of a plane from its byte `offset`; whole elements of the plane's dtype. Of planes
 * that share a tensor (layout gguf), codes come first and then the scales of the same bands. */
KERF_API KERF_CHECK kerf_status kerf_weight_writer_write(kerf_weight_writer *w, kerf_plane_id p,
                                                         uint64_t offset, const void *src, size_t n,
                                                         kerf_error *err);
/* Writes what could not be written before all bytes were known. */
KERF_API KERF_CHECK kerf_status kerf_weight_writer_finish(kerf_weight_writer *w, kerf_error *err);
/* Numbers so far that the layout cannot give back exactly: reciprocals that were rounded. */
KERF_API uint64_t kerf_weight_writer_inexact(const kerf_weight_writer *w);
KERF_API void kerf_weight_writer_close(kerf_weight_writer *w); /* NULL is fine */

/* The small files that say to a loader how the folder is quantized: config.json of the source
 * with its quantization_config, and hf_quant_config.json or quantize_config.json where the layout
 * has one. weights: all of the output; those with a codec are quantized, the others are listed as
 * not. At most KERF_COMPANIONS; *count may be 0: the source has no config.json. The texts are
 * malloc'd; release them with kerf_companions_free. KERF_E_NOSUP: the loaders cannot be told of
 * such a mixture, load experts another way, or need input scales that are not there. */
#define KERF_COMPANIONS 2
KERF_API KERF_CHECK kerf_status kerf_layout_companions(const kerf_layout *l, const kerf_reader *r,
                                                       const kerf_weight *weights,
                                                       size_t weight_count,
                                                       kerf_companion out[KERF_COMPANIONS],
                                                       size_t *count, kerf_error *err);
KERF_API void kerf_companions_free(kerf_companion *c, size_t count);

#ifdef __cplusplus
}
#endif
#endif
