/* apart_steps.h - steps of a forward pass that have memory of their own, as a GPU's have, here on
 * the processor: the plain ones, which look whether what they work on was allocated or held there.
 */
#ifndef KERF_TESTS_APART_STEPS_H
#define KERF_TESTS_APART_STEPS_H

#include "forward/decoder.h"
#include "forward/steps_plain.h"
#include "test_output.h"

#define MOST 64

/* --- memory that steps call theirs ---------------------------------------------------------- */

typedef struct range {
    const char *p;
    uint64_t n;
} range;

static range there[MOST], held[2 * MOST * 8];
static size_t theres, helds, kept;

static int within(const range *r, size_t count, const void *p)
{
    for (size_t i = 0; i < count; i++)
        if ((const char *)p >= r[i].p && (const char *)p < r[i].p + r[i].n) return 1;
    return 0;
}

static void need_there(const void *p)
{
    if (!within(there, theres, p)) fail_msg("a step works on memory that is not its own");
}

static void need_held(const void *p)
{
    if (p && !within(held, helds, p)) fail_msg("a step uses a weight that it was not given");
}

static kerf_status allocate(kf_stepper *s, uint64_t bytes, void *out, kerf_error *err)
{
    void *p = malloc(bytes + 1);
    (void)s, (void)err;
    assert_true(p && theres < MOST);
    memset(p, 0x7f, bytes); /* large numbers that nobody has written */
    there[theres++] = (range){p, bytes};
    memcpy(out, &p, sizeof p);
    return KERF_OK;
}

static void release(kf_stepper *s, void *p)
{
    (void)s;
    for (size_t i = 0; i < theres; i++)
        if (there[i].p == p) there[i] = there[--theres];
    free(p);
}

static int is_own(kf_stepper *s, const void *p)
{
    (void)s;
    return within(there, theres, p);
}

static kerf_status upload(kf_stepper *s, void *to, const void *from, uint64_t n, kerf_error *err)
{
    (void)s, (void)err;
    need_there(to);
    assert_false(within(there, theres, from));
    memcpy(to, from, n);
    return KERF_OK;
}

static kerf_status download(kf_stepper *s, void *to, const void *from, uint64_t n, kerf_error *err)
{
    (void)s, (void)err;
    need_there(from);
    assert_false(within(there, theres, to));
    memcpy(to, from, n);
    return KERF_OK;
}

static kerf_status hold(kf_stepper *s, const kf_held *array, size_t n, int keep, kerf_error *err)
{
    (void)s, (void)err;
    assert_true(helds == kept && helds + n <= sizeof held / sizeof *held);
    for (size_t i = 0; i < n; i++)
        held[helds++] = (range){(const char *)array[i].p, array[i].n * sizeof(float)};
    if (keep) kept = helds;
    return KERF_OK;
}

static int pending; /* sums */

static void drop(kf_stepper *s)
{
    (void)s;
    helds = kept;
    pending = 0;
}

/* --- steps: the plain ones, with arrays looked at --------------------------------------------- */

static kerf_status sum(kf_stepper *s, kf_rows x, const kf_sums *to, kerf_error *err)
{
    (void)s, (void)err;
    need_there(x.p);
    pending = 1;
    for (size_t t = 0; t < x.rows; t++)
        for (size_t k = 0; k < x.columns; k++) {
            const float v = x.p[t * x.stride + k];
            if (to->square) to->square[k] += (double)v * (double)v;
            if (to->largest && fabsf(v) > *to->largest) *to->largest = fabsf(v);
        }
    return KERF_OK;
}

static kerf_status settle(kf_stepper *s, kerf_error *err)
{
    (void)s, (void)err;
    pending = 0;
    return KERF_OK;
}

static kerf_status norm(kf_stepper *s, kf_rows y, const float *x, const float *w, size_t width,
                        double eps, kerf_error *err)
{
    need_there(y.p);
    need_there(x);
    need_held(w);
    return kf_steps_plain.norm(s, y, x, w, width, eps, err);
}

static kerf_status product(kf_stepper *s, kf_rows y, kf_rows x, kf_factor w, const float *bias,
                           uint64_t step, kerf_error *err)
{
    need_there(y.p);
    need_there(x.p);
    need_held(w.p);
    need_held(bias);
    return kf_steps_plain.product(s, y, x, w, bias, step, err);
}

static kerf_status attend(kf_stepper *s, const kf_attention *a, kerf_error *err)
{
    need_there(a->q.p);
    need_there(a->mixed.p);
    need_held(a->sinks);
    return kf_steps_plain.attend(s, a, err);
}

static kerf_status rotate(kf_stepper *s, const kf_rotation *r, kerf_error *err)
{
    need_there(r->x.p);
    need_there(r->cosine);
    need_there(r->sine);
    return kf_steps_plain.rotate(s, r, err);
}

static kerf_status gather(kf_stepper *s, const kf_gathering *g, kerf_error *err)
{
    need_there(g->from.p);
    need_there(g->to.p);
    assert_false(within(there, theres, g->token) || within(there, theres, g->share));
    return kf_steps_plain.gather(s, g, err);
}

static kerf_status judge(kf_stepper *s, kf_rows a, kf_rows b, const uint32_t *next, kf_likely *out,
                         kerf_error *err)
{
    need_there(a.p);
    if (b.p) need_there(b.p);
    return kf_steps_plain.judge(s, a, b, next, out, err);
}

static kf_steps make_steps(void)
{
    kf_steps s = kf_steps_plain;
    s.apart = 1;
    s.allocate = allocate;
    s.release = release;
    s.is_there = is_own;
    s.upload = upload;
    s.download = download;
    s.hold = hold;
    s.drop = drop;
    s.sum = sum;
    s.settle = settle;
    s.norm = norm;
    s.product = product;
    s.attend = attend;
    s.rotate = rotate;
    s.gather = gather;
    s.judge = judge;
    return s;
}

#endif
