/* score_rest.c - one corrupt value in a matrix with a scale of its own takes all of the range: what
 * is not as large becomes zero, and the relative error of the whole is small all the same, since
 * that one value carries the signal. So the others are counted by themselves, in a second look that
 * only such matrices need. */
#include "score/score_rest.h"

#include <math.h>
#include <stdlib.h>

#include "base/base.h"

/* The largest number over the root of the mean square at which a second look is worth it, and the
 * part of the largest below which elements are the rest. */
#define FAR_ABOVE 64.0

static double largest_code(const kerf_format *f)
{
    switch (f->element) {
    case KERF_ELEM_E4M3: return 448;
    case KERF_ELEM_E5M2: return 57344;
    case KERF_ELEM_S8: return 127;
    case KERF_ELEM_E2M1: return 6 * 448; /* with block scales in E4M3 */
    default: return 0;
    }
}

/* The largest number that the scale of this matrix can express; 0: it has none of its own. */
static double largest_number(const kf_rest_job *j)
{
    const kerf_geometry *g = j->geometry;
    const kerf_plane_id p =
        g->format->second == KERF_SECOND_TENSOR ? KERF_PLANE_SECOND : KERF_PLANE_SCALES;
    const uint64_t matrix = g->bands_per_matrix ? j->b0 / g->bands_per_matrix : 0;
    if (g->plane[p].dtype != KERF_F32 || !g->plane[p].per_matrix || j->b0 == j->b1) return 0;
    if ((matrix + 1) * sizeof(float) > j->planes[p].n) return 0;
    return largest_code(g->format) * (double)fabsf(((const float *)j->planes[p].p)[matrix]);
}

static const kerf_format *plain_format(kerf_dtype t)
{
    return kerf_format_find(t == KERF_F32 ? "fp32" : t == KERF_F16 ? "fp16" : "bf16");
}

static kerf_status widen(const kf_rest_job *j, uint64_t n, float *out, kerf_error *err)
{
    static const kerf_exec one = {.threads = 1};
    kerf_geometry g;
    const kerf_shape shape = {2, {1, n}};
    KF_TRY(kerf_geometry_init(&g, plain_format(j->dtype), &shape, err));
    const kerf_cspan planes[KERF_PLANES] = {{j->src.p, (size_t)g.bytes}};
    return kerf_decode(&g, 0, g.bands, planes, (kerf_span){out, (size_t)n * sizeof *out}, KERF_F32,
                       &one, err);
}

static void count(const float *w, const float *v, uint64_t n, double most, kerf_score *s)
{
    s->rest_signal = s->rest_noise = 0;
    for (uint64_t i = 0; i < n; i++) {
        const double x = (double)w[i], d = (double)v[i] - x;
        if (!isfinite(w[i]) || !isfinite(v[i]) || fabs(x) >= most) continue;
        s->rest_signal += x * x;
        s->rest_noise += d * d;
        s->zeroed += w[i] != 0 && v[i] == 0;
    }
}

kerf_status kf_score_rest(const kf_rest_job *j, kerf_score *s, kerf_error *err)
{
    static const kerf_exec one = {.threads = 1};
    const double largest = largest_number(j);
    const uint64_t n = s->elements;
    float *w = NULL;
    if (!(largest * largest * (double)n > FAR_ABOVE * FAR_ABOVE * s->signal) || s->signal == 0)
        return KERF_OK;
    KF_TRY(kf_allocate(&w, (size_t)n, 2 * sizeof *w, err));
    float *v = w + n;
    kerf_status status = widen(j, n, w, err);
    if (status == KERF_OK)
        status = kerf_decode(j->geometry, j->b0, j->b1, j->planes,
                             (kerf_span){v, (size_t)n * sizeof *v}, KERF_F32, &one, err);
    if (status == KERF_OK) count(w, v, n, largest / FAR_ABOVE, s);
    free(w);
    return status;
}
