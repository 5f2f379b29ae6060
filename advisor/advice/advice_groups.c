/* advice_groups.c - which tensors must share a format, and the products that they make up. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kerf/words.h>

#include "advice/advice.h"
#include "score/imatrix_names.h"

/* Writes the name of the group of a tensor; *many: all experts of a layer. */
static void group_name(const kerf_weight *w, char out[KERF_ADVICE_NAME], int *many)
{
    const kerf_place *p = &w->place;
    const char *experts = strstr(w->name, "experts.");
    const size_t n = strlen(w->name) - (kf_has_suffix(w->name, ".weight") ? strlen(".weight") : 0);
    const char *fused = kerf_fused_name(w);
    *many = p->role == KERF_ROLE_EXPERT;
    if (*many && experts)
        snprintf(out, KERF_ADVICE_NAME, "%.*s", (int)(experts - w->name + 7), w->name);
    else if (*many) /* stacks without a module of their own: all of the layer */
        snprintf(out, KERF_ADVICE_NAME, "%.*sexperts", (int)p->piece_at, w->name);
    else if (fused && p->piece_at + p->piece_bytes <= n)
        snprintf(out, KERF_ADVICE_NAME, "%.*s%s%.*s", (int)p->piece_at, w->name, fused,
                 (int)(n - p->piece_at - p->piece_bytes), w->name + p->piece_at + p->piece_bytes);
    else
        snprintf(out, KERF_ADVICE_NAME, "%.*s", (int)n, w->name);
}

/* --- groups -------------------------------------------------------------------------------- */

typedef struct labelled {
    char group[KERF_ADVICE_NAME];
    size_t tensor;
    int many;
} labelled;

static int by_group(const void *x, const void *y)
{
    const labelled *a = x, *b = y;
    int order = strcmp(a->group, b->group);
    return order ? order : (a->tensor > b->tensor) - (a->tensor < b->tensor);
}

static int by_tensor(const void *x, const void *y)
{
    const labelled *a = x, *b = y;
    return (a->tensor > b->tensor) - (a->tensor < b->tensor);
}

/* Puts into every label the first tensor of its group, so that groups come in the order of the
 * checkpoint. first[t]: the first tensor of the group of tensor t. */
static kerf_status label_tensors(const kerf_advice *a, labelled *label, size_t *first,
                                 kerf_error *err)
{
    for (size_t t = 0; t < a->tensors; t++) {
        const kerf_weight *w = a->tensor[t].weight;
        if (strlen(w->name) > KERF_ADVICE_NAME - 20) {
            return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE,
                           "%.100s...: the name is longer than %d bytes", w->name,
                           KERF_ADVICE_NAME - 20);
        }
        label[t].tensor = t;
        group_name(w, label[t].group, &label[t].many);
    }
    qsort(label, a->tensors, sizeof *label, by_group);
    for (size_t i = 0, head = 0; i < a->tensors; i++) {
        if (strcmp(label[i].group, label[head].group) != 0) head = i;
        first[label[i].tensor] = label[head].tensor;
    }
    qsort(label, a->tensors, sizeof *label, by_tensor);
    return KERF_OK;
}

static void begin_group(kerf_advice_group *g, const kerf_weight *w, const labelled *label)
{
    char escaped[KERF_ADVICE_NAME - 2];
    snprintf(g->name, sizeof g->name, "%s", label->group);
    g->layer = w->place.layer;
    g->experts = label->many;
    if (!label->many) return;
    kerf_glob_escape(label->group, escaped, sizeof escaped);
    snprintf(g->glob, sizeof g->glob, "%s.*", escaped);
}

/* A pattern must not take in what stays as it is, the biases of experts for one. */
static void check_glob(const kerf_weights *all, kerf_advice_group *g)
{
    size_t matched = 0;
    for (size_t i = 0; g->glob[0] && i < kerf_weights_count(all); i++)
        matched += (size_t)kerf_glob_matches(g->glob, kerf_weights_at(all, i)->name);
    if (matched != g->members) g->glob[0] = 0;
}

static kerf_status fill_groups(kerf_advice *a, const kerf_weights *all, const labelled *label,
                               const size_t *first, kerf_error *err)
{
    for (size_t t = 0; t < a->tensors; t++) {
        if (first[t] == t) {
            begin_group(&a->group[a->groups], a->tensor[t].weight, &label[t]);
            a->tensor[t].group = a->groups++;
        }
        kerf_advice_group *g = &a->group[a->tensor[first[t]].group];
        a->tensor[t].group = (size_t)(g - a->group);
        g->members++;
        g->elements += (double)kerf_weight_elements(a->tensor[t].weight);
    }
    for (size_t i = 0; i < a->groups; i++) {
        kerf_advice_group *g = &a->group[i];
        KF_TRY(kf_allocate(&g->member, g->members, sizeof *g->member, err));
        a->elements += g->elements;
        check_glob(all, g);
        g->members = 0;
    }
    for (size_t t = 0; t < a->tensors; t++) {
        kerf_advice_group *g = &a->group[a->tensor[t].group];
        g->member[g->members++] = t;
    }
    return KERF_OK;
}

static kerf_status join_groups(kerf_advice *a, const kerf_weights *all, kerf_error *err)
{
    labelled *label = NULL;
    size_t *first = NULL;
    kerf_status s = kf_allocate(&a->group, a->tensors, sizeof *a->group, err);
    if (s == KERF_OK) s = kf_allocate(&label, a->tensors, sizeof *label, err);
    if (s == KERF_OK) s = kf_allocate(&first, a->tensors, sizeof *first, err);
    if (s == KERF_OK) s = label_tensors(a, label, first, err);
    if (s == KERF_OK) s = fill_groups(a, all, label, first, err);
    free(label);
    free(first);
    return s;
}

/* --- shapes -------------------------------------------------------------------------------- */

/* Adds one member: rows join those of the same input length. Experts are counted per shape first
 * and divided by their number afterwards. */
static void add_shape(kerf_advice_group *g, const kerf_shape *s)
{
    uint64_t k = s->rank ? s->dim[s->rank - 1] : 1, n = s->rank > 1 ? s->dim[s->rank - 2] : 1;
    double matrices = 1;
    for (unsigned i = 0; i + 2 < s->rank; i++) matrices *= (double)s->dim[i];
    for (size_t i = 0; i < g->shapes; i++) {
        if (g->shape[i].k != k || g->shape[i].matrices != matrices) continue;
        g->shape[i].n += n;
        return;
    }
    if (g->shapes < KERF_ADVICE_SHAPES) g->shape[g->shapes++] = (kerf_advice_shape){n, k, matrices};
}

/* What one of several GPUs has of a matrix, as kerf_model_shard divides it. */
static kerf_shape shard_shape(const kerf_advice *a, const kerf_weight *w)
{
    kerf_shape s = w->shape;
    const kerf_piece piece = w->place.piece;
    const unsigned to = s.rank;
    if (a->gpus <= 1 || to < 2 || (a->expert_parallel && w->place.role == KERF_ROLE_EXPERT))
        return s;
    const int inputs = piece == KERF_PIECE_O || piece == KERF_PIECE_DOWN || piece == KERF_PIECE_OUT;
    uint64_t *dim = &s.dim[inputs ? to - 1 : to - 2], least = 1;
    if (piece == KERF_PIECE_Q_A || piece == KERF_PIECE_KV_A) return s;
    if ((piece == KERF_PIECE_K || piece == KERF_PIECE_V) && a->model.head_dim < *dim)
        least = a->model.head_dim; /* a whole head stands on several */
    *dim = *dim / a->gpus + (*dim % a->gpus != 0);
    if (*dim < least) *dim = least;
    return s;
}

int kf_advice_is_head(const kerf_advice *a, const kerf_weight *w)
{
    const kerf_shape *s = &w->shape;
    if (w->place.role == KERF_ROLE_HEAD) return 1;
    if (w->place.role != KERF_ROLE_EMBEDDING || s->rank != 2) return 0;
    return !a->has_model || (a->model.tied && s->dim[0] >= a->model.vocab);
}

int kf_advice_is_product(const kerf_advice *a, const kerf_weight *w)
{
    const kerf_role role = w->place.role;
    if (w->shape.rank < 2 || role == KERF_ROLE_NORM || role == KERF_ROLE_BIAS) return 0;
    return role != KERF_ROLE_EMBEDDING || kf_advice_is_head(a, w);
}

static void find_shapes(kerf_advice *a, kerf_advice_group *g)
{
    for (size_t m = 0; m < g->members; m++) {
        const kerf_weight *w = a->tensor[g->member[m]].weight;
        const kerf_shape s = shard_shape(a, w);
        if (kf_advice_is_product(a, w)) add_shape(g, &s);
    }
    double experts = a->has_model ? (double)a->model.experts : 0;
    for (size_t i = 0; g->experts && experts > 1 && i < g->shapes; i++) {
        if (g->shape[i].matrices > 1) continue; /* stacked in one tensor */
        g->shape[i].n = (uint64_t)((double)g->shape[i].n / experts);
        if (g->shape[i].n == 0) g->shape[i].n = 1;
        g->shape[i].matrices = experts;
    }
}

kerf_status kf_advice_join(kerf_advice *a, const kerf_weights *all, kerf_error *err)
{
    KF_TRY(join_groups(a, all, err));
    for (size_t i = 0; i < a->groups; i++) find_shapes(a, &a->group[i]);
    return KERF_OK;
}

/* --- all ----------------------------------------------------------------------------------- */

/* Of all that no format is chosen for, as it stands in the output. */
static double kept_bytes(const kf_advising *w, const kerf_selected *selected)
{
    const kerf_weights *all = kerf_checkpoint_weights(w->source);
    uint64_t bytes = 0;
    for (size_t i = 0; i < kerf_weights_count(all); i++)
        bytes += kerf_weight_kept_bytes(kerf_weights_at(all, i), w->advice->layout);
    for (size_t i = 0; i < selected->count; i++)
        bytes -= kerf_weight_kept_bytes(selected->weight[i], w->advice->layout);
    return (double)bytes;
}

static kerf_status take_tensors(const kf_advising *w, kerf_error *err)
{
    kerf_advice *a = w->advice;
    kerf_selected selected;
    KF_TRY(kerf_select_weights(w->source, w->request->select, &selected, err));
    a->kept_bytes = kept_bytes(w, &selected);
    kerf_status s = kf_allocate(&a->tensor, selected.count, sizeof *a->tensor, err);
    for (; s == KERF_OK && a->tensors < selected.count; a->tensors++)
        a->tensor[a->tensors].weight = selected.weight[a->tensors];
    if (s == KERF_OK && selected.count)
        s = kf_importance_count(kf_advice_imatrix(w->request), selected.weight, selected.count,
                                a->source, &a->weighted, err);
    kerf_selected_free(&selected);
    return s;
}

kerf_status kf_advice_find_groups(const kf_advising *w, kerf_error *err)
{
    kerf_advice *a = w->advice;
    KF_TRY(take_tensors(w, err));
    if (a->tensors == 0)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       kerf_checkpoint_quantized(w->source)
                           ? "%.200s: no tensor to choose for, what could be is quantized: kerf "
                             "dequantize makes a source of it"
                           : "%.200s: no tensor to choose for; --all-tensors takes embeddings too",
                       a->source);
    return kf_advice_join(a, kerf_checkpoint_weights(w->source), err);
}
