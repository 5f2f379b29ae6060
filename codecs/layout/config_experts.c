/* config_experts.c - experts that were kept, by the names under which runtimes ask whether they are
 * quantized. vLLM and SGLang have one layer for all experts of a layer of the model, X.experts: for
 * compressed-tensors they look up the three matrices of its first expert, spelled as below in every
 * model; for GPTQ the layer itself. What a file calls the experts, one by one, in stacks, or w1 to
 * w3, is none of these.
 *
 * Sources: vLLM, compressed_tensors_moe.py (get_moe_method) and gptq_marlin.py
 * (get_moe_quant_method); SGLang, compressed_tensors.py (get_moe_scheme). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "layout/arranging.h"
#include "layout/config_keys.h"

#define EXPERTS ".experts"

/* The layer of all experts that this matrix is of; 0: of none. */
static int experts_of(const kerf_weight *w, char out[KERF_MAX_NAME_BYTES + 16])
{
    size_t n = kf_before_expert(w->name, NULL);
    if (w->shape.rank < 2 || strlen(w->name) > KERF_MAX_NAME_BYTES) return 0;
    for (const char *at = w->name; !n && w->shape.rank > 2 && (at = strstr(at, EXPERTS "."));)
        n = (size_t)(at - w->name) + strlen(EXPERTS ".");
    if (n) { /* without the last dot */
        snprintf(out, KERF_MAX_NAME_BYTES + 16, "%.*s", (int)n - 1, w->name);
        return 1;
    }
    const kerf_piece p = w->place.piece; /* tables of positions may have three dimensions, too */
    const int is_of_mlp = p == KERF_PIECE_GATE || p == KERF_PIECE_UP || p == KERF_PIECE_DOWN ||
                          p == KERF_PIECE_GATE_UP;
    if (w->shape.rank != 3 || !is_of_mlp) return 0;
    snprintf(out, KERF_MAX_NAME_BYTES + 16, "%s", w->name);
    if (kf_has_suffix(out, ".weight")) out[strlen(out) - strlen(".weight")] = 0;
    char *dot = strrchr(out, '.');
    if (dot) memcpy(dot, EXPERTS, sizeof EXPERTS);
    return dot != NULL;
}

/* Layers of experts of which some matrix is kept (or quantized), each once. NULL: no memory. */
static json_t *find_layers(const kf_configured *q, int is_kept)
{
    char name[KERF_MAX_NAME_BYTES + 16];
    json_t *layers = json_object();
    int ok = layers != NULL;
    for (size_t i = 0; ok && i < q->count; i++) {
        const kerf_weight *w = &q->weights[i];
        if ((w->codec.format == NULL) != is_kept || !experts_of(w, name)) continue;
        ok = json_object_get(layers, name) || json_object_set_new(layers, name, json_true()) == 0;
    }
    if (ok) return layers;
    json_decref(layers);
    return NULL;
}

static int add(json_t *list, const char *name)
{
    size_t i;
    json_t *other;
    json_array_foreach(list, i, other) if (strcmp(json_string_value(other), name) == 0) return 1;
    return json_array_append_new(list, json_string(name)) == 0;
}

int kf_name_first_expert(const kerf_weight *w, json_t *list)
{
    char layer[KERF_MAX_NAME_BYTES + 16], name[KERF_MAX_NAME_BYTES + 64];
    const char *matrix = w->place.piece == KERF_PIECE_GATE   ? "gate_proj"
                         : w->place.piece == KERF_PIECE_UP   ? "up_proj"
                         : w->place.piece == KERF_PIECE_DOWN ? "down_proj"
                                                             : NULL;
    if (!matrix || w->shape.rank != 2 || !experts_of(w, layer)) return 1;
    if (strncmp(w->name + strlen(layer), ".0.", 3) != 0) return 1;
    snprintf(name, sizeof name, "%s.0.%s", layer, matrix);
    return add(list, name);
}

int kf_name_kept_experts(const kf_configured *q, int as_layers, json_t *list)
{
    static const char *const matrices[] = {"gate_proj", "up_proj", "down_proj"};
    json_t *kept = find_layers(q, 1), *mixed = find_layers(q, 0), *value;
    const char *layer;
    char name[KERF_MAX_NAME_BYTES + 64];
    int ok = kept && mixed;
    json_object_foreach(kept, layer, value)
    {
        if (!ok || json_object_get(mixed, layer)) continue; /* no runtime has these */
        if (as_layers) ok = add(list, layer);
        for (size_t i = 0; ok && !as_layers && i < sizeof matrices / sizeof *matrices; i++) {
            snprintf(name, sizeof name, "%s.0.%s", layer, matrices[i]);
            ok = add(list, name);
        }
    }
    json_decref(kept);
    json_decref(mixed);
    return ok;
}
