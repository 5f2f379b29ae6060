/* gguf_rope.h - rotary positions that are scaled, as a GGUF file has them. */
#ifndef KERF_LAYOUT_GGUF_ROPE_H
#define KERF_LAYOUT_GGUF_ROPE_H

#include <jansson.h>
#include <kerf/layouts.h>

typedef enum kf_rope_kind {
    KF_ROPE_PLAIN,
    KF_ROPE_LINEAR,
    KF_ROPE_YARN,
    KF_ROPE_LLAMA3
} kf_rope_kind;

typedef struct kf_rope {
    kf_rope_kind kind;
    const char *name; /* of the scaling, as GGUF has it; NULL: none */
    double factor, low, high, base;
    uint64_t original; /* tokens of context before */
    uint64_t pairs;    /* of numbers in a head     */
} kf_rope;

/* What config.json says. KERF_E_NOSUP: a scaling that is not written as GGUF; KERF_E_DATA: numbers
 * of it are missing or impossible. */
kerf_status kf_gguf_rope_read(const json_t *config, kf_rope *out, kerf_error *err);

/* By how much the frequency of a pair is divided: the tensor rope_freqs.weight of KF_ROPE_LLAMA3.
 */
float kf_rope_divisor(const kf_rope *r, uint64_t pair);

#endif
