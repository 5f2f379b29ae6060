/* forward_inputs.h - what the inputs of a layer's weights come to: added up on the processor, in
 * double and one token after the other, or where a GPU is to add. */
#ifndef KERF_TESTS_GPU_FORWARD_INPUTS_H
#define KERF_TESTS_GPU_FORWARD_INPUTS_H

#include "or_die.h"

#include <kerf/forward.h>
#include <math.h>
#include <string.h>

#define MOST_WEIGHTS 512

typedef struct input {
    char name[200];
    int64_t expert;
    uint64_t columns, tokens;
    double *square;
    float *gram, largest;
} input;

typedef struct inputs {
    input of[MOST_WEIGHTS];
    size_t count;
    float cache[2];
} inputs;

static input *input_of(inputs *all, const kerf_layer_weight *w)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->of[i].expert == w->expert && !strcmp(all->of[i].name, w->name)) return &all->of[i];
    if (all->count == MOST_WEIGHTS) die(w->name, "too many weights");
    input *x = &all->of[all->count++];
    *x = (input){.expert = w->expert, .columns = w->cols};
    snprintf(x->name, sizeof x->name, "%s", w->name);
    x->square = calloc(w->cols, sizeof *x->square);
    x->gram = calloc(w->cols * w->cols, sizeof *x->gram);
    if (!x->square || !x->gram) die(w->name, "no memory");
    return x;
}

static void free_inputs(inputs *all)
{
    for (size_t i = 0; i < all->count; i++) {
        free(all->of[i].square);
        free(all->of[i].gram);
    }
    *all = (inputs){.count = 0};
}

/* The processor's way: in double, one token after the other. */
static kerf_status take_input(void *ctx, const kerf_layer_weight *w, const float *x, uint64_t n,
                              kerf_error *err)
{
    input *to = input_of(ctx, w);
    (void)err;
    to->tokens += n;
    for (uint64_t t = 0; t < n; t++, x += w->cols)
        for (uint64_t i = 0; i < w->cols; i++) {
            to->square[i] += (double)x[i] * (double)x[i];
            if (fabsf(x[i]) > to->largest) to->largest = fabsf(x[i]);
            for (uint64_t k = i; k < w->cols; k++) to->gram[i * w->cols + k] += x[i] * x[k];
        }
    return KERF_OK;
}

static float largest_of(const float *x, uint64_t n, float most)
{
    for (uint64_t i = 0; i < n; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

static uint64_t key_columns, value_columns;

static kerf_status take_cache(void *ctx, uint64_t layer, float *k, float *v, uint64_t n,
                              kerf_error *err)
{
    inputs *all = ctx;
    (void)layer, (void)err;
    all->cache[0] = largest_of(k, n * key_columns, all->cache[0]);
    all->cache[1] = largest_of(v, n * value_columns, all->cache[1]);
    return KERF_OK;
}

static kerf_status give_sums(void *ctx, const kerf_layer_weight *w, uint64_t n, kerf_sums *to,
                             kerf_error *err)
{
    input *x = input_of(ctx, w);
    (void)err;
    x->tokens += n;
    *to = (kerf_sums){x->square, &x->largest, x->gram};
    return KERF_OK;
}

#endif
