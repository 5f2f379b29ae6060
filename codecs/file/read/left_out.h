/* left_out.h - files of weights beside those of a model. */
#ifndef KERF_FILE_LEFT_OUT_H
#define KERF_FILE_LEFT_OUT_H

#include "file/read/shard.h"

/* A model of a folder, once all of its tensors are known. */
typedef struct kf_beside_of {
    const char *folder, *index; /* index: its path; NULL: there is none */
    const kf_shard *shard;
    size_t shards;
    const kf_named *by_name; /* of all tensors */
    size_t count;
} kf_beside_of;

/* KERF_E_DATA: a file that is not read is a part of the model; the text says what to do. *other:
 * another one with tensors that the model does not have, by its name, which the caller frees. */
kerf_status kf_look_beside(const kf_beside_of *m, char **other, kerf_error *err);

#endif
