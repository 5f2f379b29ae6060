/* reader.h - an open checkpoint, as the rest of the library may look into it. */
#ifndef KERF_FILE_READER_H
#define KERF_FILE_READER_H

#include "file/read/shard.h"

/* Other files that the answer depends on: an index, config.json. */
typedef struct kf_beside {
    char *path;
    int is_there;
    kf_stamp stamp; /* when the checkpoint was opened */
} kf_beside;

enum { KF_READER_BESIDE = 3 };

struct kerf_reader {
    char *folder;
    int is_folder;
    kf_shard *shard;
    size_t shards;
    kerf_tensor *tensor;
    kf_named *by_name;
    size_t count;
    kf_beside beside[KF_READER_BESIDE];
    size_t besides;
    char *left_out; /* a file of other weights in the folder, by name; NULL: there is none */
};

#endif
