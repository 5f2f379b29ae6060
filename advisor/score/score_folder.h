/* score_folder.h - scores kept bit by bit in a folder, which several processes may write parts of:
 * tensors stand in files, and a part has some of the files (kerf/parts.h).
 *
 *   NAME.sums     F64 [codecs, 8]   the sums of a kerf_score, in its order
 *   NAME.counts   U64 [codecs, 8]   its counts, in their order
 *   kerf-scores.json                what else a report says: paths, codecs, tensors in their order
 */
#ifndef KERF_SCORE_FOLDER_H
#define KERF_SCORE_FOLDER_H

#include <kerf/score.h>

#define KF_SCORES_NAME "kerf-scores.json"
#define KF_SCORES_SCHEMA "kerf.score-folder/1"
#define KF_SUMS_NAME ".sums"
#define KF_COUNTS_NAME ".counts"

/* Of a score. */
enum { KF_SCORE_SUMS = 8, KF_SCORE_COUNTS = 8 };
void kf_score_take_apart(const kerf_score *s, double sums[KF_SCORE_SUMS],
                         uint64_t counts[KF_SCORE_COUNTS]);
void kf_score_put_together(const double sums[KF_SCORE_SUMS], const uint64_t counts[KF_SCORE_COUNTS],
                           kerf_score *out);

/* Both texts as one, malloc'd; NULL: no memory. */
char *kf_score_join(const char *name, const char *suffix);

/* Files of so many tensors. */
size_t kf_score_files(size_t tensors);

typedef struct kf_score_folder {
    const kerf_scores *scores;
    kerf_writer *writer; /* NULL: none is written     */
    kerf_entry *entry;   /* two of each tensor; names are owned */
    unsigned char *own;  /* [files] 1: this part has it */
    double *sums;        /* of one tensor             */
    uint64_t *counts;
    kerf_job quiet;
} kf_score_folder;

/* Opens the writer of what `request` asks for. work[tensors]: bytes of work. */
kerf_status kf_score_folder_create(kf_score_folder *f, const kerf_scores *s,
                                   const kerf_checkpoint *source, const kerf_score_request *request,
                                   const uint64_t *work, const kerf_team *team, const kerf_job *job,
                                   kerf_error *err);
/* 1: another part has this tensor. */
int kf_score_folder_elsewhere(const kf_score_folder *f, size_t tensor);
/* 1: a run before has written it. */
int kf_score_folder_found(const kf_score_folder *f, size_t tensor);
/* Writes what the scores say of a tensor. One thread at a time. */
kerf_status kf_score_folder_put(kf_score_folder *f, size_t tensor, kerf_error *err);
kerf_status kf_score_folder_commit(kf_score_folder *f, kerf_error *err);
/* Gives up what was not committed. All zeros are fine. */
void kf_score_folder_close(kf_score_folder *f);

#endif
