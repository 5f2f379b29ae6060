/* test_feedback.c - error feedback: the factors against the matrix that they are of; every code
 * against the definition in kerf/feedback.h, written down once more; that the error of the output
 * falls in every kind of format; the same bytes for any number of threads and any cut into calls.
 */
#include <kerf/encode_matrix.h>
#include <kerf/feedback.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/pseudo_random.h"
#include "cpu/feedback_rows.h"
#include "test_output.h"

enum { ROWS = 35, COLS = 256, TOKENS = 400, FEW = 2 };

static float number(uint64_t i)
{
    return kf_bell(kf_mix(i * KF_RANDOM_STEP)) / 37837.0f;
}

/* Inputs that have something in common, some far larger than others, one always zero. */
static float *make_gram(void)
{
    float *x = calloc((size_t)TOKENS * COLS, sizeof *x),
          *g = calloc((size_t)COLS * COLS, sizeof *g);
    assert_true(x && g);
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t k = 0; k < COLS; k++)
            x[t * COLS + k] =
                k == 9 ? 0
                       : (number(t * COLS + k) + 1.5f * number(7000000 + t * 8 + k % 8)) *
                             (k % 31 ? 1 : 6);
    for (size_t i = 0; i < COLS; i++)
        for (size_t k = 0; k < COLS; k++) {
            double sum = 0;
            for (size_t t = 0; t < TOKENS; t++)
                sum += (double)x[t * COLS + i] * (double)x[t * COLS + k];
            g[i * COLS + k] = (float)(sum / TOKENS);
        }
    free(x);
    return g;
}

static kerf_feedback *make_feedback(const float *gram, int threads)
{
    kerf_error err;
    kerf_feedback *f;
    must(kerf_feedback_make(gram, COLS, 0.01, threads, NULL, &f, &err), &err);
    return f;
}

static kerf_feedback *make_again(const float *gram)
{
    kerf_error err;
    kerf_feedback *f = make_feedback(gram, 1);
    must(kerf_feedback_again(f, gram, 0.01, &err), &err);
    return f;
}

/* --- one encoded matrix -------------------------------------------------------------------- */

typedef struct coded {
    kerf_geometry g;
    kerf_codec codec;
    float *w, *v;
    kerf_span plane[KERF_PLANES];
    kerf_cspan planes[KERF_PLANES];
} coded;

static void decode(coded *c)
{
    kerf_error err;
    const kerf_span to = {c->v, (size_t)c->g.elements * sizeof *c->v};
    must(kerf_decode(&c->g, 0, c->g.bands, c->planes, to, KERF_F32, NULL, &err), &err);
}

static void encode(coded *c, const char *name, size_t rows, const kerf_exec *exec)
{
    const kerf_shape shape = {2, {rows, COLS}};
    kerf_error err;
    *c = (coded){0};
    must(kerf_codec_find(name, &c->codec, &err), &err);
    must(kerf_geometry_init(&c->g, c->codec.format, &shape, &err), &err);
    const size_t n = rows * COLS;
    c->w = malloc(n * sizeof *c->w);
    c->v = malloc(n * sizeof *c->v);
    for (size_t i = 0; i < n; i++) c->w[i] = number(90000000 + i) * (i % 97 ? 0.05f : 0.3f);
    for (int k = 0; k < KERF_PLANES; k++) {
        c->plane[k] = (kerf_span){calloc(1, c->g.plane[k].bytes + 1), (size_t)c->g.plane[k].bytes};
        c->planes[k] = (kerf_cspan){c->plane[k].p, c->plane[k].n};
    }
    must(kerf_encode_matrix(&c->g, c->codec.encoder, (kerf_cspan){c->w, n * 4}, KERF_F32, c->plane,
                            exec, NULL, &err),
         &err);
    decode(c);
}

static void release(coded *c)
{
    free(c->w);
    free(c->v);
    for (int k = 0; k < KERF_PLANES; k++) free(c->plane[k].p);
}

static int same_planes(const coded *a, const coded *b)
{
    for (int k = 0; k < KERF_PLANES; k++)
        if (memcmp(a->plane[k].p, b->plane[k].p, a->plane[k].n) != 0) return 0;
    return 1;
}

/* tr(E G E^T) */
static double output_error(const coded *c, const float *gram)
{
    double sum = 0;
    for (size_t r = 0; r < c->g.elements / COLS; r++) {
        const float *w = c->w + r * COLS, *v = c->v + r * COLS;
        for (size_t i = 0; i < COLS; i++) {
            double y = 0;
            for (size_t k = 0; k < COLS; k++)
                y += (double)gram[i * COLS + k] * (double)(v[k] - w[k]);
            sum += y * (double)(v[i] - w[i]);
        }
    }
    return sum;
}

/* --- tests --------------------------------------------------------------------------------- */

/* U D U^T is G with damping. */
static void factors_give_the_matrix_back(void **state)
{
    (void)state;
    float *gram = make_gram();
    kerf_feedback *f = make_feedback(gram, 3), *one = make_feedback(gram, 1);
    double mean = 0, worst = 0;
    for (size_t i = 0; i < COLS; i++) mean += (double)gram[i * COLS + i] / COLS;
    for (size_t i = 0; i < COLS; i++)
        for (size_t j = 0; j <= i; j++) {
            double sum =
                i == j ? (double)f->d[i] : (double)f->above[i * COLS + j] * (double)f->d[i];
            for (size_t k = i + 1; k < COLS; k++)
                sum += (double)f->above[k * COLS + i] * (double)f->d[k] *
                       (double)f->above[k * COLS + j];
            const double want = (double)gram[i * COLS + j] + (i == j ? 0.01 * mean : 0);
            worst = fmax(worst, fabs(sum - want) / mean);
        }
    assert_true(worst < 1e-5);
    assert_memory_equal(f->above, one->above, COLS * COLS * sizeof *f->above);
    assert_memory_equal(f->d, one->d, COLS * sizeof *f->d);
    kerf_feedback_free(f);
    kerf_feedback_free(one);
    free(gram);
}

/* The number that code `code` of element k would be, in row r. */
static float value_of(coded *c, size_t r, size_t k, unsigned code)
{
    uint8_t *byte = (uint8_t *)c->plane[KERF_PLANE_CODES].p + (r * COLS + k) / 2;
    const unsigned shift = k % 2 ? 4 : 0;
    float row[COLS];
    kerf_cspan part[KERF_PLANES];
    const uint8_t kept = *byte;
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++) {
        const kerf_extent e = kerf_band_bytes(&c->g, p, r, r + 1);
        part[p] = (kerf_cspan){(uint8_t *)c->plane[p].p + e.offset, (size_t)e.count};
    }
    *byte = (uint8_t)((kept & ~(15u << shift)) | code << shift);
    kerf_error err;
    must(kerf_decode(&c->g, r, r + 1, part, (kerf_span){row, sizeof row}, KERF_F32, NULL, &err),
         &err);
    *byte = kept;
    return row[k];
}

static float nearest(coded *c, size_t r, size_t k, float x)
{
    float best = value_of(c, r, k, 0);
    for (unsigned code = 1; code < 16; code++) {
        const float v = value_of(c, r, k, code);
        if (fabsf(v - x) < fabsf(best - x)) best = v;
    }
    return best;
}

/* e of a row in the first pass, under the scales that it was encoded with. */
static void first_pass(coded *c, const kerf_feedback *f, size_t r, float *e)
{
    for (size_t k = 0; k < COLS; k++) {
        const float w = c->w[r * COLS + k];
        float sum = 0;
        for (size_t j = 0; j < k; j++) sum += f->above[k * COLS + j] * e[j];
        e[k] = nearest(c, r, k, w - sum) - w;
    }
}

static int another_pass(coded *c, const kerf_feedback *f, size_t r, float *e)
{
    int changed = 0;
    for (size_t k = 0; k < COLS; k++) {
        const float *h = f->gram + k * COLS, w = c->w[r * COLS + k];
        float sum = 0;
        for (size_t j = 0; j < COLS; j++)
            if (j / 16 != k / 16) sum += h[j] * e[j];
        for (size_t j = k / 16 * 16; j < k / 16 * 16 + 16; j++) sum += h[j] * e[j];
        const float by = sum / h[k], other = nearest(c, r, k, w + e[k] - by) - w;
        if (!(fabsf(other - (e[k] - by)) < fabsf(by))) continue;
        changed |= other != e[k];
        e[k] = other;
    }
    return changed;
}

/* Under the scales that were chosen, the numbers are those that the definition leads to; all passes
 * together leave less error than the first. */
static void every_code_follows_the_definition(void **state)
{
    static const char *const names[] = {"nvfp4", "mxfp4", "int4-g32", "int4-g128:search"};
    (void)state;
    float *gram = make_gram();
    kerf_feedback *once = make_feedback(gram, 1), *again = make_again(gram);
    const kerf_exec with[] = {{.threads = 1, .feedback = once}, {.threads = 1, .feedback = again}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        coded c[2];
        for (int way = 0; way < 2; way++) {
            encode(&c[way], names[i], FEW, &with[way]);
            for (size_t r = 0; r < FEW; r++) {
                float e[COLS];
                int left = way ? KERF_FEEDBACK_AGAIN : 0;
                first_pass(&c[way], once, r, e);
                while (left > 0 && another_pass(&c[way], again, r, e)) left--;
                for (size_t k = 0; k < COLS; k++)
                    assert_true(e[k] == c[way].v[r * COLS + k] - c[way].w[r * COLS + k]);
            }
        }
        assert_true(output_error(&c[1], gram) < 0.97 * output_error(&c[0], gram));
        release(&c[0]);
        release(&c[1]);
    }
    kerf_feedback_free(once);
    kerf_feedback_free(again);
    free(gram);
}

static const char *const kinds[] = {
    "nvfp4",
    "nvfp4:4/6",
    "nvfp4:sweep",
    "nvfp4:modelopt",
    "mxfp4",
    "mxfp4:search",
    "mxfp6-e2m3",
    "mxfp8-e4m3",
    "mxint8",
    "int4-g32",
    "int4-g128:search",
    "int4-g32-asym:search",
    "int8",
    "int2-g16",
    "fp8-e4m3",
    "fp8-e4m3-row",
    "fp8-e4m3-128x128",
    "nf4",
    "nf4-dq",
    "ggml-q8_0",
    "ggml-q4_0",
    "q4_1",
    "q5_0",
    "iq4_nl",
    "iq4_xs",
    "q2_k",
    "q3_k",
    "q4_k",
    "q5_k",
    "q6_k",
};

static void the_error_of_the_output_falls(void **state)
{
    (void)state;
    float *gram = make_gram();
    kerf_feedback *f = make_feedback(gram, 1), *again = make_again(gram);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const kerf_exec with[] = {
            {.threads = 1}, {.threads = 1, .feedback = f}, {.threads = 1, .feedback = again}};
        double error[3];
        for (int way = 0; way < 3; way++) {
            coded c;
            encode(&c, kinds[i], ROWS, &with[way]);
            error[way] = output_error(&c, gram);
            release(&c);
        }
        if (!(error[1] < 0.9 * error[0] && error[2] < error[1]))
            print_error("%s: %g, with feedback %g, again %g\n", kinds[i], error[0], error[1],
                        error[2]);
        assert_true(error[1] < 0.9 * error[0]);
        assert_true(error[2] < error[1]);
    }
    kerf_feedback_free(f);
    kerf_feedback_free(again);
    free(gram);
}

static void bytes_are_the_same_for_any_threads_and_calls(void **state)
{
    (void)state;
    float *gram = make_gram();
    kerf_feedback *f = make_feedback(gram, 2);
    kerf_error err;
    must(kerf_feedback_again(f, gram, 0.01, &err), &err);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        coded a, b;
        const kerf_exec one = {.threads = 1, .feedback = f};
        encode(&a, kinds[i], ROWS, &one);
        for (int threads = 2; threads <= 5; threads += 3) {
            const kerf_exec many = {.threads = threads, .feedback = f};
            encode(&b, kinds[i], ROWS, &many);
            assert_true(same_planes(&a, &b));
            release(&b);
        }
        release(&a);
    }
    kerf_feedback_free(f);
    free(gram);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    float *gram = make_gram();
    kerf_feedback *f = make_feedback(gram, 1), *none;
    const kerf_exec exec = {.threads = 1, .feedback = f};
    const kerf_shape shape = {2, {3, 128}};
    kerf_error err;
    kerf_codec codec;
    kerf_geometry g;
    float w[3 * 128] = {0};
    uint8_t codes[3 * 64], scales[3 * 8];
    const kerf_span out[KERF_PLANES] = {{codes, sizeof codes}, {scales, sizeof scales}};
    must(kerf_codec_find("mxfp4", &codec, &err), &err);
    must(kerf_geometry_init(&g, codec.format, &shape, &err), &err);
    assert_int_equal(kerf_encode(&g, codec.encoder, NULL, 0, 3, (kerf_cspan){w, sizeof w}, KERF_F32,
                                 out, &exec, &err),
                     KERF_E_ARG);
    assert_int_equal(kerf_feedback_make(gram, 0, 0.01, 1, NULL, &none, &err), KERF_E_ARG);
    assert_int_equal(kerf_feedback_make(gram, COLS, 0, 1, NULL, &none, &err), KERF_E_ARG);
    assert_int_equal(kerf_feedback_make(gram, COLS, INFINITY, 1, NULL, &none, &err), KERF_E_ARG);
    assert_int_equal(kerf_feedback_make(gram, UINT64_C(1) << 40, 0.01, 1, NULL, &none, &err),
                     KERF_E_RANGE);
    const float kept = gram[5 * COLS + 2];
    gram[5 * COLS + 2] = 1e6f; /* more than the squares of both inputs allow */
    assert_int_equal(kerf_feedback_make(gram, COLS, 0.01, 1, NULL, &none, &err), KERF_E_DATA);
    gram[5 * COLS + 2] = kept;
    gram[7 * COLS + 7] = -gram[7 * COLS + 7];
    assert_int_equal(kerf_feedback_make(gram, COLS, 0.01, 2, NULL, &none, &err), KERF_E_DATA);
    gram[7 * COLS + 7] = -gram[7 * COLS + 7];
    gram[5 * COLS + 2] = NAN;
    assert_int_equal(kerf_feedback_make(gram, COLS, 0.01, 1, NULL, &none, &err), KERF_E_ARG);
    assert_null(none);
    kerf_feedback_free(f);
    free(gram);
}

typedef struct patience {
    int asked, most;
} patience;

static int is_lost(void *ctx)
{
    patience *p = ctx;
    return __atomic_add_fetch(&p->asked, 1, __ATOMIC_RELAXED) > p->most;
}

/* At each place where it asks: between them lies the work of some rows. */
static void factoring_can_be_stopped(void **state)
{
    (void)state;
    float *gram = make_gram();
    kerf_error err;
    patience all = {0, 1 << 20};
    kerf_job job = {.cancel = is_lost, .ctx = &all};
    kerf_feedback *f;
    must(kerf_feedback_make(gram, COLS, 0.01, 1, &job, &f, &err), &err);
    kerf_feedback_free(f);
    assert_in_range(all.asked, 2 * COLS + 8, 4 * COLS);
    for (int most = 0; most < all.asked; most += 7) {
        patience some = {0, most};
        job.ctx = &some;
        assert_int_equal(kerf_feedback_make(gram, COLS, 0.01, 2, &job, &f, &err), KERF_E_CANCELED);
        assert_null(f);
        assert_string_equal(err.text, "canceled");
    }
    free(gram);
}

/* The first of several, as without feedback. */
static void a_nan_is_found(void **state)
{
    (void)state;
    float *gram = make_gram();
    kerf_feedback *f = make_feedback(gram, 1);
    const kerf_exec exec = {.threads = 3, .feedback = f};
    coded c;
    kerf_error err;
    encode(&c, "int4-g32", ROWS, &exec);
    c.w[(ROWS - 1) * COLS + 3] = NAN;
    c.w[17 * COLS + 200] = NAN;
    assert_int_equal(kerf_encode_matrix(&c.g, c.codec.encoder,
                                        (kerf_cspan){c.w, (size_t)ROWS * COLS * 4}, KERF_F32,
                                        c.plane, &exec, NULL, &err),
                     KERF_E_DATA);
    assert_int_equal(err.offset, 17 * COLS + 200);
    release(&c);
    kerf_feedback_free(f);
    free(gram);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors_give_the_matrix_back),
        cmocka_unit_test(every_code_follows_the_definition),
        cmocka_unit_test(the_error_of_the_output_falls),
        cmocka_unit_test(bytes_are_the_same_for_any_threads_and_calls),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(factoring_can_be_stopped),
        cmocka_unit_test(a_nan_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
