/* test_matrix_api.c - a whole matrix in one call: the bytes are those of the calls that take some
 * bands at a time, the program is told and can cancel, and bad arguments write nothing. */
#include <kerf/encode_matrix.h>

#include <time.h>

#include "rounds.h"
#include "encoded.h"

/* The promise is of optimized code; sanitizers make it some ten times slower. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MOST_CANCEL_S 1.0
#endif
#endif
#ifndef MOST_CANCEL_S
#define MOST_CANCEL_S 0.1
#endif

static const kerf_exec one = {.threads = 1}; /* else threads wait for other programs */

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- who listens ------------------------------------------------------------------------------ */

typedef struct listener {
    char phases[64]; /* their names, each with a blank behind it */
    uint64_t done, total;
    long events, questions, yes_from; /* says yes from that question on; 0: never */
    double yes_s;
} listener;

static void listen(void *ctx, const kerf_event *e)
{
    listener *l = ctx;
    l->events++;
    if (e->kind == KERF_EVENT_PHASE) {
        assert_true(l->done == l->total); /* the phase before is complete */
        strcat(strcat(l->phases, e->what), " ");
    }
    l->done = e->done;
    l->total = e->total;
}

static int answer(void *ctx)
{
    listener *l = ctx;
    l->questions++;
    if (l->yes_from == 0 || l->questions < l->yes_from) return 0;
    if (l->yes_s == 0) l->yes_s = now_s();
    return 1;
}

static kerf_job job_of(listener *l)
{
    return (kerf_job){listen, answer, l};
}

/* --- the same bytes --------------------------------------------------------------------------- */

/* Numbers for this encoder in a type that it takes. */
static void *source_for(const kerf_format *f, const kerf_encoder *encoder, size_t n,
                        kerf_dtype *type)
{
    float *x = random_floats(n, 99 + n);
    void *src = malloc(n * 4 + 1);
    assert_non_null(src);
    *type = source_type(f, encoder);
    narrow(x, n, *type, src);
    free(x);
    return src;
}

static void compare_decoded(const encoded *e, const kerf_exec *exec, const kerf_job *job)
{
    static const kerf_dtype types[] = {KERF_F32, KERF_F16, KERF_BF16};
    kerf_cspan planes[KERF_PLANES];
    const_planes(e, planes);
    for (size_t i = 0; i < 3; i++) {
        const size_t bytes = (size_t)e->g.elements * kerf_dtype_bits(types[i]) / 8;
        uint8_t *a = malloc(bytes + GUARD), *b = malloc(bytes + GUARD);
        assert_true(a && b);
        memset(a, POISON, bytes + GUARD);
        memset(b, POISON, bytes + GUARD);
        assert_int_equal(
            kerf_decode(&e->g, 0, e->g.bands, planes, (kerf_span){a, bytes}, types[i], &one, NULL),
            KERF_OK);
        assert_int_equal(
            kerf_decode_matrix(&e->g, planes, (kerf_span){b, bytes}, types[i], exec, job, NULL),
            KERF_OK);
        if (memcmp(a, b, bytes + GUARD) != 0) fail_msg("%s decodes differently", e->g.format->name);
        free(a);
        free(b);
    }
}

static void compare(const kerf_format *f, const kerf_encoder *encoder, kerf_shape shape,
                    const kerf_exec *exec, const kerf_job *job)
{
    encoded want = encoded_new(f, shape), got = encoded_new(f, shape);
    kerf_dtype type;
    void *src = source_for(f, encoder, (size_t)want.g.elements, &type);
    const kerf_cspan all = {src, (size_t)want.g.elements * kerf_dtype_bits(type) / 8};
    assert_int_equal(encode_all(&want, encoder, src, type, &one, NULL), KERF_OK);
    assert_int_equal(kerf_encode_matrix(&got.g, encoder, all, type, got.plane, exec, job, NULL),
                     KERF_OK);
    assert_same_planes(&want, &got, encoder->name);
    compare_decoded(&got, exec, job);
    free(src);
    encoded_free(&want);
    encoded_free(&got);
}

/* Of the planes, those with one value per matrix and no others are written. */
static void values_check(const kerf_format *f, const kerf_encoder *encoder)
{
    const kerf_shape some[] = {{2, {5, 128}}, {3, {3, 5, 50}}, {2, {0, 64}}, {3, {2, 3, 0}}};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        const kerf_shape shape = fit(f, some[i]);
        encoded want = encoded_new(f, shape), got = encoded_new(f, shape);
        kerf_dtype type;
        void *src = source_for(f, encoder, (size_t)want.g.elements, &type);
        assert_int_equal(encode_all(&want, encoder, src, type, &one, NULL), KERF_OK);
        for (int p = 0; p < KERF_PLANES; p++)
            if (!want.g.plane[p].per_matrix) memset(want.plane[p].p, POISON, want.plane[p].n);
        assert_int_equal(
            kerf_encode_matrix_values(&got.g, encoder, want.stats, type, got.plane, NULL), KERF_OK);
        assert_same_planes(&want, &got, encoder->name);
        free(src);
        encoded_free(&want);
        encoded_free(&got);
    }
}

static void values_follow_from_statistics(void **state)
{
    (void)state;
    for_each_codec(values_check);
}

/* All shapes, among them empty ones, scalars and stacks. */
static void small_check(const kerf_format *f, const kerf_encoder *encoder)
{
    const kerf_exec two = {.threads = 2};
    const size_t step = encoder == kerf_encoder_at(f, 0) ? 1 : STEP(4);
    for (size_t i = 0; i < SHAPES; i += step) {
        listener l = {0};
        const kerf_job job = job_of(&l);
        if (!strcmp(encoder->name, "sweep") && count(shapes[i]) > 10000) continue;
        if (STEP(2) == 1) compare(f, encoder, fit(f, shapes[i]), i == 8 ? NULL : &one, NULL);
        compare(f, encoder, fit(f, shapes[i]), i == 8 ? &two : &one, &job);
        assert_true(l.done == l.total && l.questions > 0);
    }
}

static void every_codec_and_shape(void **state)
{
    (void)state;
    for_each_codec(small_check);
}

/* Large enough for several steps, whose borders fall into matrices, tiles and short last blocks. */
static void large_check(const char *codec, kerf_shape shape, long questions)
{
    kerf_codec c;
    listener l = {0};
    const kerf_job job = job_of(&l);
    assert_int_equal(kerf_codec_find(codec, &c, NULL), KERF_OK);
    compare(c.format, c.encoder, whole_blocks(c.format, shape), &one, &job);
    if (l.questions < questions) fail_msg("%s: only %ld questions", codec, l.questions);
}

static void large_matrices_in_steps(void **state)
{
    (void)state;
    static const char *const decoded_in_steps[] = {"nvfp4",      "fp8-e4m3-128x128", "nf4-dq",
                                                   "mxfp6-e2m3", "int8-tensor",      "ggml-q4_0"};
    for (size_t i = 0; i < kerf_format_count(); i += STEP(4)) {
        const char *name = kerf_format_at(i)->name;
        if (!is_asked(name)) continue;
        large_check(name, (kerf_shape){2, {300, 1000}}, 10); /* five steps, and eight calls */
        large_check(name, (kerf_shape){3, {3, 140, 700}}, 10);
    }
    for (size_t i = 0; i < sizeof decoded_in_steps / sizeof *decoded_in_steps; i += STEP(3)) {
        large_check(decoded_in_steps[i], (kerf_shape){2, {1300, 1000}}, 18);
        large_check(decoded_in_steps[i], (kerf_shape){2, {1, 300000}}, 8);
    }
}

/* --- progress and cancel ---------------------------------------------------------------------- */

static void phases_are_told(void **state)
{
    (void)state;
    static const struct {
        const char *codec, *phases;
    } want[] = {{"nvfp4:4/6", "measure encode "}, {"mxfp4", "encode "}, {"bf16", "encode "}};
    for (size_t i = 0; i < 3; i++) {
        kerf_codec c;
        assert_int_equal(kerf_codec_find(want[i].codec, &c, NULL), KERF_OK);
        encoded e = encoded_new(c.format, (kerf_shape){2, {64, 4096}});
        float *x = random_floats(64 * 4096, 3);
        listener l = {0};
        const kerf_job job = job_of(&l);
        const kerf_cspan src = {x, 64 * 4096 * 4};
        assert_int_equal(
            kerf_encode_matrix(&e.g, c.encoder, src, KERF_F32, e.plane, &one, &job, NULL), KERF_OK);
        assert_string_equal(l.phases, want[i].phases);
        assert_true(l.done == 64 * 4096 * 4 && l.total == l.done && l.events >= 4);
        free(x);
        encoded_free(&e);
    }
}

/* Cancels at each question in turn; returns how many questions there are. */
static long cancel_everywhere(kerf_codec c, const float *x, size_t rows, size_t cols)
{
    for (long at = 1;; at++) {
        encoded e = encoded_new(c.format, (kerf_shape){2, {rows, cols}});
        kerf_cspan planes[KERF_PLANES];
        const kerf_cspan src = {x, rows * cols * 4};
        listener l = {.yes_from = at};
        const kerf_job job = job_of(&l);
        kerf_error err = {0};
        kerf_status s =
            kerf_encode_matrix(&e.g, c.encoder, src, KERF_F32, e.plane, &one, &job, &err);
        if (s == KERF_OK) {
            const_planes(&e, planes);
            float *y = malloc(src.n);
            l = (listener){.yes_from = 1};
            assert_int_equal(
                kerf_decode_matrix(&e.g, planes, (kerf_span){y, src.n}, KERF_F32, &one, &job, &err),
                KERF_E_CANCELED);
            free(y);
            encoded_free(&e);
            return at - 1;
        }
        assert_int_equal(s, KERF_E_CANCELED);
        assert_int_equal(err.status, KERF_E_CANCELED);
        encoded_free(&e);
    }
}

static void cancel_is_asked_for(void **state)
{
    (void)state;
    kerf_codec c;
    float *x = random_floats(200 * 1000, 5);
    assert_int_equal(kerf_codec_find("nvfp4", &c, NULL), KERF_OK);
    assert_true(cancel_everywhere(c, x, 200, 1000) >= 6);
    assert_int_equal(kerf_codec_find("int4-g128:search", &c, NULL), KERF_OK);
    assert_true(cancel_everywhere(c, x, 200, 1000) >= 4);
    free(x);
}

/* A listener that raises the flag at the first event of encoding. */
static void raise_flag(void *ctx, const kerf_event *e)
{
    if (e->kind == KERF_EVENT_PROGRESS) *(int *)ctx = 1;
}

static void a_flag_cancels(void **state)
{
    (void)state;
    float *x = random_floats(200 * 1000, 5);
    const kerf_cspan src = {x, 200 * 1000 * 4};
    int flag = 0;
    kerf_job job = {.cancel = kerf_cancel_flag, .ctx = &flag};
    kerf_codec c;
    assert_int_equal(kerf_codec_find("nvfp4", &c, NULL), KERF_OK);
    encoded e = encoded_new(c.format, (kerf_shape){2, {200, 1000}});
    assert_int_equal(kerf_encode_matrix(&e.g, c.encoder, src, KERF_F32, e.plane, &one, &job, NULL),
                     KERF_OK);
    job.tell = raise_flag;
    assert_int_equal(kerf_encode_matrix(&e.g, c.encoder, src, KERF_F32, e.plane, &one, &job, NULL),
                     KERF_E_CANCELED);
    encoded_free(&e);
    free(x);
}

/* The slowest encoder there is; a busy machine may hold it up, so the best of some runs counts. */
static void cancel_is_soon(void **state)
{
    (void)state;
    const size_t rows = 2048, cols = 2048;
    kerf_codec c;
    double best_s = 1e9;
    float *x = random_floats(rows * cols, 7);
    assert_int_equal(kerf_codec_find("nvfp4:sweep", &c, NULL), KERF_OK);
    encoded e = encoded_new(c.format, (kerf_shape){2, {rows, cols}});
    for (int i = 0; i < 5 && best_s > MOST_CANCEL_S; i++) {
        listener l = {.yes_from = 6};
        const kerf_job job = job_of(&l);
        const kerf_exec two = {.threads = 2};
        assert_int_equal(kerf_encode_matrix(&e.g, c.encoder, (kerf_cspan){x, rows * cols * 4},
                                            KERF_F32, e.plane, &two, &job, NULL),
                         KERF_E_CANCELED);
        const double took_s = now_s() - l.yes_s;
        best_s = took_s < best_s ? took_s : best_s;
    }
    if (best_s > MOST_CANCEL_S) fail_msg("%.3f s after cancel", best_s);
    free(x);
    encoded_free(&e);
}

/* --- misuse ----------------------------------------------------------------------------------- */

typedef struct attempt {
    const kerf_encoder *encoder;
    size_t source_bytes;
    kerf_dtype type;
    int short_plane; /* whose span is one byte short; -1: none */
    const char *backend;
    kerf_status status;
    const char *text;
} attempt;

static void refuse(const attempt *a, const kerf_format *f, const float *x)
{
    encoded e = encoded_new(f, (kerf_shape){2, {4, 64}});
    kerf_span given[KERF_PLANES];
    kerf_error err = {0};
    const kerf_exec exec = {.backend = a->backend};
    memcpy(given, e.plane, sizeof given);
    if (a->short_plane >= 0) given[a->short_plane].n--;
    kerf_status s = kerf_encode_matrix(&e.g, a->encoder, (kerf_cspan){x, a->source_bytes}, a->type,
                                       given, &exec, NULL, &err);
    if (s != a->status || !strstr(err.text, a->text))
        fail_msg("%s \"%s\", expected %s \"%s\"", kerf_status_name(s), err.text,
                 kerf_status_name(a->status), a->text);
    for (int p = 0; p < KERF_PLANES; p++)
        for (size_t i = 0; i < e.plane[p].n; i++)
            assert_int_equal(((uint8_t *)e.plane[p].p)[i], POISON); /* nothing was written */
    encoded_free(&e);
}

static void misuse_writes_nothing(void **state)
{
    (void)state;
    const kerf_format *nvfp4 = kerf_format_find("nvfp4"), *int8 = kerf_format_find("int4-g32");
    const kerf_encoder *foreign = kerf_encoder_at(kerf_format_find("mxfp4"), 0);
    kerf_codec ct;
    float x[256] = {1};
    assert_int_equal(kerf_codec_find("int4-g32:ct", &ct, NULL), KERF_OK);
    const attempt all[] = {
        {NULL, 1023, KERF_F32, -1, NULL, KERF_E_BUFFER, "source has 1023 bytes, needs 1024"},
        {NULL, 1024, KERF_F32, KERF_PLANE_CODES, NULL, KERF_E_BUFFER, "plane of codes"},
        {NULL, 1024, KERF_F32, KERF_PLANE_SCALES, NULL, KERF_E_BUFFER, "plane of scales"},
        {NULL, 1024, KERF_F32, KERF_PLANE_SECOND, NULL, KERF_E_BUFFER, "second-level"},
        {NULL, 1024, KERF_F64, -1, NULL, KERF_E_NOSUP, "F64"},
        {NULL, 1024, KERF_F32, -1, "abacus", KERF_E_NOSUP, "abacus"},
        {foreign, 1024, KERF_F32, -1, NULL, KERF_E_ARG, ""},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) refuse(&all[i], nvfp4, x);
    const attempt typed = {ct.encoder,          1024, KERF_F32, -1, NULL, KERF_E_NOSUP,
                           "scales in the type"};
    refuse(&typed, int8, x);
}

static void decode_checks_its_arguments(void **state)
{
    (void)state;
    float x[256] = {1}, y[256];
    encoded e = encoded_new(kerf_format_find("nvfp4"), (kerf_shape){2, {4, 64}});
    kerf_cspan planes[KERF_PLANES];
    kerf_error err;
    assert_int_equal(kerf_encode_matrix(&e.g, NULL, (kerf_cspan){x, sizeof x}, KERF_F32, e.plane,
                                        NULL, NULL, &err),
                     KERF_OK);
    const_planes(&e, planes);
    assert_int_equal(
        kerf_decode_matrix(&e.g, planes, (kerf_span){y, sizeof y - 1}, KERF_F32, NULL, NULL, &err),
        KERF_E_BUFFER);
    assert_int_equal(
        kerf_decode_matrix(&e.g, planes, (kerf_span){y, sizeof y}, KERF_U8, NULL, NULL, &err),
        KERF_E_NOSUP);
    planes[KERF_PLANE_SCALES].n--;
    assert_int_equal(
        kerf_decode_matrix(&e.g, planes, (kerf_span){y, sizeof y}, KERF_F32, NULL, NULL, &err),
        KERF_E_BUFFER);
    assert_non_null(strstr(err.text, "scales"));
    encoded_free(&e);
}

/* The element is named by its place in the whole matrix, in whichever step it is found. */
static void not_a_number(void **state)
{
    (void)state;
    static const char *const codecs[] = {"nvfp4", "mxfp4", "nf4", "fp8-e4m3-128x128", "int8"};
    const size_t n = 300 * 1000, at = 299 * 1000 + 17;
    const kerf_exec zero = {.threads = 1, .nan = KERF_NAN_ZERO};
    float *x = random_floats(n, 11);
    for (size_t i = 0; i < sizeof codecs / sizeof *codecs; i++) {
        kerf_codec c;
        listener l = {0};
        const kerf_job job = job_of(&l);
        kerf_error err = {0};
        assert_int_equal(kerf_codec_find(codecs[i], &c, NULL), KERF_OK);
        encoded bad = encoded_new(c.format, (kerf_shape){2, {300, 1000}});
        encoded good = encoded_new(c.format, (kerf_shape){2, {300, 1000}});
        x[at] = NAN;
        assert_int_equal(kerf_encode_matrix(&bad.g, NULL, (kerf_cspan){x, n * 4}, KERF_F32,
                                            bad.plane, &one, &job, &err),
                         KERF_E_DATA);
        assert_true(err.offset == at);
        assert_int_equal(kerf_encode_matrix(&bad.g, NULL, (kerf_cspan){x, n * 4}, KERF_F32,
                                            bad.plane, &zero, NULL, &err),
                         KERF_OK);
        x[at] = 0;
        assert_int_equal(encode_all(&good, c.encoder, x, KERF_F32, &one, NULL), KERF_OK);
        assert_same_planes(&good, &bad, c.encoder->name);
        encoded_free(&bad);
        encoded_free(&good);
    }
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_follow_from_statistics), cmocka_unit_test(every_codec_and_shape),
        cmocka_unit_test(large_matrices_in_steps),       cmocka_unit_test(phases_are_told),
        cmocka_unit_test(cancel_is_asked_for),           cmocka_unit_test(cancel_is_soon),
        cmocka_unit_test(misuse_writes_nothing),         cmocka_unit_test(not_a_number),
        cmocka_unit_test(decode_checks_its_arguments),   cmocka_unit_test(a_flag_cancels),
    };
    return cmocka_run_group_tests_name("matrix", tests, NULL, NULL);
}
