/* test_quantize_api.c - the engine as a program uses it: plans, quantize, dequantize, convert and
 * inspect with events, and what is left of a call that was canceled, and how soon. */
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include <cmocka.h>

#include <kerf/inspect.h>
#include <kerf/quantize.h>

#include "test_folder.h"

enum { MATRIX_ROWS = 2048, MATRIX_COLS = 2048 };
/* The promise is of optimized code; sanitizers make it some ten times slower. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MOST_CANCEL_S 1.0
#endif
#endif
#ifndef MOST_CANCEL_S
#define MOST_CANCEL_S 0.1
#endif

static char model[4096], large[4096]; /* tiny-llama, and one matrix of several panels */

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(kerf_status s, const kerf_error *err)
{
    if (s != KERF_OK) fail_msg("%s: %s", kerf_status_name(s), err->text);
}

static char *path_in(const char *folder, const char *name, char out[4200])
{
    const int n = snprintf(out, 4200, "%s/%s", folder, name);
    assert_true(n > 0 && n < 4200);
    return out;
}

static void copy_file(const char *from, const char *to)
{
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    char block[1 << 16];
    assert_non_null(in);
    assert_non_null(out);
    for (size_t n; (n = fread(block, 1, sizeof block, in)) > 0;)
        assert_int_equal(fwrite(block, 1, n, out), n);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

static int is_there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

/* Entries of a folder, hidden ones too. */
static size_t count_entries(const char *folder)
{
    DIR *d = opendir(folder);
    size_t n = 0;
    assert_non_null(d);
    while (readdir(d)) n++;
    closedir(d);
    return n - 2;
}

static void assert_same_file(const char *a, const char *b)
{
    FILE *x = fopen(a, "rb"), *y = fopen(b, "rb");
    static char of_x[1 << 16], of_y[1 << 16];
    assert_non_null(x);
    assert_non_null(y);
    for (size_t n = 1; n > 0;) {
        n = fread(of_x, 1, sizeof of_x, x);
        assert_int_equal(fread(of_y, 1, sizeof of_y, y), n);
        assert_memory_equal(of_x, of_y, n);
    }
    fclose(x);
    fclose(y);
}

static void write_large(const char *path)
{
    const kerf_entry entry = {"a.weight", KERF_F32, {2, {MATRIX_ROWS, MATRIX_COLS}}, 0};
    kerf_writer *w = NULL;
    kerf_error err;
    float row[MATRIX_COLS];
    uint32_t x = 1;
    must(kerf_writer_create(path, &entry, 1, NULL, &w, &err), &err);
    for (uint64_t r = 0; r < MATRIX_ROWS; r++) {
        for (size_t i = 0; i < MATRIX_COLS; i++) {
            x = x * 1664525u + 1013904223u;
            row[i] = (float)(int32_t)x * 0x1p-36f;
        }
        must(kerf_writer_write(w, 0, r * sizeof row, row, sizeof row, &err), &err);
    }
    must(kerf_writer_commit(w, &err), &err);
}

static int set_up(void **state)
{
    static const char *const files[] = {"config.json", "model.safetensors"};
    char from[4200], to[4200];
    if (make_test_folder(state) != 0) return -1;
    snprintf(model, sizeof model, "%s/model", (char *)*state);
    snprintf(large, sizeof large, "%s/large.safetensors", (char *)*state);
    if (mkdir(model, 0777) != 0) return -1;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        copy_file(path_in(KERF_TEST_DATA "/tiny-llama", files[i], from),
                  path_in(model, files[i], to));
    write_large(large);
    return 0;
}

/* A folder of its own for the outputs of a test. */
static const char *folder_of(void **state, const char *name)
{
    static char path[4200];
    mkdir(path_in(*state, name, path), 0777);
    return path;
}

static kerf_checkpoint *open_checkpoint(const char *path)
{
    kerf_checkpoint *c = NULL;
    kerf_error err;
    must(kerf_checkpoint_open(path, &c, &err), &err);
    return c;
}

static kerf_codec codec_of(const char *name)
{
    kerf_codec codec;
    kerf_error err;
    must(kerf_codec_find(name, &codec, &err), &err);
    return codec;
}

static kerf_plan *plan_for(const kerf_checkpoint *c, const char *codec, const kerf_output *to)
{
    kerf_plan *p = NULL;
    kerf_error err;
    must(kerf_plan_make(c, NULL, NULL, 0, codec_of(codec), to, &p, &err), &err);
    return p;
}

/* --- plans ------------------------------------------------------------------------------------ */

static const kerf_decision *decision_for(const kerf_plan *p, const char *name)
{
    const kerf_decision *d;
    for (size_t i = 0; (d = kerf_plan_at(p, i)) != NULL; i++)
        if (strcmp(d->weight->name, name) == 0) return d;
    fail_msg("no decision for %s", name);
    return NULL;
}

static void test_decisions(void **state)
{
    (void)state;
    static const char *const keep[] = {"*layers.1.*"};
    const kerf_select select = {.keep = keep, .keeps = 1};
    const kerf_rule rules[] = {{"*o_proj*", NULL, codec_of("int8")},
                               {"*layers.0.self_attn.o_proj*", "my rule", {NULL, NULL}},
                               {"*embed_tokens*", "embeddings too", codec_of("nf4")}};
    kerf_checkpoint *c = open_checkpoint(model);
    kerf_plan *p = NULL;
    kerf_error err;
    kerf_totals t;
    must(kerf_plan_make(c, &select, rules, 3, codec_of("nvfp4:4/6"), &(kerf_output){0}, &p, &err),
         &err);
    const kerf_decision *d = decision_for(p, "model.layers.0.mlp.up_proj.weight");
    assert_string_equal(d->codec.encoder->name, "4/6");
    assert_string_equal(d->reason, "");
    assert_true(d->geometry.bytes > 0);
    d = decision_for(p, "model.layers.0.self_attn.o_proj.weight");
    assert_null(d->codec.format);
    assert_string_equal(d->reason, "my rule");
    d = decision_for(p, "model.layers.1.self_attn.o_proj.weight"); /* rules overrule */
    assert_string_equal(d->codec.format->name, "int8");
    assert_string_equal(d->reason, "*o_proj*");
    d = decision_for(p, "model.layers.1.mlp.up_proj.weight");
    assert_null(d->codec.format);
    d = decision_for(p, "model.embed_tokens.weight");
    assert_string_equal(d->codec.format->name, "nf4");
    d = decision_for(p, "model.layers.0.input_layernorm.weight");
    assert_string_equal(d->reason, "norm");
    kerf_plan_totals(p, &t);
    assert_int_equal(t.weights, kerf_weights_count(kerf_checkpoint_weights(c)));
    assert_true(t.quantized > 0 && t.quantized < t.weights);
    assert_true(t.bytes_out < t.bytes_in);
    assert_null(kerf_plan_at(p, t.weights));
    assert_ptr_equal(kerf_plan_layout(p), kerf_layout_at(0));
    assert_int_equal(kerf_quantize(p, NULL, NULL, NULL, &err), KERF_E_ARG); /* has no path */
    kerf_plan_free(p);
    kerf_checkpoint_close(c);
}

static void refuses(const kerf_checkpoint *c, const kerf_select *s, const kerf_rule *rules,
                    size_t count, const kerf_output *to, kerf_status wanted, const char *text)
{
    kerf_plan *p = NULL;
    kerf_error err = {0};
    assert_int_equal(kerf_plan_make(c, s, rules, count, codec_of("nvfp4"), to, &p, &err), wanted);
    assert_null(p);
    if (!strstr(err.text, text)) fail_msg("\"%s\" does not say \"%s\"", err.text, text);
}

static void test_refused_plans(void **state)
{
    (void)state;
    static const char *const nothing[] = {"*nothing*"}, *const up[] = {"*up_proj*"},
                             *const all[] = {"*"};
    const kerf_output usual = {0}, ct = {.layout = kerf_layout_find("compressed-tensors")},
                      gguf = {.path = "x", .layout = kerf_layout_find("gguf")};
    const kerf_rule no_match = {"*nothing*", "rule 1", codec_of("nf4")};
    kerf_checkpoint *c = open_checkpoint(model);
    refuses(c, &(kerf_select){.keep = nothing, .keeps = 1}, NULL, 0, &usual, KERF_E_ARG,
            "*nothing* matches no tensor");
    refuses(c, NULL, &no_match, 1, &usual, KERF_E_ARG, "rule 1 matches no tensor");
    refuses(c, &(kerf_select){.keep = all, .keeps = 1}, NULL, 0, &usual, KERF_E_ARG,
            "no tensor is left");
    refuses(c, &(kerf_select){.keep = up, .keeps = 1}, NULL, 0, &ct, KERF_E_ARG,
            "are one matrix to the loaders");
    refuses(c, NULL, NULL, 0, &gguf, KERF_E_ARG, "layout gguf");
    kerf_checkpoint_close(c);
}

/* --- events ----------------------------------------------------------------------------------- */

/* What a call told, and when it is canceled. */
typedef struct listener {
    pthread_mutex_t lock;
    char phases[200];
    size_t items, events;
    uint64_t done, total, resumed;
    int inside; /* tell was entered by two at once */
    int twice;
    long asked, yes_from; /* cancel says yes from this question on; 0: never */
    const char *yes_in;   /* ... or in this phase; NULL: none               */
    int says_yes;
    double yes_s; /* when it said so first */
} listener;

static void tell(void *ctx, const kerf_event *e)
{
    listener *l = ctx;
    if (__atomic_fetch_add(&l->inside, 1, __ATOMIC_SEQ_CST)) l->twice = 1;
    l->events++;
    if (e->kind == KERF_EVENT_PHASE) {
        snprintf(l->phases + strlen(l->phases), sizeof l->phases - strlen(l->phases), "[%s]",
                 e->what);
        if (l->yes_in && strcmp(l->yes_in, e->what) == 0)
            __atomic_store_n(&l->says_yes, 1, __ATOMIC_SEQ_CST);
    } else if (e->kind == KERF_EVENT_ITEM) {
        l->items++;
    } else if (e->kind == KERF_EVENT_RESUME) {
        l->resumed = e->done;
    }
    if (e->kind != KERF_EVENT_RESUME) {
        l->done = e->done;
        l->total = e->total;
    }
    __atomic_fetch_sub(&l->inside, 1, __ATOMIC_SEQ_CST);
}

static int cancel(void *ctx)
{
    listener *l = ctx;
    pthread_mutex_lock(&l->lock);
    l->asked++;
    if (l->yes_from && l->asked >= l->yes_from) l->says_yes = 1;
    const int yes = __atomic_load_n(&l->says_yes, __ATOMIC_SEQ_CST);
    if (yes && l->yes_s == 0) l->yes_s = now_s();
    pthread_mutex_unlock(&l->lock);
    return yes;
}

static kerf_job job_of(listener *l)
{
    *l = (listener){.yes_from = l->yes_from, .yes_in = l->yes_in};
    pthread_mutex_init(&l->lock, NULL);
    return (kerf_job){.tell = tell, .cancel = cancel, .ctx = l};
}

static void test_quantize(void **state)
{
    char out[4200], other[4200], file[4200], same[4200];
    const char *folder = folder_of(state, "quantize");
    kerf_checkpoint *c = open_checkpoint(model);
    kerf_plan *p = plan_for(c, "nvfp4:4/6", &(kerf_output){.path = path_in(folder, "out", out)});
    kerf_totals t;
    kerf_result r;
    kerf_error err;
    listener l = {0};
    const kerf_job job = job_of(&l);
    kerf_plan_totals(p, &t);
    must(kerf_quantize(p, NULL, &job, &r, &err), &err);
    assert_string_equal(l.phases, "[writing][comparing what was written]");
    assert_int_equal(l.items, t.weights);
    assert_true(l.asked >= (long)t.weights);
    assert_true(l.done > 0 && l.done == l.total);
    assert_false(l.twice);
    assert_int_equal(r.changed, t.quantized);
    assert_int_equal(r.kept, t.weights - t.quantized);
    assert_int_equal(r.bytes_in, t.bytes_in);
    assert_int_equal(r.bytes_out, t.bytes_out);
    assert_true(r.seconds > 0);
    assert_int_equal(count_entries(folder), 1);
    assert_int_equal(kerf_quantize(p, NULL, NULL, NULL, &err), KERF_E_EXISTS);
    kerf_plan_free(p);

    kerf_checkpoint *written = open_checkpoint(out);
    assert_int_equal(kerf_checkpoint_quantized(written), t.quantized);
    kerf_checkpoint_close(written);

    /* the same bytes from a team of several members */
    const kerf_exec member[3] = {{.threads = 1}, {.threads = 2}, {.threads = 1}};
    const kerf_team team = {member, 3};
    p = plan_for(c, "nvfp4:4/6", &(kerf_output){.path = path_in(folder, "other", other)});
    must(kerf_quantize(p, &team, NULL, NULL, &err), &err);
    assert_same_file(path_in(out, "model.safetensors", file),
                     path_in(other, "model.safetensors", same));
    kerf_plan_free(p);
    kerf_checkpoint_close(c);
}

/* --- cancel ------------------------------------------------------------------------------------
 */

/* One of the calls that write; the output is a name in a folder. */
typedef struct call {
    const char *name;
    const char *(*source)(void **state); /* path */
    const char *codec, *output, *layout;
    size_t members;
} call;

static const char *source_large(void **state)
{
    (void)state;
    return large;
}

static const char *source_model(void **state)
{
    (void)state;
    return model;
}

/* A checkpoint that is quantized already; made when it is asked for first. */
static const char *quantized(void **state, const char *from, const char *name, const char *layout)
{
    static char path[4200];
    kerf_error err;
    if (is_there(path_in(*state, name, path))) return path;
    kerf_checkpoint *c = open_checkpoint(from);
    kerf_plan *p =
        plan_for(c, "nvfp4",
                 &(kerf_output){.path = path, .layout = layout ? kerf_layout_find(layout) : NULL});
    must(kerf_quantize(p, NULL, NULL, NULL, &err), &err);
    kerf_plan_free(p);
    kerf_checkpoint_close(c);
    return path;
}

static const char *quantized_large(void **state)
{
    return quantized(state, large, "large-nvfp4.safetensors", NULL);
}

static const char *quantized_model(void **state)
{
    return quantized(state, model, "model-modelopt", "modelopt");
}

static kerf_status run_call(const call *k, const kerf_checkpoint *c, const char *path, int resume,
                            const kerf_job *job, kerf_error *err)
{
    static const kerf_exec member[3] = {{.threads = 2}, {.threads = 1}, {.threads = 1}};
    const kerf_team team = {member, k->members};
    const kerf_output to = {
        .path = path, .layout = k->layout ? kerf_layout_find(k->layout) : NULL, .resume = resume};
    if (strcmp(k->name, "dequantize") == 0)
        return kerf_dequantize(c, KERF_DTYPE_NONE, &to, &team, job, NULL, err);
    if (strcmp(k->name, "convert") == 0) return kerf_convert(c, &to, job, NULL, NULL, err);
    kerf_plan *p = plan_for(c, k->codec, &to);
    kerf_status s = kerf_quantize(p, &team, job, NULL, err);
    kerf_plan_free(p);
    return s;
}

/* Runs a call that is canceled, and returns how long it went on after that. */
static double cancel_once(const call *k, const kerf_checkpoint *c, const char *path, listener *l)
{
    kerf_error err = {0};
    const kerf_job job = job_of(l);
    kerf_status s = run_call(k, c, path, 0, &job, &err);
    const double took_s = now_s() - l->yes_s;
    if (s != KERF_E_CANCELED)
        fail_msg("%s to %s, canceled at question %ld%s: %s %s", k->name, k->output, l->yes_from,
                 l->yes_in ? l->yes_in : "", kerf_status_name(s), err.text);
    assert_int_equal(err.status, KERF_E_CANCELED);
    assert_false(is_there(path));
    return took_s;
}

/* A busy machine may hold up a thread for longer than the call does: the best of some runs counts.
 */
static void cancel_at(const call *k, const kerf_checkpoint *c, const char *folder, long question,
                      const char *phase)
{
    char path[4200];
    listener l = {.yes_from = question, .yes_in = phase};
    double best_s = 1e9;
    for (int i = 0; i < 5 && best_s > MOST_CANCEL_S; i++) {
        const double took_s = cancel_once(k, c, path_in(folder, k->output, path), &l);
        assert_int_equal(count_entries(folder), 0);
        if (took_s < best_s) best_s = took_s;
    }
#ifndef KERF_EMULATED
    if (best_s > MOST_CANCEL_S)
        fail_msg("%s to %s went on for %.3f s after it was canceled", k->name, k->output, best_s);
#endif
}

static void test_cancel(void **state)
{
    static const call calls[] = {
        {"quantize", source_model, "nvfp4:4/6", "out", NULL, 0},
        {"quantize", source_model, "int4-g128:search", "out", "compressed-tensors", 3},
        {"quantize", source_large, "int2-g16-asym:search", "out.safetensors", NULL, 1},
        {"quantize", source_large, "nvfp4:sweep", "out.safetensors.zst", NULL, 3},
        {"dequantize", quantized_model, NULL, "out", NULL, 3},
        {"dequantize", quantized_large, NULL, "out.safetensors", NULL, 1},
        {"convert", quantized_model, NULL, "out", "compressed-tensors", 0},
        {"convert", quantized_large, NULL, "out.safetensors", "modelopt", 0},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const call *k = &calls[i];
        char path[4200], name[40];
        snprintf(name, sizeof name, "cancel-%zu", i);
        kerf_checkpoint *c = open_checkpoint(k->source(state));
        const char *folder = folder_of(state, name);
        listener l = {0}; /* how often is it asked? */
        kerf_error err;
        const kerf_job job = job_of(&l);
        must(run_call(k, c, path_in(folder, k->output, path), 0, &job, &err), &err);
        const long asked = l.asked;
        char command[4400];
        snprintf(command, sizeof command, "rm -r '%s'", path);
        assert_int_equal(system(command), 0);
        assert_true(asked >= 3);
        cancel_at(k, c, folder, 1, NULL);
        cancel_at(k, c, folder, 2, NULL);
        cancel_at(k, c, folder, asked / 3 + 1, NULL);
        cancel_at(k, c, folder, asked * 2 / 3 + 1, NULL);
        cancel_at(k, c, folder, 0, "comparing what was written");
        kerf_checkpoint_close(c);
    }
}

/* With `resume` the next run goes on with what a canceled one has finished. */
static void test_cancel_and_resume(void **state)
{
    static const call k = {"quantize", source_model, "int2-g16:search", "out", NULL, 1};
    char path[4200], whole[4200], a[4200], b[4200];
    const char *folder = folder_of(state, "resume");
    kerf_checkpoint *c = open_checkpoint(model);
    listener l = {.yes_from = 20}; /* also after a journal was begun, which takes 20 ms */
    kerf_error err;
    kerf_job job = job_of(&l);
    assert_int_equal(run_call(&k, c, path_in(folder, "out", path), 1, &job, &err), KERF_E_CANCELED);
    assert_false(is_there(path));
    assert_int_equal(count_entries(folder), 1);
    l.yes_from = 1; /* while it compares what is there */
    job = job_of(&l);
    assert_int_equal(run_call(&k, c, path, 1, &job, &err), KERF_E_CANCELED);
    assert_int_equal(count_entries(folder), 1);
    l.yes_from = 0;
    job = job_of(&l);
    must(run_call(&k, c, path, 1, &job, &err), &err);
    assert_true(l.resumed > 0);
    assert_int_equal(count_entries(folder), 1);
    must(run_call(&k, c, path_in(folder, "whole", whole), 0, NULL, &err), &err);
    assert_same_file(path_in(path, "model.safetensors", a), path_in(whole, "model.safetensors", b));
    kerf_checkpoint_close(c);
}

/* --- dequantize, convert, inspect ---------------------------------------------------------------
 */

static void test_dequantize(void **state)
{
    char out[4200];
    const char *folder = folder_of(state, "dequantize");
    kerf_checkpoint *c = open_checkpoint(quantized_model(state)), *dense = open_checkpoint(model);
    kerf_result r;
    kerf_error err;
    const kerf_output to = {.path = path_in(folder, "out", out)};
    must(kerf_dequantize(c, KERF_F32, &to, NULL, NULL, &r, &err), &err);
    assert_int_equal(r.changed, kerf_checkpoint_quantized(c));
    kerf_checkpoint *written = open_checkpoint(out);
    const kerf_weights *all = kerf_checkpoint_weights(written);
    assert_int_equal(kerf_checkpoint_quantized(written), 0);
    const kerf_weight *w = kerf_weights_find(all, "model.layers.0.mlp.up_proj.weight");
    assert_int_equal(w->dtype, KERF_F32);
    w = kerf_weights_find(all, "model.embed_tokens.weight");
    assert_int_equal(w->dtype, KERF_BF16);
    kerf_checkpoint_close(written);
    assert_int_equal(kerf_dequantize(dense, KERF_F32, &to, NULL, NULL, NULL, &err), KERF_E_NOSUP);
    assert_int_equal(kerf_dequantize(c, KERF_U8, &to, NULL, NULL, NULL, &err), KERF_E_ARG);
    kerf_checkpoint_close(dense);
    kerf_checkpoint_close(c);
}

static void convert(const char *from, const char *to, const char *layout, kerf_result *r,
                    kerf_losses *lost)
{
    kerf_checkpoint *c = open_checkpoint(from);
    const kerf_output out = {.path = to, .layout = kerf_layout_find(layout)};
    kerf_error err;
    must(kerf_convert(c, &out, NULL, r, lost, &err), &err);
    kerf_checkpoint_close(c);
}

static void test_convert(void **state)
{
    char out[4200], back[4200], a[4200], b[4200];
    const char *folder = folder_of(state, "convert"), *modelopt = quantized_model(state);
    kerf_checkpoint *c = open_checkpoint(modelopt);
    kerf_result r;
    kerf_losses lost;
    kerf_error err;
    convert(modelopt, path_in(folder, "out", out), "kerf", &r, &lost);
    assert_int_equal(r.changed, kerf_checkpoint_quantized(c));
    assert_memory_equal(&lost, &(kerf_losses){0}, sizeof lost);
    convert(out, path_in(folder, "back", back), "modelopt", NULL, NULL);
    assert_same_file(path_in(modelopt, "model.safetensors", a),
                     path_in(back, "model.safetensors", b));
    convert(modelopt, path_in(folder, "reciprocals", out), "compressed-tensors", &r, &lost);
    assert_true(lost.rounded > 0);
    const kerf_output bnb = {.path = path_in(folder, "none", out),
                             .layout = kerf_layout_find("bitsandbytes")};
    assert_int_equal(kerf_convert(c, &bnb, NULL, NULL, NULL, &err), KERF_E_NOSUP);
    assert_false(is_there(out));
    kerf_checkpoint_close(c);
}

typedef struct found {
    size_t errors, notes;
    char first[200];
} found;

static void add_finding(void *ctx, const kerf_finding *f)
{
    found *all = ctx;
    if (f->severity == KERF_ERROR)
        all->errors++;
    else
        all->notes++;
    if (!all->first[0]) snprintf(all->first, sizeof all->first, "%s: %s", f->tensor, f->text);
}

static void test_inspect(void **state)
{
    char path[4200], from[4200], to[4200];
    const char *sound = quantized_model(state);
    kerf_checkpoint *c = open_checkpoint(sound);
    kerf_error err;
    found all = {0};
    listener l = {0};
    kerf_job job = job_of(&l);
    must(kerf_inspect(c, add_finding, &all, &job, &err), &err);
    assert_int_equal(all.errors, 0);
    assert_true(l.asked > 0 && l.done == l.total);
    l.yes_from = 5;
    job = job_of(&l);
    assert_int_equal(kerf_inspect(c, add_finding, &all, &job, &err), KERF_E_CANCELED);
    kerf_checkpoint_close(c);

    /* a config.json that does not speak of the codes */
    mkdir(path_in(*state, "plain-config", path), 0777);
    copy_file(path_in(sound, "model.safetensors", from), path_in(path, "model.safetensors", to));
    copy_file(path_in(model, "config.json", from), path_in(path, "config.json", to));
    c = open_checkpoint(path);
    all = (found){0};
    must(kerf_inspect(c, add_finding, &all, NULL, &err), &err);
    assert_int_equal(all.errors, 1);
    assert_non_null(strstr(all.first, "is in layout modelopt, but config.json names none"));
    kerf_checkpoint_close(c);
}

/* --- layers that are merged ---------------------------------------------------------------------
 */

static void test_fused(void **state)
{
    (void)state;
    const kerf_weight *member[KERF_FUSED_MOST];
    kerf_checkpoint *c = open_checkpoint(model);
    const kerf_weights *all = kerf_checkpoint_weights(c);
    const kerf_weight *k = kerf_weights_find(all, "model.layers.1.self_attn.k_proj.weight");
    assert_int_equal(kerf_fused_group(all, k, member), 3);
    assert_string_equal(member[0]->name, "model.layers.1.self_attn.q_proj.weight");
    assert_ptr_equal(member[1], k);
    const kerf_weight *down = kerf_weights_find(all, "model.layers.1.mlp.down_proj.weight");
    assert_int_equal(kerf_fused_group(all, down, member), 0);
    assert_string_equal(kerf_fused_name("up_proj"), "gate_up_proj");
    assert_string_equal(kerf_fused_name("kv_a_proj_with_mqa"), "qkv_a_proj");
    assert_null(kerf_fused_name("down_proj"));
    assert_null(kerf_fused_name("up_pro"));
    kerf_checkpoint_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decisions),
        cmocka_unit_test(test_refused_plans),
        cmocka_unit_test(test_quantize),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_cancel_and_resume),
        cmocka_unit_test(test_dequantize),
        cmocka_unit_test(test_convert),
        cmocka_unit_test(test_inspect),
        cmocka_unit_test(test_fused),
    };
    return cmocka_run_group_tests(tests, set_up, remove_test_folder);
}
