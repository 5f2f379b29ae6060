/* reader.h - what the rest of the file room may know of an open checkpoint. */
#ifndef KERF_FILE_READER_H
#define KERF_FILE_READER_H

#include <sys/types.h>

#include <kerf/file.h>

/* 1 when this is one of the checkpoint's files, under whatever name. */
int kf_reader_holds(const kerf_reader *r, dev_t device, ino_t inode);

#endif
