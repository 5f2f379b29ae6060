/* test_forward_apart.c - a forward pass whose steps have memory of their own, as a GPU's have, here
 * on the processor: every array that a step works on must have been allocated there, every weight
 * held, and all numbers must be those of the plain steps, bit for bit. */
#include <jansson.h>
#include <math.h>

#include "apart_steps.h"
#include "format/device.h"
#include "forward_model.h"
#include "test_output.h"

static json_t *golden;

/* --- runs ------------------------------------------------------------------------------------- */

typedef struct seen {
    uint64_t hash;
    double square;
    float cache[2];
    double column[4096];
} seen;

static kerf_status take_input(void *ctx, const kerf_layer_weight *w, const float *x, uint64_t n,
                              kerf_error *err)
{
    seen *s = ctx;
    (void)err;
    for (uint64_t i = 0; i < n * w->cols; i++)
        s->column[i % w->cols] += (double)x[i] * (double)x[i];
    return KERF_OK;
}

static kerf_status give_sums(void *ctx, const kerf_layer_weight *w, uint64_t n, kerf_sums *to,
                             kerf_error *err)
{
    seen *s = ctx;
    (void)w, (void)n, (void)err;
    to->square = s->column;
    return KERF_OK;
}

/* About half of the weights are multiplied by coarser numbers, its neighbours with the same input
 * are not.
 */
static kerf_status replace(void *ctx, const kerf_layer_weight *w, const float *x, uint64_t n,
                           const float **y, kerf_error *err)
{
    static float other[48 * 1024];
    (void)ctx, (void)err;
    if (kerf_hash(w->name, strlen(w->name)) % 2) return KERF_OK;
    assert_true(n * w->cols <= sizeof other / sizeof *other);
    for (uint64_t i = 0; i < n * w->cols; i++) other[i] = roundf(x[i] * 16) / 16;
    *y = other;
    return KERF_OK;
}

static kerf_status take_logits(void *ctx, uint64_t row, uint64_t position, uint64_t n,
                               float *logits, kerf_error *err)
{
    seen *s = ctx;
    (void)row, (void)position, (void)err;
    s->hash = s->hash * 31 + kerf_hash(logits, n * 160 * sizeof *logits);
    return KERF_OK;
}

/* how: 0 the plain steps, 1 steps that are apart, 2 those with the state in their memory, 3 the
 * plain steps whose inputs nobody replaces. */
static void run(const char *folder, int how, const kerf_tokens *t, seen *s)
{
    kerf_checkpoint *c;
    kerf_decoder *d;
    kerf_error err = {0};
    const kf_steps apart = make_steps();
    const kerf_watch inputs = {.input = take_input, .replace = how == 3 ? NULL : replace, .ctx = s};
    const kerf_watch sums = {
        .sums = give_sums, .replace = replace, .ctx = s, .cache_largest = s->cache};
    *s = (seen){.hash = 1};
    must(kerf_checkpoint_open(folder, &c, &err), &err);
    must(kerf_decoder_open(c, NULL, &d, &err), &err);
    if (how == 1 || how == 2) d->stepper->steps = &apart;
    const uint64_t bytes = t->rows * t->length * d->info.hidden * sizeof(float);
    float *state, *here = malloc(bytes);
    assert_non_null(here);
    state = here;
    if (how == 2) must(allocate(d->stepper, bytes, &state, &err), &err);
    must(kerf_decoder_embed(d, t, state, &err), &err);
    for (uint64_t i = 0; i < d->info.layers; i++) {
        kerf_layer *l;
        must(kerf_decoder_layer_load(d, i, &l, &err), &err);
        must(kerf_layer_run(l, t, state, how == 2 ? &sums : &inputs, NULL, &err), &err);
        assert_false(pending);
        kerf_layer_free(l);
        if (how == 2) memcpy(here, state, bytes);
        s->hash = s->hash * 31 + kerf_hash(here, bytes);
    }
    for (size_t k = 0; k < 4096; k++) s->square += s->column[k];
    must(kerf_decoder_logits(d, t, state, NULL, take_logits, s, NULL, &err), &err);
    kerf_next_said out[64];
    const kerf_said said = {d, state};
    must(kerf_next_tokens(&said, &said, t, out, NULL, &err), &err);
    for (uint64_t i = 0; i < t->rows * (t->length - 1); i++)
        assert_true(out[i].agrees && out[i].kl == 0 && out[i].loss == out[i].other);
    s->hash = s->hash * 31 + kerf_hash(out, t->rows * (t->length - 1) * sizeof *out);
    if (how == 2) release(d->stepper, state);
    assert_true(theres == 0 && helds == kept);
    helds = kept = 0;
    free(here);
    kerf_decoder_close(d);
    kerf_checkpoint_close(c);
}

static void test_apart(void **state)
{
    size_t i;
    const json_t *one;
    uint32_t token[48];
    for (uint32_t k = 0; k < 48; k++) token[k] = (k * 37 + 11) % 160;
    const kerf_tokens t = {token, 3, 16};
    json_array_foreach(json_object_get(golden, "cases"), i, one)
    {
        static seen plain, apart, resident, as_it_is;
        kerf_error err = {0};
        const char *name = json_string_value(json_object_get(one, "case"));
        must(write_formula_model((const char *)*state, json_object_get(one, "config"),
                                 json_object_get(one, "tensors"), &err),
             &err);
        run(*state, 0, &t, &plain);
        run(*state, 1, &t, &apart);
        run(*state, 2, &t, &resident);
        run(*state, 3, &t, &as_it_is);
        if (plain.hash == as_it_is.hash) fail_msg("%s: what is replaced makes no difference", name);
        if (plain.hash != apart.hash || plain.hash != resident.hash)
            fail_msg("%s: other numbers where steps are apart", name);
        if (!(fabs(plain.square - resident.square) <= 1e-9 * plain.square) || plain.square <= 0 ||
            plain.square != apart.square || resident.cache[0] <= 0 || resident.cache[1] <= 0)
            fail_msg("%s: other sums where steps are apart", name);
    }
}

/* Of what fails no sums are left, for where they were to go may be gone by the next time. */
static kerf_status fail_logits(void *ctx, uint64_t row, uint64_t position, uint64_t n,
                               float *logits, kerf_error *err)
{
    (void)ctx, (void)row, (void)position, (void)n, (void)logits, (void)err;
    assert_true(pending);
    return KERF_E_IO;
}

static int is_pending(void *ctx)
{
    (void)ctx;
    return pending;
}

static void test_failed(void **state)
{
    kerf_checkpoint *c;
    kerf_decoder *d;
    kerf_layer *l;
    kerf_error err = {0};
    static seen s;
    const kf_steps apart = make_steps();
    const uint32_t token[2] = {1, 2};
    const kerf_tokens t = {token, 1, 2};
    const kerf_watch sums = {.sums = give_sums, .ctx = &s};
    const kerf_job job = {.cancel = is_pending};
    float hidden[2 * 4096] = {0};
    must(kerf_checkpoint_open((const char *)*state, &c, &err), &err);
    must(kerf_decoder_open(c, NULL, &d, &err), &err);
    d->stepper->steps = &apart;
    must(kerf_decoder_layer_load(d, 0, &l, &err), &err);
    assert_int_equal(kerf_layer_run(l, &t, hidden, &sums, &job, &err), KERF_E_CANCELED);
    assert_false(pending);
    assert_int_equal(kerf_decoder_logits(d, &t, hidden, &sums, fail_logits, NULL, NULL, &err),
                     KERF_E_IO);
    assert_false(pending);
    assert_true(theres == 0 && helds == kept);
    helds = kept = 0;
    kerf_layer_free(l);
    kerf_decoder_close(d);
    kerf_checkpoint_close(c);
}

static int ask(void *ctx)
{
    return ++*(int *)ctx > 2; /* the first time for the weights */
}

/* States of many tokens are given up in the middle. */
static void test_embed_cancel(void **state)
{
    enum { TOKENS = 1 << 17 };
    json_t *one = json_array_get(json_object_get(golden, "cases"), 0);
    kerf_checkpoint *c;
    kerf_decoder *d;
    kerf_error err = {0};
    int asked = 0;
    const kerf_job job = {.cancel = ask, .ctx = &asked};
    must(write_formula_model((const char *)*state, json_object_get(one, "config"),
                             json_object_get(one, "tensors"), &err),
         &err);
    must(kerf_checkpoint_open((const char *)*state, &c, &err), &err);
    must(kerf_decoder_open(c, &(kerf_exec){.threads = 1}, &d, &err), &err);
    uint32_t *token = calloc(TOKENS, sizeof *token);
    float *hidden = calloc(TOKENS * d->info.hidden, sizeof *hidden);
    assert_true(token && hidden && TOKENS * d->info.hidden > 1 << 22);
    const kerf_tokens t = {token, 1, TOKENS};
    token[TOKENS - 1] = 1;
    kerf_decoder_heed(d, &job);
    assert_int_equal(kerf_decoder_embed(d, &t, hidden, &err), KERF_E_CANCELED);
    assert_int_equal(asked, 3);
    kerf_decoder_heed(d, NULL);
    must(kerf_decoder_embed(d, &t, hidden, &err), &err);
    token[1] = (uint32_t)d->info.vocab;
    assert_int_equal(kerf_decoder_embed(d, &t, hidden, &err), KERF_E_DATA);
    assert_int_equal(err.offset, 1);
    token[1] = 0;
    const kerf_tokens many[] = {{token, UINT64_C(1) << 33, UINT64_C(1) << 31},
                                {token, UINT64_C(1) << 31, UINT64_C(1) << 31}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(kerf_decoder_embed(d, &many[i], hidden, &err), KERF_E_RANGE);
    const float *first = hidden, *last = hidden + (TOKENS - 1) * d->info.hidden;
    assert_memory_equal(first, first + d->info.hidden, d->info.hidden * sizeof *hidden);
    assert_true(memcmp(first, last, d->info.hidden * sizeof *hidden) != 0);
    free(hidden);
    free(token);
    kerf_decoder_close(d);
    kerf_checkpoint_close(c);
}

/* Two models of which one is apart cannot be compared, nor two on two devices; and what follows
 * must be in the vocabulary. */
static void test_mixed(void **state)
{
    kerf_checkpoint *c;
    kerf_decoder *d[2];
    kerf_error err = {0};
    const kf_steps apart = make_steps();
    static kerf_device devices[2];
    const uint32_t token[2] = {1, 2}, beyond[2] = {1, 160};
    const kerf_tokens t = {token, 1, 2}, unknown = {beyond, 1, 2};
    float hidden[2 * 4096] = {0};
    kerf_next_said out;
    must(kerf_checkpoint_open((const char *)*state, &c, &err), &err);
    for (int i = 0; i < 2; i++) must(kerf_decoder_open(c, NULL, &d[i], &err), &err);
    d[1]->stepper->steps = &apart;
    const kerf_said a = {d[0], hidden}, b = {d[1], hidden};
    assert_int_equal(kerf_next_tokens(&a, &b, &t, &out, NULL, &err), KERF_E_ARG);
    assert_non_null(strstr(err.text, "one on a GPU"));
    d[1]->stepper->steps = d[0]->stepper->steps;
    must(kerf_next_tokens(&a, &b, &t, &out, NULL, &err), &err);
    assert_int_equal(kerf_next_tokens(&a, &b, &unknown, &out, NULL, &err), KERF_E_DATA);
    assert_int_equal(err.offset, 1);
    for (int i = 0; i < 2; i++) d[i]->stepper->device = &devices[i];
    assert_int_equal(kerf_next_tokens(&a, &b, &t, &out, NULL, &err), KERF_E_ARG);
    assert_non_null(strstr(err.text, "two devices"));
    for (int i = 0; i < 2; i++) kerf_decoder_close(d[i]);
    kerf_checkpoint_close(c);
}

static int open_golden(void **state)
{
    golden = json_load_file(KERF_TEST_DATA "/forward/golden.json", 0, NULL);
    return golden ? make_test_folder(state) : -1;
}

static int close_golden(void **state)
{
    json_decref(golden);
    return remove_test_folder(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_apart), cmocka_unit_test(test_failed),
                                       cmocka_unit_test(test_embed_cancel),
                                       cmocka_unit_test(test_mixed)};
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
