/* file.h - weight files: open and read checkpoints, write them whole or not at all.
 *
 * Reading: a checkpoint is one safetensors file (plain, or zstd in its seekable format), a folder
 * with model.safetensors or model.safetensors.index.json, or one GGUF file. All of a header is
 * validated before anything in the file is used; tensor data is read with pread, never mapped.
 *
 * Writing: the list of tensors is declared first, the header is written from it, then bytes are
 * written to any place in any order; commit checks what is on disk, syncs and renames. Until then
 * the target does not exist. A program that is killed meanwhile ("a dead run" below) leaves only
 * temporaries beside the target; the next writer of that target removes them, or continues them.
 *
 * How the parts of a quantized tensor are named and arranged in such a file: <kerf/layouts.h>.
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

/* --- bounds on what is read (all checked before memory is taken) --------------------------- */
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
 * reads files front to back. KERF_E_IO: a file cannot be opened or read; KERF_E_DATA: it is not a
 * weight file, is damaged, or the files contradict each other; KERF_E_LIMIT: it is beyond the
 * bounds above; KERF_E_NOSUP: a version or type that is not read; KERF_E_NOMEM. */
KERF_API KERF_CHECK kerf_status kerf_reader_open(const char *path, kerf_reader **out,
                                                 kerf_error *err);
KERF_API void kerf_reader_close(kerf_reader *r); /* NULL is fine */

/* 1: `given`, "org/name" or "models--org--name", is a model of the Hugging Face hub whose folder is
 * in this local cache of it, which is never filled; then its path, of less than `size` bytes, is in
 * out.
 */
KERF_API int kerf_hub_folder(const char *cache, const char *given, char *out, size_t size);

KERF_API size_t kerf_reader_count(const kerf_reader *r);
KERF_API const kerf_tensor *kerf_reader_at(const kerf_reader *r, size_t i); /* NULL past the end */
KERF_API const kerf_tensor *kerf_reader_find(const kerf_reader *r,
                                             const char *name); /* NULL if absent   */

/* The folder of the snapshot in a folder of the Hugging Face cache (models--org--name): the one
 * that refs/main names, or the only one. malloc'd, the caller's; NULL in *out: path is no such
 * folder. KERF_E_DATA: it has no snapshot, or several and none of them is "main". */
KERF_API KERF_CHECK kerf_status kerf_hub_snapshot(const char *path, char **out, kerf_error *err);

KERF_API size_t kerf_reader_shard_count(const kerf_reader *r);
/* File name of a shard without its folder, "model-00001-of-00002.safetensors". */
KERF_API const char *kerf_reader_shard(const kerf_reader *r, size_t i);
/* Folder that holds the shards, and whether the checkpoint was opened as a folder. */
KERF_API const char *kerf_reader_folder(const kerf_reader *r);
KERF_API int kerf_reader_is_folder(const kerf_reader *r);

/* 1: the checkpoint is a GGUF file (or the parts of one), 0: safetensors files. */
KERF_API int kerf_reader_is_gguf(const kerf_reader *r);

/* The i-th key of a shard's __metadata__; returns 0 past the end. Of a GGUF file: its keys that are
 * strings, and under "gguf" its whole header, from which a writer can make another. */
KERF_API int kerf_reader_metadata_at(const kerf_reader *r, size_t shard, size_t i, const char **key,
                                     const char **value);
/* The value of a key of a shard's __metadata__, or NULL. */
KERF_API const char *kerf_reader_metadata(const kerf_reader *r, size_t shard, const char *key);

/* Reads n bytes of a tensor from its byte `offset` into dst. KERF_E_ARG: they are not inside of it;
 * KERF_E_IO: the file cannot be read, or was cut since it was opened; KERF_E_DATA: it is packed,
 * and damaged. */
KERF_API KERF_CHECK kerf_status kerf_reader_read(const kerf_reader *r, const kerf_tensor *t,
                                                 uint64_t offset, void *dst, size_t n,
                                                 kerf_error *err);

/* KERF_E_IO: one of the files, the index or config.json was written to or replaced since it was
 * opened, so what was read may be parts of two models. Ask it after the last read and before the
 * result is used; all calls of this library that read a whole checkpoint do. */
KERF_API KERF_CHECK kerf_status kerf_reader_check(const kerf_reader *r, kerf_error *err);

/* A number for what was opened, which changes with it: sizes, times of change and headers of the
 * files, and samples of their data. Equal for the same files under other paths. */
KERF_API KERF_CHECK kerf_status kerf_reader_fingerprint(const kerf_reader *r, uint64_t *out,
                                                        kerf_error *err);

/* A number for the tensors that were opened: names, types, shapes and samples of their data, not
 * the files and times. A copy of a model has the same, as has one that is split into other files.
 */
KERF_API KERF_CHECK kerf_status kerf_reader_contents(const kerf_reader *r, uint64_t *out,
                                                     kerf_error *err);

/* --- what may be written ------------------------------------------------------------------- */

/* The paths that a call reads and those that it writes; all zeros are none. A source is a file,
 * which stands also for the configuration beside it and for the other parts of a GGUF file in
 * several; or a folder, which stands for all files in it, save for reports that kerf wrote. What is
 * not there is no source. A cache is read and then replaced. */
typedef struct kerf_files {
    const char *const *source;
    size_t sources;
    const char *const *output;
    size_t outputs;
    const char *const *cache;
    size_t caches;
} kerf_files;

/* KERF_E_ARG: an output would replace a file of a source or a cache, or two of outputs and caches
 * are one path or one inside of the other, through whatever links; KERF_E_EXISTS: there is a pipe
 * or a device. Ask it before the work begins. Changes nothing; whether an existing file may be
 * replaced is asked by the writers. */
KERF_API KERF_CHECK kerf_status kerf_files_check(const kerf_files *f, kerf_error *err);
/* KERF_E_IO: the folder that an output or a cache is to be in is not there, or not to be written
 * to. Ask it too before work that takes hours and writes at its end; a plan that is only looked at
 * may be for another machine. */
KERF_API KERF_CHECK kerf_status kerf_files_check_folders(const kerf_files *f, kerf_error *err);

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

/* Asks for a journal beside the temporaries, in which finished entries are noted, so that a later
 * run can continue this one if it is killed. source and work say what the bytes of the output
 * depend on besides its entries: only a run with equal numbers continues it. */
typedef struct kerf_resume {
    uint64_t source; /* kerf_reader_fingerprint of what is read              */
    uint64_t work;   /* hash of how that becomes the output                  */
    int goes_on;     /* use what a dead run for the same target finished; and if this run fails,
                        leave what it finished for the next                  */
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
    /* NULL: all files are written. Else those of one part, into a folder beside `path`, where they
     * wait for kerf_merge; `path` is a folder, and resume is given. Writes into others do nothing
     */
    const struct kerf_own_part *part;
    const kerf_resume *resume; /* NULL: no journal, what dead runs left is removed            */
    /* Told, by KERF_EVENT_PROGRESS, how much has been read back of what was written, in create (of
     * a dead run) and in commit; asked there for every few MiB. It must live as long as the writer.
     */
    const kerf_job *job;
} kerf_writer_options;

typedef struct kerf_writer kerf_writer;

/* Declares the output. `path` ending in .safetensors, .safetensors.zst or .gguf is a file, anything
 * else a folder. A GGUF file has the keys of the header that the metadata "gguf" carry, but for
 * general.file_type, which follows from the entries; without it, the metadata as strings. Nothing
 * is visible under `path` before commit. The header is on disk when this returns. KERF_E_EXISTS:
 * the target is there and overwrite is 0, or is a folder that no overwriting may remove: one that
 * holds anything but plain files, or files and no weights among them. Duplicate names: KERF_E_ARG.
 */
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

/* 1 when a dead run has marked these entries and their bytes are still there, which create has
 * checked: they must not be written again. *note is what it gave to kerf_writer_mark. */
KERF_API int kerf_writer_marked(const kerf_writer *w, size_t first, size_t count, uint64_t *note);

/* Bytes of a dead run that are used. *why: in a few words why none could be used, or NULL. */
KERF_API uint64_t kerf_writer_found(const kerf_writer *w, const char **why);

/* Checks that every byte was written, reads all back and compares, syncs, writes the index of a
 * folder, and renames. The writer is closed whether this succeeds or not. KERF_E_ARG: a byte was
 * never written, or twice; KERF_E_IO: a system call failed, or other bytes were read back;
 * KERF_E_CANCELED. */
KERF_API KERF_CHECK kerf_status kerf_writer_commit(kerf_writer *w, kerf_error *err);

/* Gives up: closes the writer and removes every temporary, unless kerf_resume.goes_on leaves them
 * to the next run. NULL is fine. */
KERF_API void kerf_writer_abort(kerf_writer *w);

/* Bytes of the files that create would write, headers included. */
KERF_API uint64_t kerf_writer_bytes(const kerf_writer *w);

/* Removes the temporaries of every open writer: async-signal-safe, for SIGINT and SIGTERM. */
KERF_API void kerf_writer_cleanup_signal(void);

/* Writes n bytes to path in the same safe way (temporary, read back, sync, rename). KERF_E_EXISTS:
 * it is there and overwrite is 0, or is no regular file. */
KERF_API KERF_CHECK kerf_status kerf_file_replace(const char *path, const void *p, size_t n,
                                                  int overwrite, kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
