/* run_sums.c - cuts a part into runs, and adds runs up to panels. */
#include "score/run_sums.h"

/* n bytes from byte `offset` of a span on. */
static kerf_span part_of(kerf_span s, uint64_t offset, uint64_t n)
{
    return (kerf_span){(unsigned char *)s.p + offset, (size_t)n};
}

int kf_run_at(const kf_run_sums *s, const kf_panel *p, size_t r, kf_panel *out)
{
    const kerf_geometry *g = s->geometry;
    const uint64_t run = s->run ? s->run : p->u1 - p->u0, u0 = p->u0 + r * run;
    if (u0 >= p->u1) return 0;
    *out = *p;
    out->u0 = u0;
    out->u1 = p->u1 - u0 < run ? p->u1 : u0 + run;
    const uint64_t elements = kerf_band_elements(g, p->u0, p->u1).count;
    const uint64_t size = elements ? p->dense.n / elements : 0;
    out->dense = part_of(p->dense, kerf_band_elements(g, p->u0, u0).count * size,
                         kerf_band_elements(g, u0, out->u1).count * size);
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        if (g->plane[k].band_bytes == 0) continue;
        out->plane[k] = part_of(p->plane[k], kerf_band_bytes(g, k, p->u0, u0).count,
                                kerf_band_bytes(g, k, u0, out->u1).count);
    }
    return 1;
}

kerf_status kf_run_score(const kf_run_sums *s, const kf_panel *run, kerf_dtype dtype,
                         const float *importance, const kerf_exec *exec, kerf_score *out,
                         kerf_error *err)
{
    kerf_cspan planes[KERF_PLANES];
    kf_planes_of(run, planes);
    return kerf_score_bands(s->geometry, run->u0, run->u1, planes, kf_dense_of(run), dtype,
                            importance, exec, out, err);
}

kerf_status kf_run_sums_add(kf_run_sums *s, const kf_stream *of, const kf_panel *p,
                            const kerf_score *run, kerf_cspan codes, kerf_error *err)
{
    const kerf_score none = {0};
    kf_panel at;
    for (size_t r = 0; kf_run_at(s, p, r, &at); r++) kerf_score_merge(&s->panel, &run[r]);
    if (!kf_stream_ends_panel(of, p->u1)) return kerf_scorer_merge(s->scorer, &none, codes, err);
    const kerf_score panel = s->panel;
    s->panel = none;
    return kerf_scorer_merge(s->scorer, &panel, codes, err);
}
