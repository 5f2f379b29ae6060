/* quantize_case.h - what tests of the engine share: checkpoints in a folder, plans, and a listener
 * that can cancel. Each test program has a folder with tiny-llama and one larger matrix. */
#ifndef KERF_TESTS_QUANTIZE_CASE_H
#define KERF_TESTS_QUANTIZE_CASE_H

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

static char model[4096], large[4096]; /* tiny-llama, and one matrix of several panels */

static inline double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void must(kerf_status s, const kerf_error *err)
{
    if (s != KERF_OK) fail_msg("%s: %s", kerf_status_name(s), err->text);
}

static inline char *path_in(const char *folder, const char *name, char out[4200])
{
    const int n = snprintf(out, 4200, "%s/%s", folder, name);
    assert_true(n > 0 && n < 4200);
    return out;
}

static inline void copy_file(const char *from, const char *to)
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

static inline int is_there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

/* Entries of a folder, hidden ones too. */
static inline size_t count_entries(const char *folder)
{
    DIR *d = opendir(folder);
    size_t n = 0;
    assert_non_null(d);
    while (readdir(d)) n++;
    closedir(d);
    return n - 2;
}

static inline void assert_same_file(const char *a, const char *b)
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

static inline void write_large(const char *path)
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

static inline int set_up(void **state)
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
static inline const char *folder_of(void **state, const char *name)
{
    static char path[4200];
    mkdir(path_in(*state, name, path), 0777);
    return path;
}

static inline kerf_checkpoint *open_checkpoint(const char *path)
{
    kerf_checkpoint *c = NULL;
    kerf_error err;
    must(kerf_checkpoint_open(path, &c, &err), &err);
    return c;
}

static inline kerf_codec codec_of(const char *name)
{
    kerf_codec codec;
    kerf_error err;
    must(kerf_codec_find(name, &codec, &err), &err);
    return codec;
}

static inline kerf_plan *plan_for(const kerf_checkpoint *c, const char *codec,
                                  const kerf_output *to)
{
    kerf_plan *p = NULL;
    kerf_error err;
    must(kerf_plan_make(c, NULL, NULL, 0, codec_of(codec), to, &p, &err), &err);
    return p;
}

/* --- events --- */

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

static inline void tell(void *ctx, const kerf_event *e)
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

static inline int cancel(void *ctx)
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

static inline kerf_job job_of(listener *l)
{
    *l = (listener){.yes_from = l->yes_from, .yes_in = l->yes_in};
    pthread_mutex_init(&l->lock, NULL);
    return (kerf_job){.tell = tell, .cancel = cancel, .ctx = l};
}

/* --- a source that is quantized already --- */

/* A checkpoint that is quantized already; made when it is asked for first. */
static inline const char *quantized(void **state, const char *from, const char *name,
                                    const char *layout)
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

static inline const char *quantized_model(void **state)
{
    return quantized(state, model, "model-modelopt", "modelopt");
}

#endif
