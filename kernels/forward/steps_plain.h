/* steps_plain.h - the steps of a forward pass on the processor. */
#ifndef KERF_FORWARD_STEPS_PLAIN_H
#define KERF_FORWARD_STEPS_PLAIN_H

#include "plan/forward_steps.h"

extern const kf_steps kf_steps_plain;

/* Calls task(ctx, first, count) for blocks of tokens on all threads. No task fails. */
typedef void kf_token_task(const void *ctx, uint64_t first, uint64_t count);
kerf_status kf_for_tokens(int threads, uint64_t tokens, kf_token_task *task, const void *ctx);

/* Those of steps_heads.c and next_token.c. */
kerf_status kf_rotate_plain(kf_stepper *s, const kf_rotation *r, kerf_error *err);
kerf_status kf_attend_plain(kf_stepper *s, const kf_attention *a, kerf_error *err);
kerf_status kf_unpack_plain(kf_stepper *s, const kf_unpacking *u, kerf_error *err);
kerf_status kf_judge_plain(kf_stepper *s, kf_rows a, kf_rows b, const uint32_t *next,
                           kf_likely *out, kerf_error *err);

#endif
