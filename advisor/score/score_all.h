/* score_all.h - some weights in some codecs, by a team, with a cache: what kerf_score_checkpoint
 * and kerf_advise have in common. */
#ifndef KERF_SCORE_ALL_H
#define KERF_SCORE_ALL_H

#include <kerf/score.h>

typedef struct kf_score_all_job {
    const kerf_checkpoint *source, *imatrix; /* imatrix NULL: none                         */
    /* Its Gram matrices weigh errors, where a weight has one; NULL: none. Its mean squares are the
     * imatrix, as a rule. */
    const kerf_calibration *calibration;
    int feedback; /* 1: encode with error feedback by these matrices; 2: again */
    const kerf_weight *const *weight; /* [weights]                                  */
    size_t weights;
    const kerf_codec *codec; /* [codecs] */
    size_t codecs;
    /* 0: this weight is not scored in this codec. NULL: all are. */
    int (*wanted)(const void *ctx, size_t weight, size_t codec);
    const void *ctx;
    int zstd_level;
    const char *cache; /* path of a kf_score_cache, which also stays when this fails; NULL: none */
    const kerf_team *team;
    const kerf_ranks *ranks; /* measure some weights each, and get the scores of all; NULL: none */
    /* After a weight was measured, one at a time; NULL: nothing is left to do. Not with ranks. */
    kerf_status (*finished)(void *to, size_t weight, kerf_error *err);
    void *to;
    kerf_score *score; /* the result: [weights][codecs]; what is not wanted is left alone */
} kf_score_all_job;

/* scored, cached: how many scores were measured and how many were in the cache. They may be NULL.
 */
kerf_status kf_score_all(const kf_score_all_job *all, const kerf_job *job, size_t *scored,
                         size_t *cached, kerf_error *err);

/* Bytes that are worked through for one weight: an upper bound, as what the cache has is not
 * encoded. */
uint64_t kf_score_work(const kf_score_all_job *all, size_t weight);

#endif
