/* reader.h - an open checkpoint, as the rest of the library may look into it. */
#ifndef KERF_FILE_READER_H
#define KERF_FILE_READER_H

#include "file/read/shard.h"

struct kerf_reader {
    char *folder;
    int is_folder;
    kf_shard *shard;
    size_t shards;
    kerf_tensor *tensor;
    kf_named *by_name;
    size_t count;
    char *index; /* path of the index, or NULL */
    kf_stamp index_stamp;
};

#endif
