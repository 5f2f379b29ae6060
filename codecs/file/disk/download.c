/* download.c - a file that could not be read may be none: a pointer of git-lfs, a page that a
 * server sent in its place, a file of another kind. Its first bytes tell. */
#include "file/disk/download.h"

#include <ctype.h>
#include <string.h>

#define AGAIN "what was asked for was not what came; fetch it again"
#define GGML "a file of llama.cpp from before GGUF: its model is published as GGUF, fetch that"

static const struct {
    const char *begins; /* in small letters */
    const char *is;
} kinds[] = {
    {"version https://git-lfs.",
     "a pointer of git-lfs, not the file that it stands for: git lfs pull fetches it"},
    {"version https://hawser.",
     "a pointer of git-lfs, not the file that it stands for: git lfs pull fetches it"},
    {"# xet version", "a pointer of git-xet, not the file that it stands for: git xet fetches it"},
    {"<!doctype", "an HTML page, not this file: " AGAIN},
    {"<html", "an HTML page, not this file: " AGAIN},
    {"<head", "an HTML page, not this file: " AGAIN},
    {"<?xml", "an XML document, not this file: " AGAIN},
    {"<error", "an XML document, not this file: " AGAIN},
    {"{\"error", "an error of a server, not this file: fetch it again"},
    {"{\"message", "an error of a server, not this file: fetch it again"},
    {"entry not found", "an error of a server, not this file: fetch it again"},
    {"access to model", "an error of a server, not this file: accept the model's terms, log in and "
                        "fetch it again"},
    {"invalid ", "an error of a server, not this file: fetch it again"},
    {"not found", "an error of a server, not this file: fetch it again"},
    {"\x93numpy", "a file of NumPy, not weights: save the model with safetensors"},
    {"\x89hdf", "a file of HDF5 (Keras, TensorFlow): save the model with safetensors"},
    {"\x1f\x8b", "packed with gzip: gunzip it first"},
    {"bzh", "packed with bzip2: bunzip2 it first"},
    {"\xfd"
     "7zxz",
     "packed with xz: unxz it first"},
    {"7z\xbc\xaf", "an archive of 7-Zip: unpack it first"},
    {"rar!", "an archive of RAR: unpack it first"},
    {"lmgg", GGML},
    {"fmgg", GGML},
    {"tjgg", GGML},
};

const char *kf_download_is(const void *first, size_t n)
{
    const unsigned char *p = first, *end = p + n;
    if (n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) p += 3; /* a mark of the byte order */
    while (p < end && strchr(" \t\r\n", *p) && *p) p++;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *want = kinds[i].begins;
        const unsigned char *at = p;
        while (at < end && *want && tolower(*at) == (unsigned char)*want) at++, want++;
        if (!*want) return kinds[i].is;
    }
    return NULL;
}
