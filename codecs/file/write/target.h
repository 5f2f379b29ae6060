/* target.h - whether an output of this name may be written. */
#ifndef KERF_FILE_TARGET_H
#define KERF_FILE_TARGET_H

#include <kerf/file.h>

typedef struct kf_target {
    char *path; /* malloc'd; an existing folder under its real name */
    int is_folder;
    int is_packed;      /* *.zst */
    int is_gguf;        /* *.gguf */
    int needs_exchange; /* a folder with files in it stands there */
} kf_target;

/* Refuses the source under any name, what exists unless opt->overwrite, and what overwriting would
 * destroy beyond files. Changes nothing. */
kerf_status kf_target_check(const char *path, const kerf_writer_options *opt, kf_target *out,
                            kerf_error *err);

#endif
