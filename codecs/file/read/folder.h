/* folder.h - which files of a folder are its model. */
#ifndef KERF_FILE_FOLDER_H
#define KERF_FILE_FOLDER_H

#include "base/base.h"

typedef struct kf_folder {
    char *file;   /* one file has all                                      */
    char *index;  /* or an index names them                                */
    char **shard; /* or they are numbered: names, without the folder, by number */
    size_t shards;
} kf_folder;

/* model.safetensors before its index, as other readers have it; then the one index of another name,
 * a whole set of numbered shards, the only safetensors file. KERF_E_DATA: none of these, or
 * several, or a shard is missing; the text names what to give instead. KERF_E_NOSUP: a pipeline of
 * several models.
 */
kerf_status kf_folder_look(const char *path, kf_folder *out, kerf_error *err);
void kf_folder_free(kf_folder *f); /* all zeros are fine */

/* Names of all files of weights in a folder, in their order, but for what is no model of its own:
 * an adapter, the state of an optimizer, the same weights in another type or as Mistral has them.
 * The caller frees each and the list. */
kerf_status kf_folder_files(const char *folder, char ***name, size_t *count, kerf_error *err);

/* Behind the name of an output: the folder in which its parts wait for each other. */
#define KF_PARTS_ENDING ".kerf-parts"

/* KERF_E_DATA: the path is, or is in, the folder of parts that are not merged, or nothing is there
 * but such a folder beside it; the text names the command that merges them. A file is none. */
kerf_status kf_folder_refuse_parts(const char *path, kerf_error *err);

/* "model-00002-of-00003.safetensors" is number 2 of 3; returns 0 for other names. */
int kf_shard_number(const char *name, unsigned *number, unsigned *count);

#endif
