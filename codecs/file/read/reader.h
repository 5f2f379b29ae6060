/* reader.h - an open checkpoint, as the rest of the library may look into it. */
#ifndef KERF_FILE_READER_H
#define KERF_FILE_READER_H

#include <sys/types.h>

#include "file/read/shard.h"

struct kerf_reader {
    char *folder;
    int is_folder;
    kf_shard *shard;
    size_t shards;
    kerf_tensor *tensor;
    kf_named *by_name;
    size_t count;
};

/* 1 when this is one of the checkpoint's files, under whatever name. */
int kf_reader_holds(const kerf_reader *r, dev_t device, ino_t inode);

#endif
