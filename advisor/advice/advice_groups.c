/* advice_groups.c - which tensors must share a format, and the products that they make up. */
#include <kerf/words.h>
#include "base/base.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "advice/advice.h"

/* Writes the name of the group of a tensor; *many: all experts of a layer. */
static void group_name(const char *tensor, char out[ADVICE_NAME], int *many)
{
    const char *experts = strstr(tensor, ".experts.");
    size_t n = strlen(tensor);
    *many = experts != NULL;
    if (experts) {
        snprintf(out, ADVICE_NAME, "%.*s.experts", (int)(experts - tensor), tensor);
        return;
    }
    if (n > 7 && strcmp(tensor + n - 7, ".weight") == 0) n -= 7;
    snprintf(out, ADVICE_NAME, "%.*s", (int)n, tensor);
    char *part = strrchr(out, '.');
    part = part ? part + 1 : out;
    const char *fused = kerf_fused_name(part);
    if (fused) snprintf(part, ADVICE_NAME - (size_t)(part - out), "%s", fused);
}

static int layer_of(const char *name)
{
    static const char *const marks[] = {"layers.", ".h.", "blocks.", "block."};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const char *at = strstr(name, marks[i]);
        if (!at) continue;
        at += strlen(marks[i]);
        long layer = strtol(at, NULL, 10);
        if (*at >= '0' && *at <= '9' && layer < 100000) return (int)layer;
    }
    return -1;
}

/* --- groups -------------------------------------------------------------------------------- */

typedef struct labelled {
    char group[ADVICE_NAME];
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
static kerf_status label_tensors(const advice *a, labelled *label, size_t *first, kerf_error *err)
{
    for (size_t t = 0; t < a->tensors; t++) {
        const char *name = a->tensor[t].weight->name;
        if (strlen(name) > ADVICE_NAME - 20) {
            return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE,
                           "%.100s...: the name is longer than %d bytes", name, ADVICE_NAME - 20);
        }
        label[t].tensor = t;
        group_name(name, label[t].group, &label[t].many);
    }
    qsort(label, a->tensors, sizeof *label, by_group);
    for (size_t i = 0, head = 0; i < a->tensors; i++) {
        if (strcmp(label[i].group, label[head].group) != 0) head = i;
        first[label[i].tensor] = label[head].tensor;
    }
    qsort(label, a->tensors, sizeof *label, by_tensor);
    return KERF_OK;
}

static void begin_group(advice_group *g, const labelled *label)
{
    char escaped[ADVICE_NAME - 2];
    snprintf(g->name, sizeof g->name, "%s", label->group);
    g->layer = layer_of(label->group);
    g->experts = label->many;
    if (!label->many) return;
    kerf_glob_escape(label->group, escaped, sizeof escaped);
    snprintf(g->glob, sizeof g->glob, "%s.*", escaped);
}

/* A pattern must not take in what stays as it is, the biases of experts for one. */
static void check_glob(const advice *a, advice_group *g)
{
    size_t matched = 0;
    const kerf_weights *all = kerf_checkpoint_weights(a->source);
    for (size_t i = 0; g->glob[0] && i < kerf_weights_count(all); i++) {
        matched += (size_t)kerf_glob_matches(g->glob, kerf_weights_at(all, i)->name);
    }
    if (matched != g->members) g->glob[0] = 0;
}

static kerf_status fill_groups(advice *a, const labelled *label, const size_t *first,
                               kerf_error *err)
{
    for (size_t t = 0; t < a->tensors; t++) {
        if (first[t] == t) {
            begin_group(&a->group[a->groups], &label[t]);
            a->tensor[t].group = a->groups++;
        }
        advice_group *g = &a->group[a->tensor[first[t]].group];
        a->tensor[t].group = (size_t)(g - a->group);
        g->members++;
        g->elements += (double)kerf_weight_elements(a->tensor[t].weight);
    }
    for (size_t i = 0; i < a->groups; i++) {
        advice_group *g = &a->group[i];
        KF_TRY(kf_allocate(&g->member, g->members, sizeof *g->member, err));
        a->elements += g->elements;
        check_glob(a, g);
        g->members = 0;
    }
    for (size_t t = 0; t < a->tensors; t++) {
        advice_group *g = &a->group[a->tensor[t].group];
        g->member[g->members++] = t;
    }
    return KERF_OK;
}

static kerf_status join_groups(advice *a, kerf_error *err)
{
    labelled *label = NULL;
    size_t *first = NULL;
    kerf_status s = kf_allocate(&a->group, a->tensors, sizeof *a->group, err);
    if (s == KERF_OK) s = kf_allocate(&label, a->tensors, sizeof *label, err);
    if (s == KERF_OK) s = kf_allocate(&first, a->tensors, sizeof *first, err);
    if (s == KERF_OK) s = label_tensors(a, label, first, err);
    if (s == KERF_OK) s = fill_groups(a, label, first, err);
    free(label);
    free(first);
    return s;
}

/* --- shapes -------------------------------------------------------------------------------- */

/* Adds one member: rows join those of the same input length. Experts are counted per shape first
 * and divided by their number afterwards. */
static void add_shape(advice_group *g, const kerf_shape *s)
{
    uint64_t k = s->rank ? s->dim[s->rank - 1] : 1, n = s->rank > 1 ? s->dim[s->rank - 2] : 1;
    double matrices = 1;
    for (unsigned i = 0; i + 2 < s->rank; i++) matrices *= (double)s->dim[i];
    for (size_t i = 0; i < g->shapes; i++) {
        if (g->shape[i].k != k || g->shape[i].matrices != matrices) continue;
        g->shape[i].n += n;
        return;
    }
    if (g->shapes < ADVICE_SHAPES) g->shape[g->shapes++] = (advice_shape){n, k, matrices};
}

static void find_shapes(advice *a, advice_group *g)
{
    for (size_t m = 0; m < g->members; m++) {
        add_shape(g, &a->tensor[g->member[m]].weight->shape);
    }
    double experts = a->has_model ? (double)a->model.experts : 0;
    for (size_t i = 0; g->experts && experts > 1 && i < g->shapes; i++) {
        if (g->shape[i].matrices > 1) continue; /* stacked in one tensor */
        g->shape[i].n = (uint64_t)((double)g->shape[i].n / experts);
        if (g->shape[i].n == 0) g->shape[i].n = 1;
        g->shape[i].matrices = experts;
    }
}

/* --- alpha --------------------------------------------------------------------------------- */

/* Curves fitted to perplexities of seven-billion-parameter models over their depth; they say that
 * the first and the last layers matter most. t: depth from 0 to 1. */
static double depth_curve(const char *name, double t)
{
    if (strstr(name, ".experts")) return 1 - 4.3 * t + 4.6 * t * t;
    if (strstr(name, "attn") || strstr(name, "attention")) return 1 - 2 * t + 1.5 * t * t;
    return 1 - 2.8 * t + 2.8 * t * t;
}

static kerf_status read_alpha(advice *a, const char *path, kerf_error *err)
{
    json_error_t why;
    const char *glob;
    json_t *value, *doc = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    if (!doc)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s:%d: %.160s", path, why.line, why.text);
    const char *schema = json_string_value(json_object_get(doc, "schema"));
    json_t *alpha = json_object_get(doc, "alpha");
    kerf_status s = KERF_OK;
    if (!schema || strcmp(schema, "kerf.alpha/1") != 0 || !json_is_object(alpha)) {
        s = kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                    "%.200s: expected {\"schema\": \"kerf.alpha/1\", \"alpha\": {GLOB: NUMBER}}",
                    path);
    }
    json_object_foreach(alpha, glob, value)
    {
        double x = json_number_value(value);
        if (s == KERF_OK && !(x > 0 && x < 1e12)) {
            s = kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                        "%.200s: alpha of %.100s must be a number above 0", path, glob);
        }
        for (size_t t = 0; s == KERF_OK && t < a->tensors; t++) {
            if (kerf_glob_matches(glob, a->tensor[t].weight->name)) a->tensor[t].alpha = x;
        }
    }
    json_decref(doc);
    return s;
}

static kerf_status find_alpha(advice *a, kerf_error *err)
{
    const char *text = args_value(a->args, "alpha");
    int last = 0;
    for (size_t t = 0; t < a->tensors; t++) {
        a->tensor[t].alpha = 1;
        int layer = a->group[a->tensor[t].group].layer;
        if (layer > last) last = layer;
    }
    a->alpha_source = "1 for every tensor";
    if (!text || strcmp(text, "flat") == 0) return KERF_OK;
    if (strcmp(text, "depth") != 0) {
        a->alpha_source = text;
        return read_alpha(a, text, err);
    }
    a->alpha_source = "built-in curves over depth, fitted to other models";
    for (size_t t = 0; t < a->tensors; t++) {
        const advice_group *g = &a->group[a->tensor[t].group];
        if (g->layer < 0) continue;
        a->tensor[t].alpha = depth_curve(g->name, last ? (double)g->layer / last : 0);
    }
    return KERF_OK;
}

kerf_status advice_find_groups(advice *a, kerf_error *err)
{
    KF_TRY(kf_allocate(&a->tensor, a->plan.count, sizeof *a->tensor, err));
    a->tensors = a->plan.count;
    a->kept_bytes = (double)a->plan.kept_bytes;
    for (size_t i = 0; i < a->tensors; i++) a->tensor[i].weight = a->plan.weight[i];
    KF_TRY(join_groups(a, err));
    for (size_t i = 0; i < a->groups; i++) find_shapes(a, &a->group[i]);
    return find_alpha(a, err);
}
