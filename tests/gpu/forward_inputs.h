/* forward_inputs.h - what the inputs of a layer's weights come to: added up on the processor, in
 * double and one token after the other, or where a GPU is to add; inputs that a watch changes; and
 * how far two states are apart. */
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

/* --- what a watch may change ----------------------------------------------------------------- */

/* Every third number of an input is halved for this weight alone; keys, too, for all. */
static inline kerf_status replace(void *ctx, const kerf_layer_weight *w, const float *x,
                                  uint64_t tokens, const float **y, kerf_error *err)
{
    static float *other;
    const uint64_t n = tokens * w->cols;
    (void)ctx, (void)err;
    free(other);
    other = malloc(n * sizeof *other);
    if (!other) die("an input", "no memory");
    for (uint64_t i = 0; i < n; i++) other[i] = i % 3 ? x[i] : x[i] / 2;
    *y = other;
    return KERF_OK;
}

static inline kerf_status halve_keys(void *ctx, uint64_t layer, float *k, float *v, uint64_t tokens,
                                     kerf_error *err)
{
    (void)ctx, (void)layer, (void)v, (void)err;
    for (uint64_t i = 0; i < tokens * key_columns; i += 3) k[i] /= 2;
    return KERF_OK;
}

/* The largest difference as a part of the rms of the state. */
static inline double distance(const float *a, const float *b, uint64_t n)
{
    double sum = 0, worst = 0;
    for (uint64_t i = 0; i < n; i++) {
        const double off = fabs((double)a[i] - (double)b[i]);
        sum += (double)a[i] * (double)a[i];
        worst = off > worst || isnan(off) ? off : worst;
    }
    return worst / sqrt(sum / (double)n);
}

#endif
