/* typical.c - formats for a model without its weights: bytes and times from its matrices, errors
 * from typical.def. */
#include <kerf/choose.h>
#include <kerf/typical.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

enum { QKV, OUTPUT, UP, DOWN, KINDS };

static const struct {
    const char *codec;
    double t2[KINDS];
} typical[] = {
#define KERF_TYPICAL(codec, qkv, output, up, down) {codec, {qkv, output, up, down}},
#include "advice/typical.def"
#undef KERF_TYPICAL
};
enum { TYPICAL = sizeof typical / sizeof *typical };

const char *kerf_typical_source(void)
{
    return "means of tiny-llama and all-MiniLM-L6-v2, two small models; GGUF's of the first";
}

/* The row of a codec, or of its format's first encoder there; -1: none. */
static int typical_of(kerf_codec c)
{
    char name[64];
    kerf_codec_name(c, name, sizeof name);
    for (int i = 0; i < TYPICAL; i++)
        if (strcmp(typical[i].codec, name) == 0) return i;
    return -1;
}

static int kind_of(const char *part)
{
    if (strstr(part, "down") || strstr(part, "fc2")) return DOWN;
    if (strstr(part, "o_proj") || strstr(part, "dense")) return OUTPUT;
    return strstr(part, "gate") || strstr(part, "up") || strstr(part, "fc1") ? UP : QKV;
}

/* Mean error over what is quantized, by elements, and how many those are. */
static double mean_t2(const kerf_model *m, int row, double *elements)
{
    double sum = 0;
    *elements = 0;
    for (size_t i = 0; i < m->parts; i++) {
        const kerf_part *p = &m->part[i];
        if (p->kind != KERF_PART_LINEAR && p->kind != KERF_PART_EXPERT) continue;
        const double n =
            (double)p->n * (double)p->k * (double)p->copies * (double)(p->experts ? p->experts : 1);
        sum += n * typical[row].t2[kind_of(p->name)];
        *elements += n;
    }
    return *elements > 0 ? sum / *elements : 0;
}

/* 2: the whole band of time is under the limits; 1: its fast end is; 0: they do not hold. */
static int holds(const kerf_typical_row *x, const kerf_budget *b, double batch)
{
    double most = b->us > 0 ? b->us : INFINITY;
    if (b->tokens_per_s > 0) most = fmin(most, batch * 1e6 / b->tokens_per_s);
    if (b->bits > 0 && x->bits > kerf_bits_most(b->bits)) return 0;
    if (b->bytes > 0 && x->weight_bytes > b->bytes) return 0;
    if (x->high_us <= most || (b->likely && x->us <= most)) return 2;
    return x->low_us <= most;
}

static kerf_status fill_row(const kerf_typical_request *r, const kerf_typical *t, int known,
                            kerf_typical_row *x, kerf_error *err)
{
    const kerf_model *m = r->model;
    kerf_formats formats = {.linear = x->codec.format};
    const kerf_formats plain = {0};
    const kerf_phase phase = {t->batch, t->context, 0};
    double elements, all, plain_bytes, gpu_weights, gpu_cache;
    struct {
        kerf_model model;
        kerf_step step;
    } *of_one = NULL; /* GPU */
    x->t2 = mean_t2(m, known, &elements);
    KF_TRY(kerf_model_bytes(m, &formats, &x->weight_bytes, err));
    KF_TRY(kerf_model_bytes(m, &plain, &plain_bytes, err));
    all = x->weight_bytes - (plain_bytes - 2 * elements); /* of what is quantized */
    x->bits = elements > 0 ? 8 * all / elements : 0;
    KF_TRY(kerf_model_cache_bytes(m, NULL, t->context, &x->cache_bytes, err));
    x->cache_bytes *= t->batch;
    KF_TRY(kf_allocate(&of_one, 1, sizeof *of_one, err));
    const kerf_model *one = &of_one->model;
    kerf_step *step = &of_one->step;
    kerf_status s = kerf_model_shard(m, r->gpus, r->expert_parallel, &of_one->model, err);
    if (s == KERF_OK) s = kerf_model_bytes(one, &formats, &gpu_weights, err);
    if (s == KERF_OK) s = kerf_model_cache_bytes(one, NULL, t->context, &gpu_cache, err);
    if (s == KERF_OK) s = kerf_model_plan(one, r->hardware, &formats, &phase, step, err);
    if (s == KERF_OK) {
        x->low_us = step->time.low_us;
        x->us = step->time.us;
        x->high_us = step->time.high_us;
        x->tier = step->time.tier;
        const double memory = r->hardware->fact[KERF_FACT_MEMORY].value * 1e9;
        x->gpu_bytes = gpu_weights + t->batch * gpu_cache;
        x->fits = memory > 0 ? x->gpu_bytes <= memory : -1;
        x->holds = holds(x, &r->budget, t->batch);
    }
    free(of_one);
    return s;
}

static int by_error(const void *a, const void *b)
{
    const kerf_typical_row *x = a, *y = b;
    if (x->t2 != y->t2) return x->t2 < y->t2 ? -1 : 1;
    return x->bits < y->bits ? -1 : x->bits > y->bits;
}

static int is_taken(const kerf_typical_request *r, const kerf_format *f)
{
    const kerf_layout *l = r->layout;
    if (!l && r->runtime) l = kerf_layout_find(r->runtime->layout);
    if (l && kerf_layout_check(l, f, NULL) != KERF_OK) return 0;
    return !r->runtime || kerf_runtime_check(r->runtime, l, f, r->hardware, NULL, NULL) == KERF_OK;
}

/* GGUF's larger blocks have no short rows. */
static int has_rows(const kerf_model *m, kerf_codec c)
{
    for (size_t i = 0; i < m->parts; i++) {
        const kerf_part *p = &m->part[i];
        if (p->kind != KERF_PART_LINEAR && p->kind != KERF_PART_EXPERT) continue;
        const kerf_shape shape = {2, {p->n, p->k}};
        if (kerf_codec_check(c, &shape, KERF_BF16, NULL) != KERF_OK) return 0;
    }
    return 1;
}

static kerf_status fill_rows(const kerf_typical_request *r, kerf_typical *t, kerf_error *err)
{
    KF_TRY(kf_allocate(&t->row, r->codecs, sizeof *t->row, err));
    for (size_t i = 0; i < r->codecs; i++) {
        const int known = typical_of(r->codec[i]);
        if (known < 0 || !is_taken(r, r->codec[i].format) || !has_rows(r->model, r->codec[i])) {
            t->left_out++;
            continue;
        }
        t->row[t->rows].codec = r->codec[i];
        KF_TRY(fill_row(r, t, known, &t->row[t->rows], err));
        t->rows++;
    }
    if (t->rows == 0)
        return kf_fail(
            err, KERF_E_NOSUP, KF_NOWHERE,
            "no candidate is left: layout and runtime take none of them, no block of them "
            "divides its rows, or their errors are not in the table");
    qsort(t->row, t->rows, sizeof *t->row, by_error);
    for (t->best = 0; t->best < t->rows; t->best++)
        if (t->row[t->best].fits && t->row[t->best].holds == 2) break;
    return KERF_OK;
}

kerf_status kerf_advise_typical(const kerf_typical_request *r, kerf_typical **out, kerf_error *err)
{
    kerf_typical *t = NULL;
    *out = NULL;
    if (r->budget.t2 > 0)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                       "a limit on t2 needs the weights: errors of a config.json are typical ones");
    KF_TRY(kf_allocate(&t, 1, sizeof *t, err));
    t->request = *r;
    t->batch = r->batch > 0 ? r->batch : 1;
    t->context = r->context > 0 ? r->context : 4096;
    kerf_status s = fill_rows(r, t, err);
    if (s == KERF_OK)
        *out = t;
    else
        kerf_typical_close(t);
    return s;
}

void kerf_typical_close(kerf_typical *t)
{
    if (!t) return;
    free(t->row);
    free(t);
}
