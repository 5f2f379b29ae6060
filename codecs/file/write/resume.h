/* resume.h - which files of the temporary folder of a dead run (one that was killed) can be used.
 */
#ifndef KERF_FILE_RESUME_H
#define KERF_FILE_RESUME_H

#include "file/write/journal.h"

typedef enum kf_left { KF_LEFT_NONE, KF_LEFT_PLAIN, KF_LEFT_PACKED } kf_left;

/* A file of the output in the temporary folder: its name until it is packed, and after. */
typedef struct kf_resume_file {
    const char *plain, *packed; /* packed NULL: it stays as it is */
    kf_left form;               /* what is there of it and can be used */
} kf_resume_file;

typedef struct kf_found {
    kf_ledger ledger; /* of the finished entries: hashed and compared */
    kf_marks marks;   /* of those, as the next journal will have them */
    size_t *of_entry; /* per entry: 1 + its mark; 0: not finished     */
    uint64_t bytes;
    const char *why; /* NULL, or why nothing can be used */
} kf_found;

void kf_found_init(kf_found *f);
void kf_found_free(kf_found *f);

typedef struct kf_resume_job {
    const char *target;
    kf_journal_head head;
    const kf_placement *placement;
    kf_resume_file *file; /* placement->files of them; their forms are set */
    int threads;
    kf_watch *watch;
} kf_resume_job;

/* A number for all that is decided about the files: headers, names, packing. */
uint64_t kf_resume_hash(const kf_resume_job *job, int level);

/* Opens the temporary folder of a dead run for the same target that was about to write the same,
 * and sweeps it; else a new one, with the reason in out->why. */
kerf_status kf_resume_open(const kf_resume_job *job, kf_temp *root, kf_found *out, kerf_error *err);

#endif
