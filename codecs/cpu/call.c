/* call.c - checks the arguments of a call over a range of bands, and picks its backend. */
#include "cpu/call.h"
#include "base/base.h"
#include "cpu/backends.h"

const kerf_exec kf_default_exec = {0};

const kerf_exec *kf_exec_for(const kerf_geometry *g, const kerf_exec *exec, kerf_exec *room)
{
    if (!exec) return &kf_default_exec;
    const int takes = g->format->geometry != KERF_GROUP_SUPER;
    if (!exec->device || (takes && (!exec->feedback || exec->feedback->there))) return exec;
    *room = *exec;
    room->device = NULL;
    room->backend = NULL; /* which may be called after the device */
    return room;
}

kerf_status kf_call_init(kf_call *c, const kerf_geometry *g, uint64_t b0, uint64_t b1,
                         kerf_dtype dtype, const kerf_exec *exec, kerf_error *err)
{
    kf_call fresh = {.g = g, .b0 = b0, .b1 = b1, .dtype = dtype, .nan = exec->nan};
    *c = fresh;
    if (b0 > b1 || b1 > g->bands)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "bands [%llu, %llu) of %llu",
                       (unsigned long long)b0, (unsigned long long)b1,
                       (unsigned long long)g->bands);
    if (dtype != KERF_F32 && dtype != KERF_F16 && dtype != KERF_BF16)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "numbers of type %s cannot be converted; F32, F16 and BF16 can",
                       kerf_dtype_name(dtype));
    if (!exec->device) KF_TRY(kf_backend_ops(g->format, exec->backend, &c->ops, err));
    uint64_t slices = exec->device ? 1 : 4 * (uint64_t)kf_thread_count(exec->threads);
    c->slices = kf_min_u64(slices, b1 - b0);
    if (b1 > b0) {
        c->first_matrix = b0 / g->bands_per_matrix;
        c->matrices = (b1 - 1) / g->bands_per_matrix - c->first_matrix + 1;
    }
    return KERF_OK;
}

static kerf_status check_span(kerf_cspan have, uint64_t need, const char *what, kerf_error *err)
{
    if (have.n < need)
        return kf_fail(err, KERF_E_BUFFER, KF_NOWHERE, "%s has %zu bytes, needs %llu", what, have.n,
                       (unsigned long long)need);
    if (need > 0 && !have.p) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%s is NULL", what);
    return KERF_OK;
}

kerf_status kf_check_elements(const kf_call *c, kerf_cspan have, const char *what, kerf_error *err)
{
    kerf_extent e = kerf_band_elements(c->g, c->b0, c->b1);
    return check_span(have, e.count * (kerf_dtype_bits(c->dtype) / 8), what, err);
}

static int has_plane(const kf_call *c, int p)
{
    return c->g->plane[p].dtype != KERF_DTYPE_NONE;
}

static kerf_status check_plane(const kf_call *c, int p, kerf_cspan have, kerf_error *err)
{
    static const char *const names[KERF_PLANES] = {"plane of codes", "plane of scales",
                                                   "plane of second-level scales",
                                                   "plane of zero points"};
    return check_span(have, kerf_band_bytes(c->g, (kerf_plane_id)p, c->b0, c->b1).count, names[p],
                      err);
}

kerf_status kf_call_planes(kf_call *c, const kerf_cspan planes[KERF_PLANES], kerf_error *err)
{
    for (int p = 0; p < KERF_PLANES; p++) {
        if (!has_plane(c, p)) continue;
        KF_TRY(check_plane(c, p, planes[p], err));
        c->plane[p] = planes[p].p;
    }
    return KERF_OK;
}

kerf_status kf_call_out(kf_call *c, const kerf_span planes[KERF_PLANES], kerf_error *err)
{
    for (int p = 0; p < KERF_PLANES; p++) {
        if (!has_plane(c, p)) continue;
        KF_TRY(check_plane(c, p, (kerf_cspan){planes[p].p, planes[p].n}, err));
        c->out[p] = planes[p].p;
    }
    return KERF_OK;
}

kf_host_range kf_call_range(const kf_call *c)
{
    kf_host_range r = {.g = c->g,
                       .b0 = c->b0,
                       .b1 = c->b1,
                       .source = c->source,
                       .target = c->target,
                       .dtype = c->dtype,
                       .nan = c->nan,
                       .matrices = c->matrices};
    if (c->feedback) r.there = c->feedback->there;
    for (int p = 0; p < KERF_PLANES; p++) {
        if (c->plane[p]) r.plane[p] = c->plane[p] + kf_plane_offset(c, p, c->b0);
        if (c->out[p]) r.out[p] = c->out[p] + kf_plane_offset(c, p, c->b0);
    }
    return r;
}

kerf_status kf_check_importance(const float *importance, uint64_t first, uint64_t count,
                                kerf_error *err)
{
    for (uint64_t i = first; i < first + count; i++)
        if (!(importance[i] >= 0 && importance[i] <= 1e30f))
            return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                           "importance %llu is %g; each is from 0 to 1e30", (unsigned long long)i,
                           (double)importance[i]);
    return KERF_OK;
}

kerf_status kf_out_of_memory(kerf_error *err)
{
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "out of memory");
}
