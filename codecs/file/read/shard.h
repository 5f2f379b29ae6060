/* shard.h - one file of a checkpoint: its bytes and its header, whichever container it is. */
#ifndef KERF_FILE_SHARD_H
#define KERF_FILE_SHARD_H

#include "file/disk/blob.h"
#include "file/gguf/gguf_split.h"
#include "file/table/header.h"

typedef struct kf_shard {
    const char *name; /* points into blob.path */
    kf_blob blob;
    kf_header header; /* the reader takes its tensors over */
    int may_be_gguf;  /* set before it is opened: files that an index names are safetensors */
    int is_gguf;
    kf_gguf_split split; /* of a GGUF file */
} kf_shard;

#define KF_NO_SHARD         \
    {                       \
        .blob = {.fd = -1 } \
    }

/* Opens and validates all of it but the data. Closed by the caller, also when this fails. */
kerf_status kf_shard_open(kf_shard *s, const char *path, kerf_error *err);
void kf_shard_close(kf_shard *s); /* fine on KF_NO_SHARD */

/* KERF_E_DATA: the path is a file of torch.save. */
kerf_status kf_fail_pickle(const char *path, kerf_error *err);

#endif
