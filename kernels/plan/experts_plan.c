/* experts_plan.c - plans and runs of mixture-of-experts layers: checks everything once. */
#include "plan/experts_plan.h"

#include "base/base.h"
#include "format/format.h"

#include <stdlib.h>

/* --- plan ------------------------------------------------------------------------------------- */

static kerf_status check_dtype(kerf_dtype t, const char *what, kerf_error *err)
{
    if (t == KERF_F32 || t == KERF_F16 || t == KERF_BF16) return KERF_OK;
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "%s of type %s; F32, F16 and BF16 work", what,
                   kerf_dtype_name(t));
}

static kerf_status check_count(uint64_t n, uint64_t most, const char *what, kerf_error *err)
{
    if (n >= 1 && n <= most) return KERF_OK;
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "%llu %s; 1 to %llu work", (unsigned long long)n,
                   what, (unsigned long long)most);
}

static kerf_status check_matrix(const kerf_format *f, uint64_t rows, uint64_t cols,
                                kf_experts_matrix *m, kerf_error *err)
{
    kerf_shape shape = {2, {rows, cols}};
    m->rows = rows;
    m->cols = cols;
    KF_TRY(kerf_geometry_init(&m->geometry, f, &shape, err));
    return kerf_codec_check((kerf_codec){f, kerf_encoder_at(f, 0)}, &shape, KERF_F32, err);
}

static kerf_status check_shape(kerf_gemv_experts *plan, kerf_error *err)
{
    kerf_gemv_experts_shape *s = &plan->shape;
    if (!s->format) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "no format");
    KF_TRY(check_count(s->tokens, KERF_EXPERTS_TOKENS, "tokens", err));
    KF_TRY(check_count(s->top_k, KERF_EXPERTS_TOP_K, "slots of a token", err));
    KF_TRY(check_count(s->experts, 65536, "experts", err));
    KF_TRY(check_count(s->hidden, 1u << 24, "numbers of a token", err));
    KF_TRY(check_count(s->inter, 1u << 24, "rows of gate", err));
    KF_TRY(check_dtype(s->x, "x", err));
    KF_TRY(check_dtype(s->y, "y", err));
    if (s->between == KERF_DTYPE_NONE) s->between = KERF_F32;
    KF_TRY(check_dtype(s->between, "h", err));
    if (s->bias != KERF_DTYPE_NONE) KF_TRY(check_dtype(s->bias, "biases", err));
    if (s->rows > KERF_EXPERTS_APART || s->activation > KERF_EXPERTS_CLAMPED)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "no such order of rows, or activation");
    if (s->limit == 0) s->limit = 7;
    if (!(s->limit > 0)) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "a limit of %g", s->limit);
    plan->stacks = s->rows == KERF_EXPERTS_APART ? 2 : 1;
    KF_TRY(
        check_matrix(s->format, s->inter * (plan->stacks == 2 ? 1 : 2), s->hidden, &plan->in, err));
    KF_TRY(check_matrix(s->format, s->hidden, s->inter, &plan->down, err));
    plan->h_stride = kf_div_up(s->inter, 8) * 8;
    plan->workspace =
        (size_t)(s->tokens * s->top_k * plan->h_stride * (kerf_dtype_bits(s->between) / 8));
    return KERF_OK;
}

kerf_status kerf_gemv_experts_plan_create(kerf_gemv_experts **out,
                                          const kerf_gemv_experts_shape *shape,
                                          const kerf_exec *exec, kerf_error *err)
{
    *out = NULL;
    kerf_gemv_experts *plan = kf_alloc_zero(1, sizeof *plan);
    if (!plan) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "out of memory");
    plan->shape = *shape;
    kerf_status s = check_shape(plan, err);
    if (s == KERF_OK && !(exec && exec->device))
        s = kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                    "layers of experts run on a GPU only; on the processor a plan of kerf_gemv for "
                    "each expert works");
    if (s == KERF_OK) s = kf_experts_device_plan(plan, exec->device, err);
    if (s != KERF_OK) {
        kerf_gemv_experts_plan_free(plan);
        return s;
    }
    *out = plan;
    return KERF_OK;
}

void kerf_gemv_experts_plan_free(kerf_gemv_experts *plan)
{
    if (plan) free(plan->state);
    free(plan);
}

size_t kerf_gemv_experts_workspace(const kerf_gemv_experts *plan)
{
    return plan->workspace;
}

void kerf_gemv_experts_bound(const kerf_gemv_experts *plan, double *b1, double *b2)
{
    *b1 = plan->bound[0];
    *b2 = plan->bound[1];
}

const char *kerf_gemv_experts_backend(const kerf_gemv_experts *plan)
{
    return plan->backend;
}

/* --- run -------------------------------------------------------------------------------------- */

static kerf_status check_span(const void *p, size_t have, uint64_t need, unsigned size,
                              const char *what, kerf_error *err)
{
    if (have < need)
        return kf_fail(err, KERF_E_BUFFER, KF_NOWHERE, "%s: %zu bytes, needs %llu", what, have,
                       (unsigned long long)need);
    if (!p && need) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%s: NULL", what);
    if ((uintptr_t)p % size)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%s: not at a multiple of %u bytes", what,
                       size);
    return KERF_OK;
}

static kerf_status check_vectors(const void *p, size_t have, uint64_t n, uint64_t *stride,
                                 unsigned tokens, kerf_dtype t, const char *what, kerf_error *err)
{
    unsigned size = kerf_dtype_bits(t) / 8;
    uint64_t need;
    if (*stride == 0) *stride = n;
    if (*stride < n)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%s: a stride of %llu for vectors of %llu",
                       what, (unsigned long long)*stride, (unsigned long long)n);
    if (!kf_mul_ok(*stride, tokens - 1, &need) || !kf_add_ok(need, n, &need) ||
        !kf_mul_ok(need, size, &need))
        return kf_fail(err, KERF_E_RANGE, KF_NOWHERE, "%s: a stride of %llu overflows", what,
                       (unsigned long long)*stride);
    return check_span(p, have, need, size, what, err);
}

/* Puts in what strides stand for. */
static kerf_status check_stack(const kerf_gemv_experts *plan, const kf_experts_matrix *m,
                               kerf_experts_stack *s, const char *what, kerf_error *err)
{
    const uint64_t experts = plan->shape.experts;
    for (int i = 0; i < KERF_PLANES; i++) {
        const kerf_plane *p = &m->geometry.plane[i];
        if (p->dtype == KERF_DTYPE_NONE) {
            s->weights[i] = (kerf_cspan){NULL, 0};
            s->stride[i] = 0;
            continue;
        }
        unsigned bits = kerf_dtype_bits(p->dtype), size = bits < 8 ? 1 : bits / 8;
        uint64_t need;
        if (s->stride[i] == 0)
            s->stride[i] = p->bytes;
        else if (s->stride[i] == KERF_EXPERTS_SHARED)
            s->stride[i] = 0;
        if (s->stride[i] % size)
            return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%s: a stride of %llu for elements of %u",
                           what, (unsigned long long)s->stride[i], size);
        if (!kf_mul_ok(s->stride[i], experts - 1, &need) || !kf_add_ok(need, p->bytes, &need))
            return kf_fail(err, KERF_E_RANGE, KF_NOWHERE, "%s: strides overflow", what);
        KF_TRY(check_span(s->weights[i].p, s->weights[i].n, need, size, what, err));
    }
    if (!s->bias.p) return KERF_OK;
    unsigned size = kerf_dtype_bits(plan->shape.bias) / 8;
    if (!size)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%s: a bias, and none in the plan", what);
    return check_span(s->bias.p, s->bias.n, experts * m->rows * size, size, what, err);
}

static kerf_status check_args(const kerf_gemv_experts *plan, kerf_gemv_experts_args *a,
                              kerf_error *err)
{
    const kerf_gemv_experts_shape *s = &plan->shape;
    uint64_t slots = (uint64_t)s->tokens * s->top_k;
    KF_TRY(check_stack(plan, &plan->in, &a->gate, plan->stacks == 2 ? "gate" : "gate and up", err));
    if (plan->stacks == 2) {
        KF_TRY(check_stack(plan, &plan->in, &a->up, "up", err));
        if (!a->gate.bias.p != !a->up.bias.p)
            return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "a bias for one of gate and up alone");
    }
    KF_TRY(check_stack(plan, &plan->down, &a->down, "down", err));
    KF_TRY(check_vectors(a->x.p, a->x.n, s->hidden, &a->x_stride, s->tokens, s->x, "x", err));
    KF_TRY(check_vectors(a->y.p, a->y.n, s->hidden, &a->y_stride, s->tokens, s->y, "y", err));
    KF_TRY(check_span(a->ids.p, a->ids.n, slots * 4, 4, "ids", err));
    KF_TRY(check_span(a->weights.p, a->weights.n, slots * 4, 4, "weights of slots", err));
    return check_span(a->workspace.p, a->workspace.n, plan->workspace, 16, "workspace", err);
}

kerf_status kerf_gemv_experts_run(const kerf_gemv_experts *plan, const kerf_gemv_experts_args *args,
                                  void *stream, kerf_error *err)
{
    kerf_gemv_experts_args a = *args;
    KF_TRY(check_args(plan, &a, err));
    return kf_experts_device_run(plan, &a, stream, err);
}
