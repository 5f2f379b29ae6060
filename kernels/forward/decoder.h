/* decoder.h - the insides of a decoder and of a loaded layer. */
#ifndef KERF_FORWARD_DECODER_H
#define KERF_FORWARD_DECODER_H

#include "forward/decoder_config.h"
#include "plan/forward_steps.h"

enum {
#define KF_SLOT(ID, ...) KF_SLOT_##ID,
#include "forward/decoder_slots.def"
#undef KF_SLOT
    KF_SLOTS
};

typedef enum kf_slot_kind {
    KF_KIND_MATRIX,
    KF_KIND_VECTOR,
    KF_KIND_BIAS,
    KF_KIND_EACH,
    KF_KIND_STACK,
    KF_KIND_VECTORS
} kf_slot_kind;

typedef struct kf_slot {
    kf_slot_kind kind;
    int rows, cols; /* KF_SIZE_* */
    unsigned needed;
    int instead;
    const char *names;
} kf_slot;

extern const kf_slot kf_slots[KF_SLOTS];

/* The number that a size of the table stands for. */
uint64_t kf_slot_size(const kf_config *c, int size);

/* Where the weights of one layer stand. */
typedef struct kf_found {
    const kerf_weight *slot[KF_SLOTS]; /* NULL: none; KF_KIND_EACH: that of expert 0 */
} kf_found;

struct kerf_decoder {
    const kerf_reader *reader;
    const kerf_weights *weights;
    kf_config config;
    kerf_decoder_info info;
    int threads;
    kf_stepper *stepper;      /* who computes                                              */
    kf_found *layer;          /* [layers]                                              */
    const kerf_weight **each; /* [layers][3][experts]: E_GATE, E_UP, E_DOWN, one by one */
    const kerf_weight *embedding, *norm, *head;
    const kerf_weight *rope_parts; /* of a GGUF file: what frequencies are divided by      */
    kerf_layer_weight head_weight; /* data NULL: not read yet                              */
    int head_held;                 /* steps that are apart have it                         */
    float *norm_floats;
};

/* Finds all weights, and checks their shapes against the configuration. */
kerf_status kf_decoder_find(kerf_decoder *d, kerf_error *err);
/* KERF_E_DATA: a token that the vocabulary does not have; offset is its index. */
kerf_status kf_tokens_check(const kerf_decoder *d, const kerf_tokens *t, kerf_error *err);

struct kerf_layer {
    const kerf_decoder *d;
    uint64_t index;
    const kf_layer_kind *kind;
    float *data[KF_SLOTS];     /* of the slots that are no KF_KIND_EACH            */
    kerf_layer_weight *weight; /* what is told of: matrices, and each expert       */
    size_t weights;
    kerf_layer_weight *of[KF_SLOTS]; /* the first of a slot; of experts: [experts]       */
    int is_shared;                   /* all of the above are another layer's             */
    kf_sent *sent;                   /* where steps work already; NULL: not              */
};

/* A norm that multiplies by 1 + w as one that multiplies by w; the files of llama.cpp have the sum.
 */
void kf_add_one(const kerf_decoder *d, float *norm, uint64_t n);

/* --- a weight as float32 ------------------------------------------------------------------- */

typedef struct kf_floats {
    const kerf_reader *reader;
    const kerf_job *job;
    const kerf_weight *weight;
    kerf_geometry geometry;
    const kerf_tensor *dense; /* its numbers as a tensor; NULL: decoded from its planes */
    void *whole[KERF_PLANES]; /* planes with one value per matrix                       */
} kf_floats;

kerf_status kf_floats_open(kf_floats *f, const kerf_decoder *d, const kerf_weight *w,
                           kerf_error *err);
/* Bands [b0, b1) of its geometry, in this thread. */
kerf_status kf_floats_bands(const kf_floats *f, uint64_t b0, uint64_t b1, float *out,
                            kerf_error *err);
/* The same on so many threads. */
kerf_status kf_floats_panels(const kf_floats *f, int threads, uint64_t b0, uint64_t b1, float *out,
                             kerf_error *err);
void kf_floats_close(kf_floats *f);

/* All of a weight into out[elements], on the decoder's threads. */
kerf_status kf_floats_read(const kerf_decoder *d, const kerf_weight *w, float *out,
                           kerf_error *err);

#endif
