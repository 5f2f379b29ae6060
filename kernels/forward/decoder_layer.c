/* decoder_layer.c - the weights of one layer as float32. */
#include <stdlib.h>

#include "forward/decoder.h"

static const kerf_weight *each_at(const kerf_layer *l, int s, uint64_t expert)
{
    const uint64_t piece = s == KF_SLOT_E_GATE ? 0 : s == KF_SLOT_E_UP ? 1 : 2;
    return l->d->each[(l->index * 3 + piece) * l->d->config.experts + expert];
}

/* How many matrices a slot has. */
static uint64_t matrices_of(const kerf_layer *l, int s)
{
    if (!l->d->layer[l->index].slot[s]) return 0;
    switch (kf_slots[s].kind) {
    case KF_KIND_MATRIX: return 1;
    case KF_KIND_EACH:
    case KF_KIND_STACK: return l->d->config.experts;
    default: return 0;
    }
}

static kerf_status load_floats(const kerf_layer *l, const kerf_weight *w, float **out,
                               kerf_error *err)
{
    *out = kf_alloc(kerf_weight_elements(w), sizeof **out);
    if (!*out)
        return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for tensor \"%.*s\" as float32",
                       KF_NAME(w->name));
    return kf_floats_read(l->d, w, *out, err);
}

void kf_add_one(const kerf_decoder *d, float *norm, uint64_t n)
{
    if (!(d->config.family->has & KF_HAS_UNIT_NORMS) || d->config.is_gguf) return;
    for (uint64_t k = 0; k < n; k++) norm[k] += 1.0f;
}

static int is_norm(int s)
{
    static const int norms[] = {KF_SLOT_ATTN_NORM,    KF_SLOT_ATTN_OUT_NORM, KF_SLOT_MLP_NORM,
                                KF_SLOT_MLP_OUT_NORM, KF_SLOT_Q_NORM,        KF_SLOT_K_NORM};
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        if (norms[i] == s) return 1;
    return 0;
}

static kerf_status load_slot(kerf_layer *l, int s, kerf_error *err)
{
    const kf_config *c = &l->d->config;
    const kerf_weight *w = l->d->layer[l->index].slot[s];
    const uint64_t rows = kf_slot_size(c, kf_slots[s].rows);
    const uint64_t cols = kf_slot_size(c, kf_slots[s].cols), count = matrices_of(l, s);
    const int each = kf_slots[s].kind == KF_KIND_EACH, stack = kf_slots[s].kind == KF_KIND_STACK;
    if (!w) return KERF_OK;
    if (!each) KF_TRY(load_floats(l, w, &l->data[s], err));
    if (is_norm(s)) kf_add_one(l->d, l->data[s], rows);
    if (count) l->of[s] = l->weight + l->weights;
    for (uint64_t e = 0; e < count; e++) {
        const kerf_weight *from = each ? each_at(l, s, e) : w;
        kerf_layer_weight *to = l->weight + l->weights++;
        *to = (kerf_layer_weight){from->name, stack ? (int64_t)e : -1, rows, cols, NULL};
        if (each)
            KF_TRY(load_floats(l, from, &to->data, err));
        else
            to->data = l->data[s] + e * rows * cols;
    }
    return KERF_OK;
}

kerf_status kerf_decoder_layer_load(kerf_decoder *d, uint64_t i, kerf_layer **out, kerf_error *err)
{
    *out = NULL;
    if (i >= d->config.layers)
        return kf_fail(err, KERF_E_ARG, i, "layer %llu of %llu", (unsigned long long)i,
                       (unsigned long long)d->config.layers);
    kerf_layer *l;
    KF_TRY(kf_allocate(&l, 1, sizeof *l, err));
    *l = (kerf_layer){.d = d, .index = i, .kind = &d->config.kind[i]};
    uint64_t count = 0;
    for (int s = 0; s < KF_SLOTS; s++) count += matrices_of(l, s);
    kerf_status status = kf_allocate(&l->weight, count, sizeof *l->weight, err);
    for (int s = 0; s < KF_SLOTS && status == KERF_OK; s++) status = load_slot(l, s, err);
    if (status != KERF_OK) {
        kerf_layer_free(l);
        return status;
    }
    *out = l;
    return KERF_OK;
}

kerf_status kerf_decoder_layer_share(kerf_decoder *d, const kerf_layer *of, kerf_layer **out,
                                     kerf_error *err)
{
    *out = NULL;
    if (d->reader != of->d->reader)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "a layer of another checkpoint");
    KF_TRY(kf_allocate(out, 1, sizeof **out, err));
    **out = *of;
    (*out)->d = d;
    (*out)->is_shared = 1;
    (*out)->sent = NULL;
    return KERF_OK;
}

static kerf_status free_slot(void *ctx, uint64_t s)
{
    kerf_layer *l = ctx;
    const uint64_t each = kf_slots[s].kind == KF_KIND_EACH && l->of[s] ? matrices_of(l, (int)s) : 0;
    for (uint64_t e = 0; e < each; e++) free(l->of[s][e].data);
    free(l->data[s]);
    return KERF_OK;
}

/* A gigabyte takes one thread some 50 ms, and who cancels waits for it. */
#define LARGE (UINT64_C(64) << 20)

void kerf_layer_free(kerf_layer *l)
{
    if (!l) return;
    if (l->sent) l->d->stepper->steps->unsend(l->d->stepper, l->sent);
    if (l->is_shared) {
        free(l);
        return;
    }
    const kerf_status s =
        kf_parallel(KF_SLOTS, l->d->info.layer_bytes < LARGE ? 1 : l->d->threads, free_slot, l);
    (void)s; /* none fails */
    free(l->weight);
    free(l);
}

const kerf_layer_weight *kerf_layer_weight_at(const kerf_layer *l, size_t i)
{
    return i < l->weights ? &l->weight[i] : NULL;
}
