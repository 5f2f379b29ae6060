/* experts.c - mixtures of experts. Loaders make one module of all experts of a layer, whether they
 * are stacked in one tensor or stand one by one, and give it one scheme: that of the first. Experts
 * that differ would be read as what they are not. */
#include "layout/experts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "layout/layout_table.h"

static const char mark[] = ".experts.";

/* Bytes of the name up to the experts; 0: none of them. Biases are never quantized. */
static size_t module_of(const kerf_weight *w)
{
    const char *at = strstr(w->name, mark);
    if (!at || w->shape.rank < 2) return 0;
    return w->shape.rank == 3 || kf_has_suffix(w->name, ".weight") ? (size_t)(at - w->name) + 1 : 0;
}

static int compare_modules(const void *pa, const void *pb)
{
    const kerf_weight *a = *(const kerf_weight *const *)pa, *b = *(const kerf_weight *const *)pb;
    size_t n = module_of(a), m = module_of(b);
    int order = memcmp(a->name, b->name, n < m ? n : m);
    return order ? order : n < m ? -1 : n > m;
}

static const char *format_name(const kerf_weight *w)
{
    return w->codec.format ? w->codec.format->name : "kept";
}

static kerf_status check_alike(const kerf_layout *l, const kerf_weight *const *experts, size_t n,
                               kerf_error *err)
{
    for (size_t i = 1; i < n; i++) {
        const kerf_weight *a = experts[i - 1], *b = experts[i];
        if (a->codec.format == b->codec.format || compare_modules(&a, &b) != 0) continue;
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "the experts of a layer are one module to the loaders of layout %s: "
                       "%.150s is %s, %.150s is %s; quantize all to one format or keep all",
                       l->name, a->name, format_name(a), b->name, format_name(b));
    }
    return KERF_OK;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(const kerf_weight *const *)a)->name, (*(const kerf_weight *const *)b)->name);
}

/* transformers holds stacked experts as [experts, in, out], checkpoints with blocks along the input
 * as [experts, out, in]. The bias beside them says which it is: it has the output features. */
static kerf_status check_turned(const kerf_weight *w, const kerf_weight *const *sorted, size_t n,
                                kerf_error *err)
{
    char name[KERF_MAX_NAME_BYTES + 32];
    const kerf_weight key = {.name = name}, *wanted = &key;
    snprintf(name, sizeof name, "%s_bias", w->name);
    const kerf_weight *const *found = bsearch(&wanted, sorted, n, sizeof(void *), compare_names);
    if (!found || (*found)->shape.rank != 2) return KERF_OK;
    const uint64_t out = (*found)->shape.dim[1];
    if (w->shape.dim[1] == out) return KERF_OK;
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "%.200s has its output features last, as its bias of %llu shows and as "
                   "transformers holds it; blocks run along the input features, which must come "
                   "last: swap its last two dimensions first",
                   w->name, (unsigned long long)out);
}

static kerf_status check_all_turned(const kerf_weight *weights, size_t count,
                                    const kerf_weight **sorted, kerf_error *err)
{
    for (size_t i = 0; i < count; i++) sorted[i] = &weights[i];
    qsort(sorted, count, sizeof *sorted, compare_names);
    for (size_t i = 0; i < count; i++)
        if (weights[i].codec.format && weights[i].shape.rank == 3)
            KF_TRY(check_turned(&weights[i], sorted, count, err));
    return KERF_OK;
}

kerf_status kf_experts_check(const kerf_layout *l, const kerf_weight *weights, size_t count,
                             kerf_error *err)
{
    size_t n = 0;
    if (l == &kf_layouts[KF_LAYOUT_KERF]) return KERF_OK;
    const kerf_weight **list = kf_alloc(count, sizeof *list);
    if (!list) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for experts");
    kerf_status s = check_all_turned(weights, count, list, err);
    for (size_t i = 0; i < count; i++)
        if (module_of(&weights[i])) list[n++] = &weights[i];
    if (n > 0) qsort(list, n, sizeof *list, compare_modules);
    if (s == KERF_OK) s = check_alike(l, list, n, err);
    free(list);
    return s;
}
