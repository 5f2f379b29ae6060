/* next_token.h - what a model says of the next token, and how far another one is from it. */
#ifndef KERF_NEXT_TOKEN_H
#define KERF_NEXT_TOKEN_H

#include <kerf/forward.h>

/* The last states of a model for some rows of tokens. */
typedef struct kf_said {
    kerf_decoder *model;
    const float *hidden; /* [rows * length][hidden], behind the last layer */
} kf_said;

/* One prediction: a position and the token that follows it. */
typedef struct kf_prediction {
    float loss;  /* -ln p(next)                                              */
    float other; /* the same of the second model                             */
    float kl;    /* sum of p ln(p / q), p of the first model, q of the other */
    int agrees;  /* both find the same token most likely                     */
} kf_prediction;

/* Fills [rows * (length - 1)] predictions, row after row. q NULL: only `loss` is set. Each is found
 * alone, so that threads and panels change nothing. The logits of two panels are in memory. */
kerf_status kf_next_tokens(const kf_said *p, const kf_said *q, const kerf_tokens *tokens,
                           int threads, kf_prediction *out, const kerf_job *job, kerf_error *err);

#endif
