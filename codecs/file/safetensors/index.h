/* index.h - model.safetensors.index.json: which shard holds which tensor. */
#ifndef KERF_FILE_INDEX_H
#define KERF_FILE_INDEX_H

#include "file/table/header.h"
#include "file/json/text.h"

#define KF_MODEL_NAME "model.safetensors" /* of a folder with one file */
#define KF_INDEX_NAME "model.safetensors.index.json"

typedef struct kf_index {
    kf_named *entry; /* tensors by name; index = shard        */
    size_t count;
    const char **shard; /* file names by name, each once */
    size_t shards;
    char *strings;
} kf_index;

/* 1 when a name stays in its folder and says that it is a safetensors file. */
int kf_is_shard_name(const char *name);

/* Reads and validates; whether the shards agree is for the reader to see. */
kerf_status kf_index_read(const char *path, kf_index *out, kerf_error *err);
void kf_index_free(kf_index *x);

/* The text of an index. entry[i].index is a shard; entries are by name. A shard that is packed
 * (*.zst) is listed under its unpacked name, so that `zstd -d` of all shards leaves a checkpoint
 * that any reader opens. */
void kf_index_write(kf_text *t, const kf_named *entry, size_t count, const char *const *shard,
                    uint64_t total_bytes);

#endif
