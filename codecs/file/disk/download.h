/* download.h - what downloads and other programs leave in the place of a file. */
#ifndef KERF_FILE_DOWNLOAD_H
#define KERF_FILE_DOWNLOAD_H

#include <stddef.h>

#define KF_DOWNLOAD_BYTES 64 /* of the beginning of a file that tell */

/* What begins so, and what to do about it, to be written behind the file's name; NULL: nothing that
 * is known. For a file that could not be read as what it should be, whose own bytes may well begin
 * so. */
const char *kf_download_is(const void *first, size_t n);

#endif
