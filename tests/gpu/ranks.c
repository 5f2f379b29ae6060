/* ranks.c - several GPUs of a machine do what one does, byte for byte: calibrations of tiny models
 * of every family and of a real one, with Gram matrices and alpha. A GPU that is named twice is two
 * devices, so that one is enough; where there are several, they are tried, too. Then what fails:
 * one GPU is full, a job is canceled. And the codecs from memory that the caller has page-locked.
 *
 *   gpu_ranks [quick|few|full|fails]     few: one small model, for sanitizers
 *                                        fails: no tiny models
 *
 * Without a GPU or without cuBLASLt the exit status is 77. */
#define PROGRAM "gpu_ranks"
#include "base/base.h"
#include "forward_model.h"
#include "or_die.h"
#include "unit/test_folder.h"

#include <kerf/calibrate.h>
#include <kerf/cuda.h>
#include <kerf/tokens.h>

enum { DEVICES_MOST = 4 };

static char *folder;
static int failures, checks, gpus;

static void check(int good, const char *name, const char *what)
{
    checks++;
    if (good) return;
    failures++;
    printf("FAILED: %s: %s: %s\n", name, what, error.text);
}

static const char *in_folder(const char *name)
{
    static char path[4][4200];
    static int turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

/* --- devices --------------------------------------------------------------------------------- */

typedef struct devices {
    kerf_exec member[DEVICES_MOST];
    kerf_team team;
    char names[32];
} devices;

/* "0,0": as --device cuda:0,0 has them. */
static devices *open_devices(const char *names)
{
    devices *d = calloc(1, sizeof *d);
    if (!d) die("devices", "no memory");
    snprintf(d->names, sizeof d->names, "%s", names);
    for (const char *p = names; p; p = strchr(p, ',')) {
        p += *p == ',';
        need(kerf_device_open(atoi(p), &d->member[d->team.count++].device, &error), names);
    }
    d->team.member = d->member;
    return d;
}

static void close_devices(devices *d)
{
    for (size_t i = 0; i < d->team.count; i++) kerf_device_close(d->member[i].device);
    free(d);
}

/* --- calibrations ---------------------------------------------------------------------------- */

typedef struct calling {
    kerf_tokens tokens;
    kerf_alpha_by alpha;
    int after, asked; /* canceled at the question behind so many; 0: never */
    double said;      /* when                                              */
} calling;

static int stop_later(void *ctx)
{
    calling *c = ctx;
    if (!c->after || __atomic_add_fetch(&c->asked, 1, __ATOMIC_RELAXED) <= c->after) return 0;
    if (c->said == 0) c->said = kf_now_s();
    return 1;
}

static kerf_status calibrate(const char *model, calling *c, const devices *d, const char *out)
{
    kerf_checkpoint *file;
    const kerf_job job = {.cancel = stop_later, .ctx = c};
    const kerf_calibrate_request r = {.tokens = c->tokens,
                                      .gram = 1,
                                      .alpha = c->alpha,
                                      .draws = 2,
                                      .path = out,
                                      .team = &d->team};
    need(kerf_checkpoint_open(model, &file, &error), model);
    const kerf_status s = kerf_calibrate(file, &r, NULL, &job, &error);
    kerf_checkpoint_close(file);
    return s;
}

static int same_folders(const char *a, const char *b)
{
    char line[9000];
    snprintf(line, sizeof line, "diff -r '%s' '%s' && rm -rf '%s'", a, b, b);
    return system(line) == 0;
}

static void remove_folder(const char *path)
{
    char line[9000];
    snprintf(line, sizeof line, "rm -rf '%s'", path);
    if (system(line) != 0) die(path, "cannot be removed");
}

/* All that share are compared with GPU 0 alone. */
static void compare(const char *name, const char *model, calling c, int with_three)
{
    const char *const shared[] = {"0,0", with_three ? "0,0,0" : NULL, gpus > 1 ? "0,1" : NULL};
    devices *one = open_devices("0");
    const char *alone = in_folder("alone"), *together = in_folder("together");
    const double start = kf_now_s();
    need(calibrate(model, &c, one, alone), name);
    close_devices(one);
    const double took = kf_now_s() - start;
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        if (!shared[i]) continue;
        devices *d = open_devices(shared[i]);
        const double begin = kf_now_s();
        check(calibrate(model, &c, d, together) == KERF_OK, name, shared[i]);
        check(same_folders(alone, together), name, "other bytes than those of one GPU");
        printf("%-20s cuda:%-6s %.2f s, alone %.2f s\n", name, shared[i], kf_now_s() - begin, took);
        close_devices(d);
    }
    remove_folder(alone);
    remove_folder(together);
}

static uint32_t token[1 << 16];

/* 400 rows are two panels and a part of one. */
static void compare_families(const json_t *golden, int few)
{
    const char *model = folder;
    const json_t *cases = json_object_get(golden, "cases");
    formula_tokens(golden, token, UINT64_C(400) * 48);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i);
        const char *name = json_string_value(json_object_get(one, "case"));
        if (few && strcmp(name, "mixtral") != 0) continue;
        model = in_folder("model");
        char line[4300];
        snprintf(line, sizeof line, "mkdir -p '%s'", model);
        if (system(line) != 0) die(model, "cannot be made");
        need(write_formula_model(model, json_object_get(one, "config"),
                                 json_object_get(one, "tensors"), &error),
             name);
        const int with_alpha = !strcmp(name, "llama2") || !strcmp(name, "qwen3-moe");
        compare(name, model,
                (calling){.tokens = {token, 400, 48},
                          .alpha = with_alpha ? KERF_ALPHA_BY_KL : KERF_ALPHA_BY_NONE},
                !few);
    }
}

/* --- what fails ------------------------------------------------------------------------------ */

static void check_nothing(const char *name, const char *path)
{
    check(access(path, F_OK) != 0, name, "something was left behind");
}

/* Memory of the last of the GPUs is taken, all but some. */
static void fill_gpu(const char *model, const kerf_tokens *t)
{
    calling c = {.tokens = *t, .alpha = KERF_ALPHA_BY_NONE};
    const int full = gpus - 1;
    const char *out = in_folder("full");
    int refused = 0;
    for (int mib = 8; mib <= 1024; mib *= 2) {
        size_t free_bytes, all;
        void *held = NULL;
        devices *d = open_devices(gpus > 1 ? "0,1" : "0,0");
        need_cuda(cudaSetDevice(full), "GPU");
        need_cuda(cudaMemGetInfo(&free_bytes, &all), "memory");
        for (int more = mib; !held && free_bytes > (size_t)more << 20; more += 16)
            if (cudaMalloc(&held, free_bytes - ((size_t)more << 20)) != cudaSuccess)
                (void)cudaGetLastError(); /* less of it is free in one piece */
        const kerf_status s = calibrate(model, &c, d, out);
        if (s != KERF_OK) {
            refused++;
            check(s == KERF_E_NOMEM || s == KERF_E_CUDA, "a full GPU", "another failure");
            check(strstr(error.text, "memory") != NULL, "a full GPU", "its line");
            if (gpus > 1) check(!strncmp(error.text, "cuda:1: ", 8), "a full GPU", "its name");
            check_nothing("a full GPU", out);
        } else {
            remove_folder(out);
        }
        printf("GPU %d with %d MiB left: %s\n", full, mib, s == KERF_OK ? "right" : error.text);
        need_cuda(cudaSetDevice(full), "GPU");
        need_cuda(cudaFree(held), "memory");
        close_devices(d);
    }
    check(refused > 0, "a full GPU", "was never refused");
}

static void cancel(const char *model, const kerf_tokens *t)
{
    const char *out = in_folder("canceled");
    double longest = 0;
    devices *d = open_devices(gpus > 1 ? "0,1" : "0,0");
    for (int after = 1; after < 60; after += 6) {
        calling c = {.tokens = *t, .alpha = KERF_ALPHA_BY_NONE, .after = after};
        const kerf_status s = calibrate(model, &c, d, out);
        const double took = c.said > 0 ? kf_now_s() - c.said : 0;
        longest = took > longest ? took : longest;
        if (s == KERF_OK) { /* it was done before */
            remove_folder(out);
            break;
        }
        check(s == KERF_E_CANCELED, "canceled", "another failure");
        check_nothing("canceled", out);
    }
    close_devices(d);
    printf("canceled: at most %.0f ms\n", 1e3 * longest);
    check(longest < 0.1, "canceled", "took longer than 100 ms");
}

/* --- page-locked memory ---------------------------------------------------------------------- */

static void compare_locked(const char *codec)
{
    enum { ROWS = 6000, COLS = 4096 };
    const kerf_shape shape = {2, {ROWS, COLS}};
    kerf_codec c;
    kerf_geometry g;
    uint16_t *plain = malloc(sizeof *plain * ROWS * COLS), *locked = NULL;
    kerf_span out[2][KERF_PLANES] = {{{0}}};
    devices *d = open_devices("0");
    need_cuda(cudaMallocHost((void **)&locked, sizeof *locked * ROWS * COLS), "memory");
    if (!plain) die(codec, "no memory");
    for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
        plain[i] = (uint16_t)(0x3c00u + ((uint32_t)i * 2654435761u >> 22));
    memcpy(locked, plain, sizeof *plain * ROWS * COLS);
    need(kerf_codec_find(codec, &c, &error), codec);
    need(kerf_geometry_init(&g, c.format, &shape, &error), codec);
    for (int k = 0; k < 2; k++) {
        const kerf_cspan from = {k ? locked : plain, sizeof *plain * ROWS * COLS};
        kerf_stats stats = {0};
        for (int p = 0; p < KERF_PLANES; p++) {
            out[k][p].n = g.plane[p].bytes;
            if (k)
                need_cuda(cudaMallocHost(&out[k][p].p, out[k][p].n + 1), "memory");
            else if (!(out[k][p].p = malloc(out[k][p].n + 1)))
                die(codec, "no memory");
        }
        need(kerf_measure(&g, 0, g.bands, from, KERF_BF16, &stats, &d->member[0], &error), codec);
        need(kerf_encode(&g, c.encoder, &stats, 0, g.bands, from, KERF_BF16, out[k], &d->member[0],
                         &error),
             codec);
    }
    for (int p = 0; p < KERF_PLANES; p++) {
        check(memcmp(out[0][p].p, out[1][p].p, g.plane[p].bytes) == 0, codec,
              "other bytes from page-locked memory");
        free(out[0][p].p);
        need_cuda(cudaFreeHost(out[1][p].p), "memory");
    }
    free(plain);
    need_cuda(cudaFreeHost(locked), "memory");
    close_devices(d);
}

/* --------------------------------------------------------------------------------------------- */

static int has_steps(void)
{
    kerf_checkpoint *file;
    kerf_decoder *model = NULL;
    if (kerf_device_count(&gpus, &error) != KERF_OK || gpus == 0) return 0;
    devices *d = open_devices("0");
    need(kerf_checkpoint_open(KERF_TEST_DATA "/tiny-llama", &file, &error), "tiny-llama");
    const kerf_status s = kerf_decoder_open(file, &d->member[0], &model, &error);
    kerf_decoder_close(model);
    kerf_checkpoint_close(file);
    close_devices(d);
    return s == KERF_OK;
}

int main(int argc, char **argv)
{
    const int few = argc > 1 && !strcmp(argv[1], "few"),
              full = argc > 1 && !strcmp(argv[1], "full"),
              fails = argc > 1 && !strcmp(argv[1], "fails");
    static const char tiny[] = KERF_TEST_DATA "/tiny-llama";
    void *made = NULL;
    if (!has_steps()) {
        printf("skipped: %s\n", error.text);
        return 77;
    }
    json_t *golden = json_load_file(KERF_TEST_DATA "/forward/golden.json", 0, NULL);
    if (!golden || make_test_folder(&made) != 0) die("golden.json", "cannot be read");
    folder = made;
    if (!fails) compare_families(golden, few);
    if (!few) {
        kerf_token_list list;
        need(kerf_tokens_read(KERF_TEST_DATA "/tiny-llama/eval.u16", 1 << 16, &list, &error), tiny);
        const kerf_tokens text = {list.token, full ? 256 : 90, 256}, rows = {list.token, 9, 2000};
        compare("tiny-llama", tiny, (calling){.tokens = text, .alpha = KERF_ALPHA_BY_NONE}, 1);
        compare("long rows", tiny, (calling){.tokens = rows, .alpha = KERF_ALPHA_BY_NONE}, 1);
        cancel(tiny, &text);
        fill_gpu(tiny, &text);
        compare_locked("mxfp4");
        compare_locked("nvfp4");
        compare_locked("int4-g128-asym");
        kerf_token_list_free(&list);
    }
    json_decref(golden);
    (void)remove_test_folder(&made);
    printf("%d checks, %d failed, %d GPUs\n", checks, failures, gpus);
    return failures != 0;
}
