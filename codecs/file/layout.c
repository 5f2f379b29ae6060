/* layout.c - layout `kerf`: what the planes of a quantized tensor are called, and the metadata
 * string that describes them:
 *
 *   {"version":1,"tensors":
 *       {"NAME":{"format":"nvfp4","encoder":"4/6","dtype":"BF16","shape":[N,K]}}}
 *
 * without the line breaks. dtype and shape are those of the source. Each shard describes the
 * tensors it holds. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kerf/file.h>

#include "file/text.h"

size_t kerf_layout_plane_name(const char *name, kerf_plane_id p, char *out, size_t size)
{
    static const char *const suffix[KERF_PLANES] = {[KERF_PLANE_CODES] = "",
                                                    [KERF_PLANE_SCALES] = "_scale",
                                                    [KERF_PLANE_SECOND] = "_scale_2",
                                                    [KERF_PLANE_ZEROS] = "_zero_point"};
    int n = snprintf(out, size, "%s%s", name, (size_t)p < KERF_PLANES ? suffix[p] : "");
    return n < 0 ? 0 : (size_t)n;
}

static void add_weight(kf_text *t, const kerf_weight *w)
{
    kf_text_add_quoted(t, w->name);
    kf_text_add(t, ":{\"format\":");
    kf_text_add_quoted(t, w->codec.format->name);
    if (w->codec.encoder) {
        kf_text_add(t, ",\"encoder\":");
        kf_text_add_quoted(t, w->codec.encoder->name);
    }
    kf_text_add(t, ",\"dtype\":\"%s\",\"shape\":[", kerf_dtype_name(w->dtype));
    for (unsigned i = 0; i < w->shape.rank; i++)
        kf_text_add(t, "%s%" PRIu64, i ? "," : "", w->shape.dim[i]);
    kf_text_add(t, "]}");
}

static int compare_weights(const void *a, const void *b)
{
    return strcmp((*(const kerf_weight *const *)a)->name, (*(const kerf_weight *const *)b)->name);
}

char *kerf_layout_describe(const kerf_weight *weights, size_t count)
{
    kf_text t = {0};
    size_t n = 0;
    const kerf_weight **sorted = kf_alloc(count, sizeof *sorted);
    if (!sorted) return NULL;
    for (size_t i = 0; i < count; i++)
        if (weights[i].codec.format) sorted[n++] = &weights[i];
    qsort(sorted, n, sizeof *sorted, compare_weights);
    kf_text_add(&t, "{\"version\":1,\"tensors\":{");
    for (size_t i = 0; i < n; i++) {
        if (i > 0) kf_text_add(&t, ",");
        add_weight(&t, sorted[i]);
    }
    kf_text_add(&t, "}}");
    free(sorted);
    if (t.failed) {
        free(t.p);
        return NULL;
    }
    return t.p;
}
