/* test_gemv_drawn.c - the matrix-vector product of every format on every backend, and on tiles in
 * plain C, with all that a run can have at once, drawn at random: shapes, types, strides, alpha,
 * bias, a residual that is y itself, threads, weights with scales at the ends of their types, x
 * that is constant, cancels, has one huge number or none. Each product is inside its bound; with
 * all that it is what the plain one becomes by one operation after the other, reads nothing outside
 * its arguments nor between their vectors, and writes nothing beside y. */
#include "cpu/tiles_plain.h"

#define KF_ISA(name) kf_test_drawn_##name
#include "cpu/gemv_tiles.h"

#include "fence.h"
#include "gemv_case.h"
#include "rounds.h"

#define DRAWS 24 /* of a format */

static const kf_gemv_ops plain = {"tiles", tile_plan, tile_start, tile_rows};
static const kerf_dtype types[] = {KERF_F32, KERF_F16, KERF_BF16};

static uint64_t seed;
static char label[160]; /* of the product at hand */

static unsigned draw(unsigned n)
{
    return next_random(&seed) % n;
}

/* --- weights ------------------------------------------------------------------------------------
 */

/* The ends of types, as fp32, bfloat16 and fp16 have them; for bytes see put_scale. */
static const uint32_t ends[] = {0,          0x80000000, 1,          0x00400000,
                                0x00800000, 0x7f7fffff, 0xff7fffff, 0x7f800000,
                                0xff800000, 0x7fc00000, 0x0f800000, 0x70800000};
static const uint16_t half_ends[] = {0,      0x8000, 1,      0x8001, 0x03ff, 0x0400,
                                     0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0x3c00};
static const uint8_t byte_ends[] = {0, 1, 2, 7, 8, 126, 127, 128, 253, 254, 255, 0x7e};

static void put_scale(kerf_scale_kind kind, uint8_t *p, int wild)
{
    const unsigned i = draw(12), sign = draw(2);
    const float tame = ldexpf(1 + fabsf(random_unit(&seed)), (int)draw(8) - 7);
    const unsigned bits = 8 * kf_scale_bytes(kind);
    switch (kind) {
    case KERF_SCALE_NONE: return;
    case KERF_SCALE_E8M0: *p = wild ? byte_ends[i] : (uint8_t)(117 + i); return;
    case KERF_SCALE_E4M3: *p = wild ? byte_ends[i] : (uint8_t)(next_random(&seed) & 0xbf); return;
    case KERF_SCALE_MAP8: *p = (uint8_t)next_random(&seed); return;
    case KERF_SCALE_F16:
        kf_put_code(p, 16, 0, wild ? half_ends[i] : kf_f16_encode(sign ? -tame : tame));
        return;
    default:
        kf_put_code(p, bits, 0, (wild ? ends[i] : kf_bits(sign ? -tame : tame)) >> (32 - bits));
    }
}

/* Codes as they fall, under scales of which one in `wild` lies at an end of its type; 0: none. */
static void draw_scales(gemv_case *c, unsigned wild)
{
    const kf_spec s = kf_spec_of(c->g.format);
    const size_t size = kf_scale_bytes(s.scale), codes = (size_t)c->g.plane[0].bytes;
    kerf_struct_number number[4];
    unsigned bytes = 0;
    const size_t numbers = kerf_struct_numbers(c->g.format, &bytes, number);
    for (size_t at = 0; numbers && at < codes; at += bytes)
        for (size_t i = 0; i < numbers; i++) {
            const kerf_scale_kind kind = number[i].dtype == KERF_F16       ? KERF_SCALE_F16
                                         : number[i].dtype == KERF_F8_E8M0 ? KERF_SCALE_E8M0
                                                                           : KERF_SCALE_E4M3;
            put_scale(kind, c->plane[0] + at + number[i].at, wild && !draw(wild));
        }
    for (size_t at = 0; at < c->g.plane[KERF_PLANE_SCALES].bytes; at += size)
        put_scale(s.scale, c->plane[KERF_PLANE_SCALES] + at, wild && !draw(wild));
    for (size_t at = 0; at < c->g.plane[KERF_PLANE_SECOND].bytes; at += 4)
        put_scale(KERF_SCALE_F32, c->plane[KERF_PLANE_SECOND] + at, wild && !draw(2));
    if (s.zero == KERF_ZERO_F32) put_scale(KERF_SCALE_F32, c->plane[KERF_PLANE_ZEROS], 0);
    if (s.zero == KERF_ZERO_CODE && !draw(3)) /* at an end */
        memset(c->plane[KERF_PLANE_ZEROS], draw(2) ? 0xff : 0,
               (size_t)c->g.plane[KERF_PLANE_ZEROS].bytes);
}

static void draw_weights(gemv_case *c)
{
    const unsigned kind = draw(5);
    const size_t codes = (size_t)c->g.plane[0].bytes;
    if (kind == 0 || (kind < 4 && c->g.format->geometry == KERF_GROUP_NONE)) {
        case_encode(c, ldexpf(1, (int)draw(12) - 8), next_random(&seed));
        return;
    }
    case_random_planes(c, next_random(&seed));
    if (kind == 4) return;
    if (kind == 3) memset(c->plane[0], draw(2) ? 0x77 : 0xff, codes); /* one code everywhere */
    draw_scales(c, kind == 1 ? 0 : 60);
    case_decode(c);
}

/* --- x ------------------------------------------------------------------------------------------
 */

static float largest(kerf_dtype t)
{
    return t == KERF_F16 ? 65504 : t == KERF_BF16 ? 0x1.fep127f : 0x1.fffffep127f;
}

static void draw_x(gemv_case *c, unsigned column)
{
    static const float special[] = {NAN, INFINITY, -INFINITY};
    const unsigned kind = draw(14), at = draw((unsigned)c->cols);
    const float all = random_unit(&seed), most = largest(c->x_type);
    const int e = c->x_type == KERF_F16 ? (int)draw(12) - 6 : (int)draw(140) - 70;
    for (size_t k = 0; k < c->cols; k++) {
        const float u = random_unit(&seed);
        float x = u;
        switch (kind) {
        case 0: x = k % 2 ? 0 : -0.0f; break;
        case 1: x = all; break;
        case 2: x = k % 2 ? all : -all; break;
        case 3: x = k == at ? most : u; break;
        case 4: x = k == at ? most * 0x1p-5f : u; break;
        case 5: x = most * u; break;
        case 6: x = k == at ? special[at % 3] : u; break;
        case 7: x = k == at ? 1 : 0; break;
        case 8:
            x = (c->x_type == KERF_F16 ? 0x1p-24f : 0x1p-133f) * (float)((int)draw(5) - 2);
            break;
        default: x = kind < 11 ? ldexpf(u, e) : u;
        }
        case_set_x(c, column * c->cols + k, x);
    }
}

/* --- runs ---------------------------------------------------------------------------------------
 */

/* What a run has besides weights and x; numbers of y's type. */
typedef struct extras {
    kerf_dtype y;
    size_t x_stride, y_stride, size; /* size: bytes of a number of y */
    float alpha;
    uint8_t *bias, *residual; /* NULL: none */
    int in_place, at_end, threads;
    size_t panel; /* rows that a thread takes at a time; 0: the plan's own */
} extras;

static uint8_t *draw_numbers(kerf_dtype t, size_t n)
{
    uint8_t *p = must_alloc(n * kerf_dtype_bits(t) / 8);
    for (size_t i = 0; i < n; i++) kf_store(t, p, i, 4 * random_unit(&seed));
    return p;
}

static extras draw_extras(const gemv_case *c)
{
    static const int threads[] = {1, 2, 3, 7};
    extras e = {.y = types[draw(3)],
                .x_stride = c->cols + (draw(2) ? draw(9) : 0),
                .y_stride = c->rows + (draw(2) ? draw(9) : 0),
                .alpha = draw(2)   ? 1
                         : draw(2) ? 0.37f
                                   : -2,
                .at_end = (int)draw(2),
                .threads = threads[draw(4)],
                .panel = draw(3) ? 0 : 4 * (size_t)(1 + draw(4))};
    e.size = kerf_dtype_bits(e.y) / 8;
    if (draw(2)) e.bias = draw_numbers(e.y, c->rows);
    if (draw(2)) e.residual = draw_numbers(e.y, c->columns * e.y_stride);
    e.in_place = e.residual && draw(2);
    return e;
}

/* NULL: this backend has no such plan. The caller frees it. */
static kerf_gemv *plan_on(const gemv_case *c, const char *backend, kerf_dtype y, int threads)
{
    const int on_tiles = !strcmp(backend, plain.name);
    const kerf_exec exec = {.backend = on_tiles ? "ref" : backend, .threads = threads};
    kerf_gemv *plan = case_plan(c, y, &exec);
    if (!on_tiles) return plan;
    if (plain.plan(plan) == KERF_OK) {
        plan->ops = &plain;
        return plan;
    }
    kerf_gemv_plan_free(plan);
    return NULL;
}

/* y of a run that has nothing else: inside the bound. NULL: not on this backend. */
static float *run_plainly(const gemv_case *c, const char *backend, const gemv_exact *exact)
{
    kerf_gemv *plan = plan_on(c, backend, KERF_F32, 1);
    if (!plan) return NULL;
    float *y = must_alloc(c->columns * c->rows * sizeof *y);
    case_run(c, plan, y, c->columns * c->rows * sizeof *y);
    for (size_t i = 0; i < c->columns * c->rows; i++)
        if (!is_right(c, exact[i], plan, (double)y[i]))
            fail_msg("%s: y[%zu] = %.9g, exactly %.17g, bound %g of %g, %g", label, i, (double)y[i],
                     exact[i].y, kerf_gemv_bound(plan), exact[i].sum_abs, kerf_gemv_x_bound(plan));
    kerf_gemv_plan_free(plan);
    return y;
}

/* What number `at` of a y becomes, between vectors as well. */
static void expect(const gemv_case *c, const extras *e, const float *y, size_t at, uint8_t out[4])
{
    const size_t r = at % e->y_stride, column = at / e->y_stride;
    memset(out, FENCE_FILL, 4);
    if (e->in_place) memcpy(out, e->residual + at * e->size, e->size);
    if (r >= c->rows) return;
    float sum = y[column * c->rows + r];
    if (e->alpha != 1) sum *= e->alpha;
    if (e->bias) sum += kf_load(e->y, e->bias, r);
    if (e->residual) sum += kf_load(e->y, e->residual, at);
    kf_store(e->y, out, 0, sum);
}

static void check_y(const gemv_case *c, const extras *e, const float *plainly, const uint8_t *y)
{
    for (size_t at = 0; at < (c->columns - 1) * e->y_stride + c->rows; at++) {
        uint8_t want[4];
        expect(c, e, plainly, at, want);
        const float a = kf_load(e->y, want, 0), b = kf_load(e->y, y, at);
        if (memcmp(want, y + at * e->size, e->size) != 0 && !(isnan(a) && isnan(b)))
            fail_msg("%s, with all: y[%zu] of %zu, %zu is %.9g, not %.9g", label, at % e->y_stride,
                     c->rows, at / e->y_stride, (double)b, (double)a);
    }
}

/* The same product with all that was drawn, between fences. */
static void run_fenced(const gemv_case *c, const char *backend, const extras *e, const float *y)
{
    fence f[KERF_PLANES + 5];
    int n = 0;
    const size_t x_size = kerf_dtype_bits(c->x_type) / 8;
    const size_t x_bytes = ((c->columns - 1) * e->x_stride + c->cols) * x_size;
    const size_t y_bytes = ((c->columns - 1) * e->y_stride + c->rows) * e->size;
    kerf_gemv *plan = plan_on(c, backend, e->y, e->threads);
    if (e->panel) plan->panel = e->panel;
    kerf_gemv_args a = {.x_stride = e->x_stride, .y_stride = e->y_stride, .alpha = e->alpha};
    fence *y_fence = &f[n++], *work = &f[n++], *x = &f[n++];
    const size_t work_bytes = kerf_gemv_workspace(plan);
    a.y =
        (kerf_span){fenced(y_fence, e->in_place ? e->residual : NULL, y_bytes, e->at_end), y_bytes};
    a.workspace = (kerf_span){fenced(work, NULL, work_bytes, e->at_end), work_bytes};
    a.x = (kerf_cspan){fenced(x, NULL, x_bytes, e->at_end), x_bytes};
    memset(x->p, 0xff, x_bytes); /* NaN between vectors */
    for (size_t i = 0; i < c->columns; i++)
        memcpy(x->p + i * e->x_stride * x_size, c->x_raw + i * c->cols * x_size, c->cols * x_size);
    const size_t bias = c->rows * e->size;
    if (e->bias) a.bias = (kerf_cspan){fenced(&f[n++], e->bias, bias, e->at_end), bias};
    if (e->in_place)
        a.residual = (kerf_cspan){a.y.p, y_bytes};
    else if (e->residual)
        a.residual = (kerf_cspan){fenced(&f[n++], e->residual, y_bytes, e->at_end), y_bytes};
    for (int p = 0; p < KERF_PLANES; p++) {
        const size_t bytes = (size_t)c->g.plane[p].bytes;
        a.weights[p] = (kerf_cspan){fenced(&f[n++], c->plane[p], bytes, e->at_end), bytes};
    }
    kerf_error err;
    if (kerf_gemv_run(plan, &a, NULL, &err) != KERF_OK) fail_msg("%s: %s", label, err.text);
    if (!fence_is_clean(y_fence) || !fence_is_clean(work))
        fail_msg("%s: bytes are written beside y", label);
    check_y(c, e, y, a.y.p);
    kerf_gemv_plan_free(plan);
    while (n-- > 0) fence_free(&f[n]);
}

/* --- cases --------------------------------------------------------------------------------------
 */

static size_t draw_cols(void)
{
    static const size_t near[] = {1, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768};
    const size_t a = near[draw(11)];
    switch (draw(4)) {
    case 0: return 1 + draw(80);
    case 1: return a + draw(3) - (a > 1);
    case 2: return 32 * (size_t)(1 + 2 * draw(8));
    default: return a;
    }
}

static void check_case(const kerf_format *f)
{
    const unsigned long long first = seed;
    const int wide = f->geometry == KERF_GROUP_TILE && !draw(3); /* more than one tile */
    const size_t rows = 1 + draw(wide ? 300 : 45), cols = wide ? 1 + draw(300) : draw_cols();
    const unsigned columns = 1 + draw(draw(3) ? 8 : KERF_GEMV_COLUMNS);
    gemv_case c = case_new(f, rows, cols, columns, types[draw(3)]);
    draw_weights(&c);
    for (unsigned i = 0; i < columns; i++) draw_x(&c, i);
    extras e = draw_extras(&c);
    gemv_exact *exact = case_exacts(&c);
    for (size_t i = 0; i <= kerf_gemv_backend_count(); i++) {
        const char *backend = kerf_gemv_backend_at(i) ? kerf_gemv_backend_at(i) : plain.name;
        snprintf(label, sizeof label, "%s on %s, %zu x %zu, %u columns of %s, seed %llu", f->name,
                 backend, c.rows, c.cols, columns, kerf_dtype_name(c.x_type), first);
        float *y = run_plainly(&c, backend, exact);
        if (y) run_fenced(&c, backend, &e, y);
        free(y);
    }
    free(exact);
    free(e.bias);
    free(e.residual);
    case_free(&c);
}

static void test_drawn(void **state)
{
    (void)state;
    for (size_t fi = 0; fi < kerf_format_count(); fi++) {
        const kerf_format *f = kerf_format_at(fi);
        if (!is_asked(f->name)) continue;
        for (unsigned i = 0; i < DRAWS; i += STEP(4)) {
            seed = 1000 * f->id + i;
            check_case(f);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_drawn)};
    return cmocka_run_group_tests_name("gemv_drawn", tests, NULL, NULL);
}
