/* calibrate_share.c - the layers of a calibration among processes that do not ask each other.
 *
 * Sums of floating point depend on their order, so the rows of the text cannot be divided: a
 * layer's sums are all made by one part, over all tokens, as one process makes them. To come to its
 * layers a part runs those before it, which others run too; what is divided is what costs more,
 * Gram matrices and the disturbed runs of alpha. A part that has its layers in a row runs the least
 * twice, and one that has an early and a late one may be better balanced: the division is whichever
 * of the two has the part with the most work done first. */
#include "calibrate/calibrate_share.h"

#include <stdlib.h>
#include <string.h>

#include <kerf/parts.h>

#include "base/divide.h"

/* --- costs --------------------------------------------------------------------------------- */

static uint64_t gram_cost(const kf_book *b, uint64_t layer, uint64_t experts_used)
{
    uint64_t sum = 0;
    for (size_t i = b->leaf[layer].slot; i < b->leaf[layer + 1].slot; i++) {
        const kf_slot *s = &b->slot[i];
        if (s->entry[KF_PART_GRAM] == SIZE_MAX) continue;
        const uint64_t tokens = s->entry[KF_PART_COUNT] != SIZE_MAX ? experts_used : 1;
        sum += tokens * (s->columns * s->columns / 2);
    }
    return sum;
}

kerf_status kf_layer_costs_find(const kf_book *b, const kerf_decoder_info *model,
                                const kerf_calibrate_request *r, kf_layer_costs *out,
                                kerf_error *err)
{
    const uint64_t weights = model->layer_bytes / sizeof(float),
                   used = model->experts ? model->experts_used : 1,
                   run = model->experts ? weights / model->experts * used : weights,
                   head = 2 * model->hidden * model->vocab, /* logits of two models */
        passes = r->alpha == KERF_ALPHA_BY_LOSS ? r->draws : 1;
    *out = (kf_layer_costs){b->layers, run, NULL, r->alpha != KERF_ALPHA_BY_NONE};
    KF_TRY(kf_allocate(&out->own, b->layers, sizeof *out->own, err));
    for (uint64_t i = 0; i < b->layers; i++) {
        const uint64_t groups = b->leaf[i + 1].group - b->leaf[i].group;
        out->own[i] = gram_cost(b, i, used);
        if (out->all) out->own[i] += groups * passes * ((b->layers - i) * run + head);
    }
    return KERF_OK;
}

/* Undisturbed runs of a part whose layers are from first to last. With alpha the states ahead of
 * its first layer are kept, and run on to its last one. */
static uint64_t runs_of(const kf_layer_costs *c, uint64_t first, uint64_t last)
{
    return c->all ? c->layers + last - first : last + 1;
}

uint64_t kf_layers_cost(const kf_layer_costs *c, const unsigned *of, unsigned part)
{
    uint64_t first = c->layers, last = 0, sum = 0;
    for (uint64_t i = 0; i < c->layers; i++) {
        if (of[i] != part) continue;
        if (first == c->layers) first = i;
        last = i;
        sum += c->own[i];
    }
    if (first == c->layers) return 0;
    return sum + runs_of(c, first, last) * c->run;
}

static uint64_t most_of(const kf_layer_costs *c, const unsigned *of, unsigned parts)
{
    uint64_t most = 0;
    for (unsigned k = 0; k < parts && k <= c->layers; k++) {
        const uint64_t cost = kf_layers_cost(c, of, k);
        if (cost > most) most = cost;
    }
    return most;
}

/* --- divisions ----------------------------------------------------------------------------- */

/* Layers in a row to each part, as many as cost no more than `most`; 0: so few parts cannot. */
static int fill(const kf_layer_costs *c, unsigned parts, uint64_t most, unsigned *of)
{
    unsigned part = 0;
    uint64_t first = 0, sum = 0;
    for (uint64_t i = 0; i < c->layers; i++) {
        sum += c->own[i];
        if (sum + runs_of(c, first, i) * c->run > most) {
            if (first == i || ++part == parts) return 0;
            first = i;
            sum = c->own[i];
            if (sum + runs_of(c, i, i) * c->run > most) return 0;
        }
        of[i] = part;
    }
    return 1;
}

static void divide_in_order(const kf_layer_costs *c, unsigned parts, unsigned *of)
{
    memset(of, 0, c->layers * sizeof *of);
    uint64_t low = 0, high = kf_layers_cost(c, of, 0); /* that one part can */
    while (low < high) {
        const uint64_t mid = low + (high - low) / 2;
        if (fill(c, parts, mid, of))
            high = mid;
        else
            low = mid + 1;
    }
    (void)fill(c, parts, high, of);
}

kerf_status kf_layers_divide(const kf_layer_costs *c, unsigned parts, unsigned *of, kerf_error *err)
{
    unsigned *heaviest = NULL;
    const size_t layers = (size_t)c->layers;
    KF_TRY(kf_allocate(&heaviest, layers, sizeof *heaviest, err));
    const kerf_status s = kf_divide(c->own, layers, parts, heaviest, err);
    if (s == KERF_OK) {
        divide_in_order(c, parts, of);
        if (most_of(c, heaviest, parts) < most_of(c, of, parts))
            memcpy(of, heaviest, layers * sizeof *of);
    }
    free(heaviest);
    return s;
}

kerf_status kf_layers_take(const kf_book *b, const kerf_decoder_info *model,
                           const kerf_calibrate_request *r, unsigned char *own, kerf_error *err)
{
    unsigned *of = NULL;
    kf_layer_costs costs = {0};
    memset(own, 1, (size_t)b->layers);
    if (r->parts == 0) return KERF_OK;
    if (r->part == 0 || r->part > r->parts || r->parts > KERF_PARTS_MOST)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "part %u/%u: parts are counted from 1/N to N/N, N at most %u", r->part,
                       r->parts, KERF_PARTS_MOST);
    if (r->ranks)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "part %u/%u: parts are for processes without "
                       "MPI",
                       r->part, r->parts);
    kerf_status s = kf_layer_costs_find(b, model, r, &costs, err);
    if (s == KERF_OK) s = kf_allocate(&of, b->layers, sizeof *of, err);
    if (s == KERF_OK) s = kf_layers_divide(&costs, r->parts, of, err);
    for (uint64_t i = 0; s == KERF_OK && i < b->layers; i++) own[i] = of[i] + 1 == r->part;
    free(costs.own);
    free(of);
    return s;
}
