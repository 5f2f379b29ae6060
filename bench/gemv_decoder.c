/* gemv_decoder.c - the linear layers of a decoder for one token, as a runtime has them: q, k and v
 * in one launch, gate and up in one launch with SwiGLU, the residual added where it is written; for
 * Llama-3.1-8B 128 launches and lm_head, one graph. No attention, no normalization: o reads what q
 * wrote.
 *
 * The same chain in cuBLAS reads the same fp16 matrices, q/k/v and gate/up each as one; SwiGLU is
 * not in it, which favours it. The ceiling reads every byte in as many launches. */
#include "blas_cuda.h"
#include "gemv_cuda.h"
#include "read_only.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* By itself, lm_head is read in HEADS copies: launches overlap, and of one copy the next would find
 * in the cache what the one before it reads. */
enum { STAGES = 5, HEAD = 4, HEADS = 3 };

/* Of the model that is measured: see set_model. */
static struct stage {
    const char *name;
    unsigned parts;
    uint64_t rows[3], all_rows, cols;
    unsigned flags;
    int add; /* the result is added to the hidden state */
} stages[STAGES];
static int n_layers, n_launches;
static kerf_dtype x_type;

static void set_model(const decoder_model *m)
{
    const struct stage of[STAGES] = {
        {"qkv", 3, {m->q, m->kv, m->kv}, m->q + 2 * m->kv, m->hidden, 0, 0},
        {"o", 1, {m->hidden}, m->hidden, m->q, 0, 1},
        {"gate-up", 2, {m->ff, m->ff}, 2 * m->ff, m->hidden, KERF_GEMV_SWIGLU, 0},
        {"down", 1, {m->hidden}, m->hidden, m->ff, 0, 1},
        {"lm_head", 1, {m->vocab}, m->vocab, m->hidden, 0, 0}};
    memcpy(stages, of, sizeof stages);
    n_layers = m->layers;
    n_launches = n_layers * HEAD + 1;
}

typedef struct decoder {
    const variant *variant;
    unsigned columns;
    placed m[STAGES][3];
    size_t bytes[STAGES];
    void *base[STAGES][DECODER_LAYERS];
    kerf_gemv *plan[WAYS_TO_LAUNCH][STAGES];
    int read_way[WAYS_TO_LAUNCH][STAGES];
    blas_product blas[STAGES];
    int blas_way[STAGES];
} decoder;

/* Vectors of x_type; widths of all that is written. */
static struct {
    uint8_t *input, *hidden, *qkv, *active, *logits, *workspace;
    size_t workspace_bytes;
} vectors;

static void make_vectors(unsigned columns)
{
    size_t n = columns * 2;
    const uint64_t hidden = stages[1].rows[0];
    vectors.input = bench_device_room(hidden * n);
    vectors.hidden = bench_device_room(hidden * n);
    vectors.qkv = bench_device_room(stages[0].all_rows * n);
    vectors.active = bench_device_room(stages[2].all_rows * n);
    vectors.logits = bench_device_room(stages[HEAD].all_rows * n);
    bench_need_cuda(fill_numbers(vectors.input, x_type, hidden * columns, 1, 0, 5, bench_stream),
                    "x");
    bench_need_cuda(cudaMemsetAsync(vectors.active, 0, stages[2].all_rows * n, bench_stream),
                    "memset");
}

static void free_vectors(void)
{
    uint8_t *all[] = {vectors.input,  vectors.hidden, vectors.qkv,
                      vectors.active, vectors.logits, vectors.workspace};
    for (size_t i = 0; i < 6; i++) bench_need_cuda(cudaFree(all[i]), "free");
    memset(&vectors, 0, sizeof vectors);
}

static const uint8_t *input_of(int stage, int first)
{
    const uint8_t *x[STAGES] = {first ? vectors.input : vectors.hidden, vectors.qkv, vectors.hidden,
                                vectors.active, vectors.hidden};
    return x[stage];
}
static uint8_t *output_of(int stage)
{
    uint8_t *y[STAGES] = {vectors.qkv, vectors.hidden, vectors.active, vectors.hidden,
                          vectors.logits};
    return y[stage];
}

/* --- one format ---------------------------------------------------------------------------------
 */

static void make_matrices(decoder *d)
{
    for (int s = 0; s < STAGES; s++) {
        size_t end = 0;
        for (unsigned k = 0; k < stages[s].parts; k++) {
            d->m[s][k] = place(d->variant->format, stages[s].rows[k], stages[s].cols, end);
            end = d->m[s][k].end;
        }
        d->bytes[s] = end;
        for (int layer = 0; layer < (s == HEAD ? HEADS : n_layers); layer++) {
            d->base[s][layer] = bench_device_room(end);
            for (unsigned k = 0; k < stages[s].parts; k++) {
                place_numbers(&d->m[s][k], d->base[s][layer], 0.3f / sqrtf((float)stages[s].cols),
                              (uint64_t)(layer * STAGES + s) * 3 + k +
                                  ((uint64_t)d->variant->format->id << 40));
                if (d->variant->shuffled) place_shuffled(&d->m[s][k], d->base[s][layer]);
            }
        }
    }
    bench_need(kerf_device_wait(bench_gpu, NULL, &bench_error), "weights");
}

/* 0: there is no such plan. */
static int make_plans(decoder *d, const kf_gemv_options *options)
{
    kerf_exec exec = {.device = bench_gpu};
    for (int i = 0; i < WAYS_TO_LAUNCH * STAGES; i++) {
        const struct stage *s = &stages[i % STAGES];
        kerf_gemv_shape shape = {.format = d->variant->format,
                                 .rows = s->rows[0],
                                 .cols = s->cols,
                                 .columns = d->columns,
                                 .x = x_type,
                                 .y = x_type,
                                 .parts = s->parts > 1 ? s->parts : 0,
                                 .flags = s->flags};
        if (i / STAGES == CHAIN) shape.flags |= KERF_GEMV_CONSTANT_WEIGHTS;
        if (d->variant->shuffled) shape.flags |= KERF_GEMV_SHUFFLED;
        for (unsigned k = 1; k < s->parts; k++) shape.more_rows[k - 1] = s->rows[k];
        if (kf_gemv_plan_create_with(&d->plan[i / STAGES][i % STAGES], &shape, &exec, options,
                                     &bench_error) != KERF_OK)
            return 0;
        size_t work = kerf_gemv_workspace(d->plan[i / STAGES][i % STAGES]);
        if (work <= vectors.workspace_bytes) continue;
        bench_need_cuda(cudaFree(vectors.workspace), "free");
        vectors.workspace = bench_device_room(work);
        vectors.workspace_bytes = work;
    }
    return 1;
}

static void decoder_free(decoder *d)
{
    for (int i = 0; i < WAYS_TO_LAUNCH * STAGES; i++)
        kerf_gemv_plan_free(d->plan[i / STAGES][i % STAGES]);
    for (int i = 0; i < STAGES * DECODER_LAYERS; i++)
        bench_need_cuda(cudaFree(d->base[i / DECODER_LAYERS][i % DECODER_LAYERS]), "free");
    for (int s = 0; s < STAGES; s++) blas_free(&d->blas[s]);
}

static const char *run_stage(const decoder *d, int way, int s, int layer, cudaStream_t stream)
{
    const struct stage *stage = &stages[s];
    size_t column = d->columns * 2;
    kerf_gemv_args a = {.x = {input_of(s, layer == 0), stage->cols * column},
                        .y = {output_of(s), stage->rows[0] * column}};
    uint8_t *next = (uint8_t *)a.y.p + a.y.n;
    place_spans(&d->m[s][0], d->base[s][layer], a.weights);
    for (unsigned k = 1; k < stage->parts; k++) {
        kerf_gemv_part *part = &a.more[k - 1];
        place_spans(&d->m[s][k], d->base[s][layer], part->weights);
        part->y = (kerf_span){next, stage->rows[k] * column};
        next += part->y.n;
    }
    if (stage->add) {
        const uint8_t *old = s == 1 && layer == 0 ? vectors.input : vectors.hidden;
        a.residual = (kerf_cspan){old, a.y.n};
    }
    a.workspace = (kerf_span){vectors.workspace, vectors.workspace_bytes};
    kerf_status status = kerf_gemv_run(d->plan[way][s], &a, stream, &bench_error);
    return status == KERF_OK ? NULL : bench_error.text;
}

/* --- contestants --------------------------------------------------------------------------------
 */

typedef struct lane {
    racer r;
    decoder *d;
    enum { RUN, READ, BLAS } what;
    int way, only; /* only: -1: the whole token */
    race_energy energy;
} lane;

static const char *call_lane(void *ctx, int i, cudaStream_t stream)
{
    const lane *l = ctx;
    const decoder *d = l->d;
    int s = l->only >= 0 ? l->only : i == n_launches - 1 ? HEAD : i % HEAD;
    int layer = l->only == HEAD ? i % HEADS
                : s == HEAD     ? 0
                : l->only >= 0  ? i % n_layers
                                : i / HEAD;
    if (l->what == RUN) return run_stage(d, l->way, s, layer, stream);
    const void *w = d->base[s][layer];
    if (l->what == READ) {
        cudaError_t e = read_only(d->read_way[l->way][s], w, d->bytes[s], l->way == CHAIN,
                                  vectors.workspace, stream);
        return e == cudaSuccess ? NULL : cudaGetErrorString(e);
    }
    return blas_run(&d->blas[s], d->blas_way[s], w, input_of(s, layer == 0), output_of(s), NULL,
                    NULL, stream);
}

static int calls_of(int only)
{
    return only < 0 ? n_launches : only == HEAD ? 2 * HEADS : n_layers;
}

static void plan_blas(decoder *d)
{
    for (int s = 0; s < STAGES; s++) {
        double best = 1e30;
        int chosen = 0;
        if (blas_plan(&d->blas[s], BLAS_F16, (int)stages[s].all_rows, (int)stages[s].cols,
                      (int)d->columns, stages[s].add))
            continue;
        for (int way = 0; way < d->blas[s].ways; way++) {
            lane l = {.r = {.call = call_lane, .ctx = &l, .calls = calls_of(s)},
                      .d = d,
                      .what = BLAS,
                      .only = s};
            d->blas_way[s] = way;
            double us = race_quick(&l.r, bench_stream);
            race_free(&l.r);
            if (us < best) best = us, chosen = way;
        }
        d->blas_way[s] = chosen;
    }
}

static int add_lane(lane *all, int *n, decoder *d, int what, int way, int only)
{
    lane *l = &all[*n];
    *l = (lane){.r = {.call = call_lane, .ctx = l, .calls = calls_of(only)},
                .d = d,
                .way = way,
                .only = only};
    l->what = (__typeof__(l->what))what;
    race_prepare(&l->r, bench_stream);
    if (!l->r.error) return ++*n, 1;
    printf("WRONG: decoder, %s: %s\n", d->variant->name, l->r.error);
    bench_wrong++;
    return 0;
}

/* A token: its launches as the graph has them, or each by itself. */
static void read_logits(lane *l, int alone, uint16_t *out, size_t n)
{
    if (!alone) bench_need_cuda(cudaGraphLaunch(l->r.graph, bench_stream), "graph");
    for (int i = 0; alone && i < n_launches; i++) {
        const char *wrong = call_lane(l, i, bench_stream);
        if (wrong) bench_fail("decoder", wrong);
        bench_need_cuda(cudaStreamSynchronize(bench_stream), "decoder");
    }
    bench_need_cuda(
        cudaMemcpyAsync(out, vectors.logits, n * 2, cudaMemcpyDeviceToHost, bench_stream), "copy");
    bench_need_cuda(cudaStreamSynchronize(bench_stream), "decoder");
}

/* A graph gives the bits of its launches one by one, and numbers. */
static void check_decoder(lane *l)
{
    size_t n = stages[HEAD].all_rows * l->d->columns;
    uint16_t *a = bench_room(n * 2), *b = bench_room(n * 2);
    read_logits(l, 1, a, n);
    read_logits(l, 0, b, n);
    size_t special = 0, zero = 0;
    const uint16_t infinity = x_type == KERF_F16 ? 0x7c00 : 0x7f80;
    for (size_t i = 0; i < n; i++)
        special += (a[i] & infinity) == infinity, zero += (a[i] & 0x7fff) == 0;
    const char *what = memcmp(a, b, n * 2) != 0  ? "a graph gives other bits"
                       : special || zero > n / 2 ? "no numbers come out"
                                                 : NULL;
    if (what) printf("WRONG: decoder, %s: %s\n", l->d->variant->name, what), bench_wrong++;
    free(a);
    free(b);
}

static void report(const lane *l, decoder_result *out, int *n)
{
    static const char *const by[] = {"kerf", "read", "cublas"};
    const char *part = l->only < 0 ? "token" : stages[l->only].name;
    timing t = timing_of(&l->r, l->r.calls);
    double bytes = 0;
    for (int s = 0; s < STAGES; s++)
        if (l->only < 0 || s == l->only)
            bytes += (double)l->d->bytes[s] * (l->only < 0 ? s == HEAD ? 1 : n_layers : l->r.calls);
    const char *name = l->what == READ ? by[RUN] : by[l->what];
    for (int i = 0; i <= *n; i++) {
        decoder_result *r = &out[i];
        if (i == *n) {
            *r = (decoder_result){.columns = l->d->columns, .bytes = bytes};
            snprintf(r->by, sizeof r->by, "%s", name);
            snprintf(r->format, sizeof r->format, "%s", l->d->variant->name);
            snprintf(r->part, sizeof r->part, "%s", part);
            ++*n;
        } else if (strcmp(r->by, name) != 0 || strcmp(r->format, l->d->variant->name) != 0 ||
                   strcmp(r->part, part) != 0) {
            continue;
        }
        if (l->what == READ)
            r->read[l->way] = t;
        else
            r->t[l->way] = t;
        if (l->energy.joules > 0) r->energy = l->energy;
        return;
    }
}

/* The whole token, and its parts where they are wanted, of one format. */
static void add_format(lane *lanes, int *n, decoder *d, const bench_options *o)
{
    int last = o->parts ? STAGES : 0, first = *n, both = 1;
    for (int only = -1; only < last && both; only++) {
        for (int way = 0; way < WAYS_TO_LAUNCH; way++)
            both &= add_lane(lanes, n, d, RUN, way, only);
        for (int way = 0; way < WAYS_TO_LAUNCH && both && only < 0; way++)
            check_decoder(&lanes[first + way]);
        for (int way = 0; way < WAYS_TO_LAUNCH && o->ceilings; way++)
            add_lane(lanes, n, d, READ, way, only);
    }
}

static void add_baseline(lane *lanes, int *n, decoder *d, const bench_options *o)
{
    for (int only = -1; only < (o->parts ? STAGES : 0); only++)
        add_lane(lanes, n, d, BLAS, PLAIN, only);
}

/* The whole token of each format, as fast as it is launched, and of cuBLAS. */
static void meter_lanes(lane *lanes, int n, double seconds)
{
    for (int i = 0; i < n; i++) {
        lane *l = &lanes[i];
        if (l->only >= 0 || l->what == READ || l->way != (l->what == BLAS ? PLAIN : CHAIN))
            continue;
        l->energy = race_hold(&l->r, seconds, bench_stream);
    }
}

int bench_decoder(const bench_options *o, const decoder_model *model, double last_start,
                  double deadline, decoder_result *out, int room)
{
    enum { LANES_EACH = 5 * (STAGES + 1) };
    decoder *all = bench_room(MANY_FORMATS * sizeof *all);
    lane *lanes = bench_room(MANY_FORMATS * LANES_EACH * sizeof *lanes);
    racer **racers = bench_room(MANY_FORMATS * LANES_EACH * sizeof *racers);
    int n = 0, n_lanes = 0, n_out = 0;
    double began = race_now();
    set_model(model);
    x_type = o->x;
    make_vectors(o->columns[0]);
    for (int i = 0; i < o->n_decoder_formats && race_now() < last_start; i++) {
        decoder *d = &all[n];
        *d = (decoder){.variant = &o->decoder_formats[i], .columns = o->columns[0]};
        int planned = make_plans(d, &o->plan);
        if (!planned) fprintf(stderr, "decoder, %s: %s\n", d->variant->name, bench_error.text);
        int dense = d->variant->format->id == KERF_FORMAT_FP16 && o->baselines;
        if (!planned && !dense) {
            decoder_free(d);
            continue;
        }
        make_matrices(d);
        for (int s = 0; s < STAGES && o->ceilings; s++)
            for (int way = 0; way < WAYS_TO_LAUNCH; way++)
                d->read_way[way][s] =
                    best_read(d->base[s], s == HEAD ? HEADS : n_layers, d->bytes[s], way);
        if (dense) plan_blas(d);
        if (planned) add_format(lanes, &n_lanes, d, o);
        if (d->blas[0].ways) add_baseline(lanes, &n_lanes, d, o);
        n++;
    }
    for (int i = 0; i < n_lanes; i++) racers[i] = &lanes[i].r;
    double ready = race_now();
    race_run(racers, n_lanes, 2, o->replays, deadline, bench_stream);
    if (o->energy_s > 0) meter_lanes(lanes, n_lanes, o->energy_s);
    for (int i = 0; i < n_lanes && n_out < room; i++) report(&lanes[i], out, &n_out);
    for (int i = 0; i < n_out; i++) snprintf(out[i].model, sizeof out[i].model, "%s", model->name);
    printf("decoder %s: %d contestants, %.1f s to make, %.1f s to measure\n", model->name, n_lanes,
           ready - began, race_now() - ready);
    for (int i = 0; i < n_lanes; i++) race_free(&lanes[i].r);
    for (int i = 0; i < n; i++) decoder_free(&all[i]);
    free_vectors();
    free(racers);
    free(lanes);
    free(all);
    return n_out;
}
