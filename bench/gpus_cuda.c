/* gpus_cuda.c - one GPU against several of a host: seconds of kerf_calibrate over a whole model,
 * and of kerf_encode from page-locked memory.
 *
 *   gpus_cuda calibrate FOLDER OUT [-d 0,1] [-r ROWS] [-n LENGTH] [-g 0|1] [-f 0|1] [-x SECONDS]
 *   gpus_cuda encode [-d 0,1] [-m MIB] [-c CODEC]
 *
 * calibrate: FOLDER is a model of 128,256 tokens or more (forward_cuda makes one). -f 0: sums come
 * to host memory, but no file gets them: a Gram matrix of each input of 8 billion parameters is 31
 * GB, and a disk is not what is measured; the seconds are those until the last layer's sums are
 * there. -x: canceled after so long; how long it is until the call is back, until runs, threads,
 * models and what they are fed from have ended, and how long CUDA takes for what it is given back
 * and the file system for files, each added up over the threads that wait for it. encode: rows of
 * one matrix of BF16, shared by threads, one for each device, in pieces of 64 MiB; what several
 * devices made is compared with what one made. One line of JSON each. */
#define PROGRAM "gpus_cuda"
#include "gpu/or_die.h"

#include "base/base.h"

#include <kerf/calibrate.h>
#include <kerf/cuda.h>
#include <kerf/forward.h>

#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { GPUS_MOST = 16, TIMES = 7 };

typedef struct setup {
    int gpu[GPUS_MOST];
    kerf_exec member[GPUS_MOST];
    size_t gpus;
    const char *names, *codec;
    int rows, length, gram, files, mib;
} setup;

static void open_gpus(setup *s)
{
    for (const char *p = s->names; s->gpus < GPUS_MOST; p = strchr(p, ',') + 1) {
        s->gpu[s->gpus] = atoi(p);
        need(kerf_device_open(s->gpu[s->gpus], &s->member[s->gpus].device, &error), "a GPU");
        s->gpus++;
        if (!strchr(p, ',')) break;
    }
}

static void print_head(const setup *s, const char *what)
{
    kerf_device_info info;
    need(kerf_device_describe(s->gpu[0], &info, &error), "a GPU");
    printf("{\"schema\": \"kerf-bench-gpus-1\", \"what\": \"%s\", \"device\": \"%s\", \"gpus\": "
           "\"%s\", ",
           what, info.name, s->names);
}

/* --- calibrate ------------------------------------------------------------------------------- */

/* The linker puts these in the place of the call (--wrap). */
struct kf_collector;
kerf_status __real_kf_collector_write(const struct kf_collector *c, kerf_writer *w,
                                      const kerf_job *job, kerf_error *err);
kerf_status __wrap_kf_collector_write(const struct kf_collector *c, kerf_writer *w,
                                      const kerf_job *job, kerf_error *err);

static int writes_files;
static double begun, layer_at[1024];
static size_t layers;

kerf_status __wrap_kf_collector_write(const struct kf_collector *c, kerf_writer *w,
                                      const kerf_job *job, kerf_error *err)
{
    if (layers < sizeof layer_at / sizeof *layer_at) layer_at[layers++] = kf_now_s() - begun;
    return writes_files ? __real_kf_collector_write(c, w, job, err) : KERF_OK;
}

static double cancel_at, canceled_at; /* from `begun` on; 0: never */

static void note(double *at, double now)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    *at = now;
    pthread_mutex_unlock(&lock);
}

/* What is given back when a call is canceled: milliseconds of all calls of all threads. */
static void add_since(double *ms, double start)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    if (canceled_at > 0 && start - begun >= canceled_at) *ms += 1e3 * (kf_now_s() - start);
    pthread_mutex_unlock(&lock);
}

#define GIVEN_BACK(name, call, taken)           \
    static double name##_ms;                    \
    cudaError_t __real_##call(taken p);         \
    cudaError_t __wrap_##call(taken p);         \
    cudaError_t __wrap_##call(taken p)          \
    {                                           \
        const double start = kf_now_s();        \
        const cudaError_t e = __real_##call(p); \
        add_since(&name##_ms, start);           \
        return e;                               \
    }

GIVEN_BACK(locked, cudaFreeHost, void *)
GIVEN_BACK(memory, cudaFree, void *)
GIVEN_BACK(pool, cudaMemPoolDestroy, cudaMemPool_t)
GIVEN_BACK(waits, cudaStreamSynchronize, cudaStream_t)

static double files_ms;
void __real_kerf_writer_abort(kerf_writer *w);
void __wrap_kerf_writer_abort(kerf_writer *w);
void __wrap_kerf_writer_abort(kerf_writer *w)
{
    const double start = kf_now_s();
    __real_kerf_writer_abort(w);
    add_since(&files_ms, start);
}

/* What ends when a call is canceled, in this order, and when the last of it did. */
#define STAGE(name)                                     \
    struct kf_##name;                                   \
    static double name##_at;                            \
    void __real_kf_##name##_close(struct kf_##name *p); \
    void __wrap_kf_##name##_close(struct kf_##name *p); \
    void __wrap_kf_##name##_close(struct kf_##name *p)  \
    {                                                   \
        __real_kf_##name##_close(p);                    \
        note(&name##_at, kf_now_s() - begun);           \
    }

STAGE(feeder)
STAGE(settler)

/* The reader of layers is a decoder too, but none that a GPU has. */
struct kf_feed;
static double run_at, model_at, feed_at;
static _Thread_local int is_feed;
void __real_kf_feed_close(struct kf_feed *p);
void __wrap_kf_feed_close(struct kf_feed *p);
void __wrap_kf_feed_close(struct kf_feed *p)
{
    is_feed = 1;
    __real_kf_feed_close(p);
    is_feed = 0;
    note(&feed_at, kf_now_s() - begun);
}

void __real_kerf_decoder_close(kerf_decoder *d);
void __wrap_kerf_decoder_close(kerf_decoder *d);
void __wrap_kerf_decoder_close(kerf_decoder *d)
{
    __real_kerf_decoder_close(d);
    if (!is_feed) note(&model_at, kf_now_s() - begun);
}

kerf_status __real_kerf_layer_run(const kerf_layer *l, const kerf_tokens *tokens, float *hidden,
                                  const kerf_watch *watch, const kerf_job *job, kerf_error *err);
kerf_status __wrap_kerf_layer_run(const kerf_layer *l, const kerf_tokens *tokens, float *hidden,
                                  const kerf_watch *watch, const kerf_job *job, kerf_error *err);
kerf_status __wrap_kerf_layer_run(const kerf_layer *l, const kerf_tokens *tokens, float *hidden,
                                  const kerf_watch *watch, const kerf_job *job, kerf_error *err)
{
    const kerf_status s = __real_kerf_layer_run(l, tokens, hidden, watch, job, err);
    note(&run_at, kf_now_s() - begun);
    return s;
}

static double ms_after_cancel(double at)
{
    return at > canceled_at ? 1e3 * (at - canceled_at) : 0;
}

static int is_late(void *ctx)
{
    (void)ctx;
    const double now = kf_now_s() - begun;
    if (cancel_at == 0 || now < cancel_at) return 0;
    if (canceled_at == 0) canceled_at = now;
    return 1;
}

static void run_calibrate(setup *s, const char *model, const char *out)
{
    const size_t n = (size_t)s->rows * (size_t)s->length;
    uint32_t *token = malloc(n * sizeof *token);
    kerf_checkpoint *file;
    if (!token) die("tokens", "no memory");
    for (size_t i = 0; i < n; i++) token[i] = (uint32_t)i * 2654435761u % 128256;
    need(kerf_checkpoint_open(model, &file, &error), model);
    const kerf_team team = {s->member, s->gpus};
    const kerf_calibrate_request request = {
        .tokens = {token, (uint64_t)s->rows, (uint64_t)s->length},
        .gram = s->gram,
        .alpha = KERF_ALPHA_BY_NONE,
        .path = out,
        .overwrite = 1,
        .team = &team};
    writes_files = s->files;
    begun = kf_now_s();
    const kerf_job job = {.cancel = is_late};
    const kerf_status status = kerf_calibrate(file, &request, NULL, &job, &error);
    const double all = kf_now_s() - begun;
    if (cancel_at > 0) {
        if (status != KERF_E_CANCELED) die("calibrate", "was not canceled");
        print_head(s, "cancel calibrate");
        printf("\"gram\": %s, \"at_s\": %.2f, \"back_after_ms\": %.0f, \"run_ms\": %.0f, "
               "\"feeder_ms\": %.0f, \"settler_ms\": %.0f, \"models_ms\": %.0f, \"feed_ms\": %.0f, "
               "\"waits_took_ms\": %.1f, \"locked_took_ms\": %.1f, \"pool_took_ms\": %.1f, "
               "\"memory_took_ms\": %.1f, \"files_took_ms\": %.1f}\n",
               s->gram ? "true" : "false", canceled_at, 1e3 * (all - canceled_at),
               ms_after_cancel(run_at), ms_after_cancel(feeder_at), ms_after_cancel(settler_at),
               ms_after_cancel(model_at), ms_after_cancel(feed_at), waits_ms, locked_ms, pool_ms,
               memory_ms, files_ms);
        return;
    }
    if (s->files) need(status, "calibrate");
    if (layers == 0) die("calibrate", error.text);
    print_head(s, "calibrate");
    printf("\"rows\": %d, \"length\": %d, \"gram\": %s, \"files\": %s, \"layers\": %zu, "
           "\"first_layer_s\": %.3f, \"sums_s\": %.3f, \"all_s\": %.3f}\n",
           s->rows, s->length, s->gram ? "true" : "false", s->files ? "true" : "false", layers,
           layer_at[0], layer_at[layers - 1], all);
    kerf_checkpoint_close(file);
    free(token);
}

/* --- encode ---------------------------------------------------------------------------------- */

#define COLS UINT64_C(4096)
#define PIECE (UINT64_C(64) << 20)

typedef struct encoding {
    const kerf_geometry *g;
    const kerf_encoder *encoder;
    const uint8_t *from;
    uint8_t *plane[KERF_PLANES];
    kerf_stats stats;
    uint64_t step, next;
    int measures;
    pthread_mutex_t lock;
} encoding;

typedef struct worker {
    encoding *e;
    kerf_exec exec;
    pthread_t thread;
} worker;

static void run_piece(encoding *e, const kerf_exec *exec, uint64_t b0, uint64_t b1)
{
    const kerf_extent part = kerf_band_elements(e->g, b0, b1);
    const kerf_cspan src = {e->from + part.offset * 2, (size_t)part.count * 2};
    kerf_span dst[KERF_PLANES] = {{0}};
    kerf_error why = {0};
    kerf_stats own = {0};
    for (int p = 0; p < KERF_PLANES; p++) {
        if (e->g->plane[p].dtype == KERF_DTYPE_NONE) continue;
        const kerf_extent at = kerf_band_bytes(e->g, (kerf_plane_id)p, b0, b1);
        dst[p] = e->g->plane[p].per_matrix ? (kerf_span){e->plane[p], (size_t)e->g->plane[p].bytes}
                                           : (kerf_span){e->plane[p] + at.offset, (size_t)at.count};
    }
    const kerf_status s = e->measures ? kerf_measure(e->g, b0, b1, src, KERF_BF16, &own, exec, &why)
                                      : kerf_encode(e->g, e->encoder, &e->stats, b0, b1, src,
                                                    KERF_BF16, dst, exec, &why);
    if (s != KERF_OK) die("encode", why.text);
    pthread_mutex_lock(&e->lock);
    if (e->measures) kerf_stats_merge(&e->stats, &own);
    pthread_mutex_unlock(&e->lock);
}

static void *work_off(void *ctx)
{
    const worker *w = ctx;
    encoding *e = w->e;
    for (;;) {
        const uint64_t b = __atomic_fetch_add(&e->next, e->step, __ATOMIC_RELAXED);
        if (b >= e->g->bands) return NULL;
        run_piece(e, &w->exec, b, kf_min_u64(b + e->step, e->g->bands));
    }
}

static void pass(encoding *e, const setup *s, size_t gpus, int measures)
{
    worker w[GPUS_MOST];
    e->measures = measures;
    e->next = 0;
    for (size_t i = 0; i < gpus; i++) {
        w[i] = (worker){.e = e, .exec = s->member[i]};
        if (pthread_create(&w[i].thread, NULL, work_off, &w[i]) != 0) die("encode", "no thread");
    }
    for (size_t i = 0; i < gpus; i++) pthread_join(w[i].thread, NULL);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double seconds_of(encoding *e, const setup *s, size_t gpus)
{
    double took[TIMES];
    for (int i = -1; i < TIMES; i++) {
        const double start = kf_now_s();
        e->stats = (kerf_stats){0};
        if (kerf_needs_stats(e->g)) pass(e, s, gpus, 1);
        pass(e, s, gpus, 0);
        if (i >= 0) took[i] = kf_now_s() - start;
    }
    qsort(took, TIMES, sizeof *took, by_size);
    return took[TIMES / 2];
}

static void *locked(size_t n)
{
    void *p = NULL;
    need_cuda(cudaMallocHost(&p, n ? n : 1), "page-locked memory");
    return p;
}

static kerf_status fill(void *ctx, uint64_t i)
{
    uint16_t *x = (uint16_t *)ctx + i * COLS;
    for (uint64_t k = 0; k < COLS; k++) {
        const uint32_t u = (uint32_t)(i * COLS + k) * 2654435761u;
        x[k] = (uint16_t)(0x3c00u + (u >> 22) + (u & 0x8000u));
    }
    return KERF_OK;
}

static void run_encode(setup *s)
{
    const uint64_t rows = ((uint64_t)s->mib << 20) / (2 * COLS);
    const kerf_shape shape = {2, {rows, COLS}};
    kerf_codec c;
    kerf_geometry g;
    uint8_t *from = locked(rows * COLS * 2);
    need(kerf_codec_find(s->codec, &c, &error), s->codec);
    need(kerf_geometry_init(&g, c.format, &shape, &error), "geometry");
    (void)kf_parallel(rows, 0, fill, from);
    encoding one = {.g = &g, .encoder = c.encoder, .from = from};
    one.step = PIECE / (kerf_band_elements(&g, 0, 1).count * 2);
    pthread_mutex_init(&one.lock, NULL);
    encoding all = one;
    for (int p = 0; p < KERF_PLANES; p++) {
        one.plane[p] = locked(g.plane[p].bytes);
        all.plane[p] = locked(g.plane[p].bytes);
        memset(one.plane[p], 1, g.plane[p].bytes);
        memset(all.plane[p], 2, g.plane[p].bytes);
    }
    const double alone = seconds_of(&one, s, 1), together = seconds_of(&all, s, s->gpus);
    for (int p = 0; p < KERF_PLANES; p++)
        if (memcmp(one.plane[p], all.plane[p], g.plane[p].bytes) != 0)
            die(s->codec, "several GPUs encode differently");
    print_head(s, "encode from page-locked memory");
    printf("\"codec\": \"%s\", \"bytes\": %llu, \"one_s\": %.4f, \"all_s\": %.4f, \"one_gbps\": "
           "%.1f, \"all_gbps\": %.1f, \"times\": %.2f}\n",
           s->codec, (unsigned long long)(rows * COLS * 2), alone, together,
           1e-9 * (double)(rows * COLS * 2) / alone, 1e-9 * (double)(rows * COLS * 2) / together,
           alone / together);
}

int main(int argc, char **argv)
{
    setup s = {.names = "0",
               .codec = "mxfp4",
               .rows = 128,
               .length = 2048,
               .gram = 1,
               .files = 1,
               .mib = 4096};
    int option;
    while ((option = getopt(argc, argv, "d:r:n:g:f:m:c:x:")) != -1) switch (option) {
        case 'd': s.names = optarg; break;
        case 'r': s.rows = atoi(optarg); break;
        case 'n': s.length = atoi(optarg); break;
        case 'g': s.gram = atoi(optarg); break;
        case 'f': s.files = atoi(optarg); break;
        case 'm': s.mib = atoi(optarg); break;
        case 'c': s.codec = optarg; break;
        case 'x': cancel_at = atof(optarg); break;
        default: return 2;
        }
    const char *what = optind < argc ? argv[optind] : "";
    open_gpus(&s);
    if (strcmp(what, "encode") == 0 && optind + 1 == argc)
        run_encode(&s);
    else if (strcmp(what, "calibrate") == 0 && optind + 3 == argc)
        run_calibrate(&s, argv[optind + 1], argv[optind + 2]);
    else
        die("usage", "gpus_cuda calibrate FOLDER OUT | encode, with -d 0,1");
    for (size_t i = 0; i < s.gpus; i++) kerf_device_close(s.member[i].device);
    return 0;
}
