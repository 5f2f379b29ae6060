/* manifest.h - what an output checkpoint will hold: its files, its tensors, its metadata. */
#ifndef KERF_MODEL_MANIFEST_H
#define KERF_MODEL_MANIFEST_H

#include <kerf/quantize.h>

typedef struct kf_manifest {
    kerf_entry *entry;
    const char **block_type; /* per entry, for *.gguf; NULL: elements */
    size_t count, room;
    size_t *first; /* per weight: its first entry */
    size_t weights, weights_room;
    uint64_t shard_bytes;      /* as kerf_output has it                  */
    int is_file;               /* one file merges all                    */
    int is_gguf;               /* which is a GGUF file                   */
    const char **shard;        /* file names; NULL: one file             */
    size_t shards;             /* known once it is described             */
    kerf_key_value **metadata; /* per shard                              */
    size_t *metadata_count;
    kerf_companion companion[KERF_COMPANIONS];
    size_t companions;
    char **text; /* owned: every name, key and value above */
    size_t texts, texts_room;
} kf_manifest;

/* The layout of an output: what it says, or gguf for *.gguf (without a path: for a source that is
 * GGUF), else kerf. KERF_E_ARG: path and layout do not fit each other. */
kerf_status kf_manifest_layout(const kerf_reader *source, const kerf_output *to,
                               const kerf_layout **out, kerf_error *err);

/* A folder mirrors the files of its source unless new ones of a size are wanted; a single file
 * merges them. */
kerf_status kf_manifest_open(kf_manifest *m, const kerf_output *to, kerf_error *err);
void kf_manifest_close(kf_manifest *m); /* all zeros are fine */

/* Adds the next weight: a dense one, or the tensors that store a quantized one in a layout, as
 * kerf_layout_entry has them, in the shard of its codes. */
kerf_status kf_manifest_add_weight(kf_manifest *m, const kerf_layout *layout, const kerf_weight *w,
                                   kerf_error *err);
/* Adds the next weight as one dense tensor. */
kerf_status kf_manifest_add_dense(kf_manifest *m, const kerf_weight *w, kerf_dtype dtype,
                                  kerf_error *err);

/* Adds the next weight with the tensors that it has in its own files, under the names of its
 * layout: others have other names for the same scales (scale_names.c), and loaders ask for one. */
kerf_status kf_manifest_add_stored(kf_manifest *m, const kerf_weight *w, kerf_error *err);
/* Adds a weight that the output does not have. */
kerf_status kf_manifest_add_nothing(kf_manifest *m, kerf_error *err);

/* Entries of weight i, which begin at first[i]. */
size_t kf_manifest_entries(const kf_manifest *m, size_t i);

/* Names the files and sets the metadata: what the source's files say of themselves, and the
 * description of the quantized ones of these weights, which lie in the shard of their plane[0].
 * When the output is a folder, also the small files that tell its loaders of them. path: of the
 * source, for errors. */
kerf_status kf_manifest_describe(kf_manifest *m, const kerf_reader *source, const char *path,
                                 const kerf_layout *layout, const kerf_weight *weights,
                                 size_t count, kerf_error *err);

uint64_t kf_manifest_entry_bytes(const kf_manifest *m, size_t entry);
uint64_t kf_manifest_bytes(const kf_manifest *m); /* of all tensors */

#endif
