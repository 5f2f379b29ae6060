/* experts_plan.c - plans and runs of mixture-of-experts layers: checks everything once. */
#include "plan/experts_plan.h"

#include "base/base.h"
#include "format/format.h"
#include "plan/gemv_device.h"
#include "plan/spans.h"

#include <stdlib.h>

/* --- plan ------------------------------------------------------------------------------------- */

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

kerf_status kf_gemv_experts_check(kerf_gemv_experts *plan, kerf_error *err)
{
    kerf_gemv_experts_shape *s = &plan->shape;
    if (!s->format) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "no format");
    KF_TRY(check_count(s->tokens, KERF_EXPERTS_TOKENS, "tokens", err));
    KF_TRY(check_count(s->top_k, KERF_EXPERTS_TOP_K, "slots of a token", err));
    KF_TRY(check_count(s->experts, 65536, "experts", err));
    KF_TRY(check_count(s->hidden, 1u << 24, "numbers of a token", err));
    KF_TRY(check_count(s->inter, 1u << 24, "rows of gate", err));
    KF_TRY(kf_check_float(s->x, "x", err));
    KF_TRY(kf_check_float(s->y, "y", err));
    if (s->between == KERF_DTYPE_NONE) s->between = KERF_F32;
    KF_TRY(kf_check_float(s->between, "h", err));
    if (s->bias != KERF_DTYPE_NONE) KF_TRY(kf_check_float(s->bias, "biases", err));
    if (s->rows > KERF_EXPERTS_APART || s->activation > KERF_EXPERTS_CLAMPED)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "no such order of rows, or activation");
    if (s->flags & ~(unsigned)KERF_GEMV_SHUFFLED)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "flags 0x%x: layers of experts know KERF_GEMV_SHUFFLED alone", s->flags);
    if (s->flags) KF_TRY(kf_check_shuffle(s->format, err));
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

kerf_status kf_gemv_experts_plan_create_as(kerf_gemv_experts **out,
                                           const kerf_gemv_experts_shape *shape,
                                           const kerf_exec *exec, const struct kf_gemv_machine *as,
                                           kerf_error *err)
{
    *out = NULL;
    kerf_gemv_experts *plan = kf_alloc_zero(1, sizeof *plan);
    if (!plan) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "out of memory");
    plan->shape = *shape;
    kerf_status s = kf_gemv_experts_check(plan, err);
    if (s == KERF_OK && !(exec && exec->device))
        s = kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                    "layers of experts run on a GPU only; on the processor a plan of kerf_gemv for "
                    "each expert works");
    if (s == KERF_OK) s = kf_experts_device_plan(plan, exec->device, as, err);
    if (s != KERF_OK) {
        kerf_gemv_experts_plan_free(plan);
        return s;
    }
    *out = plan;
    return KERF_OK;
}

kerf_status kerf_gemv_experts_plan_create(kerf_gemv_experts **out,
                                          const kerf_gemv_experts_shape *shape,
                                          const kerf_exec *exec, kerf_error *err)
{
    return kf_gemv_experts_plan_create_as(out, shape, exec, NULL, err);
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
        const unsigned size = kf_element_bytes(p->dtype);
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
        KF_TRY(kf_check_span(s->weights[i], need, size, what, err));
    }
    if (!s->bias.p) return KERF_OK;
    unsigned size = kerf_dtype_bits(plan->shape.bias) / 8;
    if (!size)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%s: a bias, and none in the plan", what);
    return kf_check_span(s->bias, experts * m->rows * size, size, what, err);
}

/* x or y; puts in what its stride stands for. */
static kerf_status check_tokens(const kerf_gemv_experts_shape *s, kerf_cspan have, uint64_t *stride,
                                kerf_dtype t, const char *what, kerf_error *err)
{
    if (*stride == 0) *stride = s->hidden;
    const kf_vectors v = {s->tokens, s->hidden, *stride, t};
    return kf_check_vectors(have, &v, kf_element_bytes(t), what, err);
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
    KF_TRY(check_tokens(s, a->x, &a->x_stride, s->x, "x", err));
    KF_TRY(check_tokens(s, kf_read_only(a->y), &a->y_stride, s->y, "y", err));
    KF_TRY(kf_check_span(a->ids, slots * 4, 4, "ids", err));
    KF_TRY(kf_check_span(a->weights, slots * 4, 4, "weights of slots", err));
    return kf_check_span(kf_read_only(a->workspace), plan->workspace, 16, "workspace", err);
}

kerf_status kerf_gemv_experts_run(const kerf_gemv_experts *plan, const kerf_gemv_experts_args *args,
                                  void *stream, kerf_error *err)
{
    kerf_gemv_experts_args a = *args;
    KF_TRY(check_args(plan, &a, err));
    return kf_experts_device_run(plan, &a, stream, err);
}
