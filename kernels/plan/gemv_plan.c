/* gemv_plan.c - plans and runs of the matrix-vector product: checks everything once, picks a
 * backend, hands panels of rows to threads. A row is always done whole by one thread in an order
 * that the plan fixes, so results do not depend on their number. */
#include "base/base.h"
#include "base/subnormals.h"
#include "plan/gemv_device.h"
#include "plan/spans.h"

#include <stdlib.h>

#define ALIGNMENT 64u

size_t kerf_gemv_backend_count(void)
{
    const kf_gemv_ops *all[KF_GEMV_BACKENDS];
    return kf_gemv_backends(all);
}

const char *kerf_gemv_backend_at(size_t i)
{
    const kf_gemv_ops *all[KF_GEMV_BACKENDS];
    return i < kf_gemv_backends(all) ? all[i]->name : NULL;
}

/* --- plan ------------------------------------------------------------------------------------- */

static kerf_status check_part(const kerf_gemv_shape *s, uint64_t rows, kerf_geometry *g,
                              kerf_error *err)
{
    kerf_shape shape = {2, {rows, s->cols}};
    uint64_t all;
    KF_TRY(kerf_geometry_init(g, s->format, &shape, err));
    if (!kf_add_ok(rows, s->cols, &all) || !kf_mul_ok(all, 8 * KERF_GEMV_COLUMNS, &all) ||
        all > PTRDIFF_MAX || g->bytes > PTRDIFF_MAX)
        return kf_fail(err, KERF_E_RANGE, KF_NOWHERE, "%llu x %llu is too large",
                       (unsigned long long)rows, (unsigned long long)s->cols);
    return KERF_OK;
}

static kerf_status check_shape(const kerf_gemv_shape *s, kerf_gemv *plan, kerf_error *err)
{
    if (!s->format) return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "no format");
    if (s->columns < 1 || s->columns > KERF_GEMV_COLUMNS)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "%u columns; 1 to %d work, cut X for more",
                       s->columns, KERF_GEMV_COLUMNS);
    if (s->parts > KERF_GEMV_PARTS)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "%u parts; up to %d work", s->parts,
                       KERF_GEMV_PARTS);
    if (s->flags & ~(unsigned)(KERF_GEMV_CONSTANT_WEIGHTS | KERF_GEMV_SWIGLU | KERF_GEMV_SHUFFLED))
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "flags 0x%x are not known", s->flags);
    if (s->flags & KERF_GEMV_SHUFFLED) KF_TRY(kf_check_shuffle(s->format, err));
    KF_TRY(kf_check_float(s->x, "x", err));
    KF_TRY(kf_check_float(s->y, "y", err));
    plan->parts = s->parts ? s->parts : 1;
    for (unsigned i = 0; i < plan->parts; i++) {
        plan->part_rows[i] = i ? s->more_rows[i - 1] : s->rows;
        KF_TRY(check_part(s, plan->part_rows[i], &plan->part[i], err));
    }
    plan->geometry = plan->part[0];
    if (s->flags & KERF_GEMV_SWIGLU && (plan->parts != 2 || s->rows != s->more_rows[0]))
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "SwiGLU takes two parts, gate and up, of equal rows");
    return KERF_OK;
}

/* Small enough that threads finish together, large enough that handing out costs nothing. */
static size_t panel_rows(uint64_t rows, int threads)
{
    uint64_t share = rows / (16 * (uint64_t)kf_thread_count(threads));
    return share < 4 ? 4 : share > 256 ? 256 : (size_t)share / 4 * 4;
}

/* A layout is fitted by trying codes and scales, and the least of them are subnormal. */
static kerf_status try_backend(kerf_gemv *plan)
{
    const kf_subnormals mode = kf_subnormals_begin();
    const kerf_status s = plan->ops->plan ? plan->ops->plan(plan) : KERF_OK;
    kf_subnormals_end(mode);
    return s;
}

/* The fastest backend, or the named one, or the next slower one that does not decline. */
static kerf_status choose_backend(kerf_gemv *plan, const char *name, kerf_error *err)
{
    const kf_gemv_ops *all[KF_GEMV_BACKENDS];
    int known = 0;
    for (size_t i = kf_gemv_backends(all); i-- > 0;) {
        if (name && !known && strcmp(name, all[i]->name) != 0) continue;
        known = 1;
        plan->ops = all[i];
        plan->workspace = 0;
        plan->x_bound = 0;
        plan->bound = 0x1p-24; /* the reference: one rounding to fp32 of a sum in double */
        plan->bound += (double)plan->geometry.cols * 0x1p-52;
        kerf_status s = try_backend(plan);
        if (s == KERF_OK) return KERF_OK;
        if (s != KERF_E_NOSUP) return kf_fail(err, s, KF_NOWHERE, "out of memory");
    }
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "no backend \"%.40s\" on this machine", name);
}

/* On the processor the parts of a plan would share nothing: a plan for each does the same. */
static kerf_status plan_host(kerf_gemv *plan, const kerf_exec *exec, kerf_error *err)
{
    if (plan->parts > 1)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "several matrices in one plan run on a GPU only; a plan for each works");
    if (plan->shape.flags & KERF_GEMV_SHUFFLED)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "shuffled codes are for a GPU; kerf_gemv_unshuffle brings them back");
    plan->threads = exec ? exec->threads : 0;
    plan->panel = panel_rows(plan->shape.rows, plan->threads);
    return choose_backend(plan, exec ? exec->backend : NULL, err);
}

kerf_status kf_gemv_plan_create_with(kerf_gemv **out, const kerf_gemv_shape *shape,
                                     const kerf_exec *exec, const kf_gemv_options *options,
                                     kerf_error *err)
{
    const kf_gemv_options by_rules = {.pairing = KF_GEMV_PAIR_BY_GAIN};
    *out = NULL;
    kerf_gemv *plan = kf_alloc_zero(1, sizeof *plan);
    if (!plan) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "out of memory");
    plan->shape = *shape;
    plan->on_device = exec && exec->device;
    kerf_status s = check_shape(shape, plan, err);
    if (s == KERF_OK)
        s = plan->on_device
                ? kf_gemv_device_plan(plan, exec->device, options ? options : &by_rules, err)
                : plan_host(plan, exec, err);
    if (s != KERF_OK) {
        kerf_gemv_plan_free(plan);
        return s;
    }
    *out = plan;
    return KERF_OK;
}

kerf_status kerf_gemv_plan_create(kerf_gemv **out, const kerf_gemv_shape *shape,
                                  const kerf_exec *exec, kerf_error *err)
{
    return kf_gemv_plan_create_with(out, shape, exec, NULL, err);
}

void kerf_gemv_plan_free(kerf_gemv *plan)
{
    if (plan) free(plan->state);
    free(plan);
}

size_t kerf_gemv_workspace(const kerf_gemv *plan)
{
    return plan->workspace ? plan->workspace + ALIGNMENT - 1 : 0;
}

double kerf_gemv_bound(const kerf_gemv *plan)
{
    return plan->bound;
}

double kerf_gemv_x_bound(const kerf_gemv *plan)
{
    return plan->x_bound;
}

const char *kerf_gemv_backend(const kerf_gemv *plan)
{
    if (!plan->on_device) return plan->ops->name;
    return kf_gemv_device_is_tiled(plan) ? "cuda" : "cuda-any";
}

/* --- run -------------------------------------------------------------------------------------- */

/* Where numbers of this type lie: anywhere in host memory. */
static unsigned align_of(const kerf_gemv *plan, kerf_dtype t)
{
    return plan->on_device ? kf_element_bytes(t) : 1;
}

/* The spans of one part. */
static kerf_status check_part_spans(const kerf_gemv *plan, unsigned part, const kerf_gemv_part *a,
                                    kerf_error *err)
{
    const kerf_gemv_shape *s = &plan->shape;
    const kerf_geometry *g = &plan->part[part];
    const kf_vectors y = {s->columns, plan->part_rows[part], a->y_stride, s->y};
    const unsigned align = align_of(plan, s->y);
    for (int i = 0; i < KERF_PLANES; i++)
        if (g->plane[i].dtype != KERF_DTYPE_NONE)
            KF_TRY(kf_check_span(a->weights[i], g->plane[i].bytes, 1, kf_plane_names[i], err));
    if (part && s->flags & KERF_GEMV_SWIGLU) return KERF_OK; /* y is the first part's */
    KF_TRY(kf_check_vectors(kf_read_only(a->y), &y, align, "y", err));
    if (a->residual.p) KF_TRY(kf_check_vectors(a->residual, &y, align, "residual", err));
    if (a->bias.p) KF_TRY(kf_check_span(a->bias, y.n * kf_element_bytes(s->y), align, "bias", err));
    return KERF_OK;
}

static kerf_status check_args(const kerf_gemv *plan, const kerf_gemv_args *a, kerf_error *err)
{
    const kerf_gemv_shape *s = &plan->shape;
    const kf_vectors x = {s->columns, s->cols, a->x_stride, s->x};
    kerf_gemv_part first = {
        .y = a->y, .y_stride = a->y_stride, .bias = a->bias, .residual = a->residual};
    memcpy(first.weights, a->weights, sizeof first.weights);
    for (unsigned i = 0; i < plan->parts; i++)
        KF_TRY(check_part_spans(plan, i, i ? &a->more[i - 1] : &first, err));
    KF_TRY(kf_check_vectors(a->x, &x, align_of(plan, s->x), "x", err));
    return kf_check_span(kf_read_only(a->workspace), kerf_gemv_workspace(plan), 1, "workspace",
                         err);
}

static kf_gemv_call call_of(const kerf_gemv *plan, const kerf_gemv_args *a)
{
    const kerf_gemv_shape *s = &plan->shape;
    uintptr_t workspace = ((uintptr_t)a->workspace.p + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    kf_gemv_call call = {.plan = plan,
                         .w = kf_matrix_of(&plan->geometry, a->weights),
                         .columns = s->columns,
                         .x_type = s->x,
                         .y_type = s->y,
                         .x = a->x.p,
                         .bias = a->bias.p,
                         .residual = a->residual.p,
                         .y = a->y.p,
                         .x_stride = (size_t)(a->x_stride ? a->x_stride : s->cols),
                         .y_stride = (size_t)(a->y_stride ? a->y_stride : s->rows),
                         .alpha = a->alpha == 0 ? 1 : a->alpha,
                         .workspace = (void *)workspace};
    call.w.rows = (size_t)s->rows; /* FLAT formats see one row */
    call.w.cols = (size_t)s->cols;
    return call;
}

typedef struct run {
    const kf_gemv_call *call;
    const kf_gemv_ops *ops;
} run;

static kerf_status run_panel(void *ctx, uint64_t i)
{
    const run *r = ctx;
    const kerf_gemv *plan = r->call->plan;
    size_t from = (size_t)i * plan->panel, to = from + plan->panel;
    r->ops->rows(r->call, from, to < r->call->w.rows ? to : r->call->w.rows);
    return KERF_OK;
}

kerf_status kerf_gemv_run(const kerf_gemv *plan, const kerf_gemv_args *args, void *stream,
                          kerf_error *err)
{
    KF_TRY(check_args(plan, args, err));
    if (plan->on_device) return kf_gemv_device_run(plan, args, stream, err);
    kf_gemv_call c = call_of(plan, args);
    if (c.w.rows == 0) return KERF_OK;
    run r = {&c, plan->ops};
    const kf_subnormals mode = kf_subnormals_begin(); /* of x */
    const int is_ours = r.ops->start(&c);
    kf_subnormals_end(mode);
    if (!is_ours) r.ops = &kf_gemv_ref;
    return kf_parallel(kf_div_up(c.w.rows, plan->panel), plan->threads, run_panel, &r);
}
