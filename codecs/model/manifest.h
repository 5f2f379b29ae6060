/* manifest.h - what an output checkpoint will hold: its files, its tensors, its metadata. */
#ifndef KERF_MANIFEST_H
#define KERF_MANIFEST_H

#include "model/checkpoint.h"
#include "args.h"
#include "base/work.h"

typedef struct manifest {
    kerf_entry *entry;
    const char **block_type; /* per entry, for *.gguf; NULL: elements */
    size_t count, room;
    size_t *first; /* per weight: its first entry */
    size_t weights, weights_room;
    uint64_t shard_bytes;      /* of --shard-size; 0: the files of the source */
    int is_file;               /* one file merges all                         */
    int is_gguf;               /* which is a GGUF file                        */
    const char **shard;        /* file names; NULL: one file                  */
    size_t shards;             /* known once it is described                  */
    kerf_key_value **metadata; /* per shard                                   */
    size_t *metadata_count;
    kerf_companion companion[KERF_COMPANIONS];
    size_t companions;
} manifest;

/* A folder mirrors the files of its source unless --shard-size splits them anew, a single file
 * merges them. */
kerf_status manifest_open(manifest *m, const char *path, const args *a, kerf_error *err);
void manifest_close(manifest *m); /* all zeros are fine */

/* The layout of an output of this name (NULL: none yet): gguf for *.gguf and for nothing else. What
 * --layout says must agree. */
kerf_status manifest_layout(const kerf_checkpoint *source, const char *path, const args *a,
                            const kerf_layout **out, kerf_error *err);

/* Adds the next weight: a dense one, or the tensors that store a quantized one in a layout, as
 * kerf_layout_entry has them, in the shard of its codes. */
kerf_status manifest_add_weight(manifest *m, const kerf_layout *layout, const kerf_weight *w,
                                kerf_error *err);
/* Adds the next weight as one dense tensor. */
kerf_status manifest_add_dense(manifest *m, const kerf_weight *w, kerf_dtype dtype,
                               kerf_error *err);

size_t manifest_entries(const manifest *m, size_t i); /* of weight i, which begin at first[i] */

/* Names the files and sets the metadata: what the source's files say of themselves, and the
 * description of the quantized ones of these weights, which lie in the shard of their plane[0].
 * When the output is a folder, also the small files that tell its loaders of them. */
kerf_status manifest_describe(manifest *m, const kerf_checkpoint *source, const kerf_layout *layout,
                              const kerf_weight *weights, size_t count, kerf_error *err);

uint64_t manifest_bytes(const manifest *m); /* of all tensors */

/* Copies a tensor of the source into entry i, a panel at a time. */
kerf_status copy_tensor(const kerf_checkpoint *source, const kerf_tensor *t, kerf_writer *w,
                        size_t i, kf_work *bar, kerf_error *err);

/* Copies all that stores a weight into the entries from i on. */
kerf_status copy_weight(const kerf_checkpoint *source, const kerf_weight *w, kerf_writer *to,
                        size_t i, kf_work *bar, kerf_error *err);

#endif
