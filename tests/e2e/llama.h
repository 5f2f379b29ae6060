/* llama.h - a Llama-architecture language model, as small as it can be told: read a checkpoint
 * folder, run it over a row of tokens, say how well it predicted them.
 *
 * Weights may be dense or quantized; both become float32 through kerf_decode, and everything
 * after that is plain float32 arithmetic. What a format costs a model is then the difference of
 * two perplexities, with nothing else changed. */
#ifndef KERF_E2E_LLAMA_H
#define KERF_E2E_LLAMA_H

#include <stdint.h>

#include <kerf/codec.h>

#include "matmul.h"

/* config.json, in the names of Hugging Face. */
typedef struct llama_config {
    unsigned hidden_size, intermediate_size, vocab_size;
    unsigned num_hidden_layers, num_attention_heads, num_key_value_heads, head_dim;
    int tie_word_embeddings;
    double rms_norm_eps, rope_theta;
} llama_config;

typedef struct llama_layer {
    float *input_norm, *post_attention_norm;
    matrix q, k, v, o, gate, up, down;
} llama_layer;

typedef struct llama {
    llama_config config;
    float *embedding; /* [vocab_size][hidden_size] */
    float *norm;
    matrix lm_head;
    llama_layer *layer;
    unsigned quantized; /* weights that were not dense in the checkpoint */
} llama;

/* Reads folder/config.json and the weights beside it. On failure *m is empty. */
kerf_status llama_open(const char *folder, llama *m, kerf_error *err);
void llama_close(llama *m);

/* Sum of -ln p(tokens[i] | tokens[0..i)) for i in [1, n). Every token is below vocab_size. */
kerf_status llama_row_loss(const llama *m, const uint16_t *tokens, size_t n, double *loss,
                           kerf_error *err);

#endif
