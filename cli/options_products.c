/* options_products.c - reads lists of formats, shapes and batches. */
#include "options_products.h"

#include <errno.h>
#include <stdlib.h>

#include "options.h"

enum { MAX_SHAPES = 4096 };

/* --- lists --------------------------------------------------------------------------------- */

/* A whole number at *text, which is moved past it. */
static int take_number(const char **text, uint64_t most, uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    if (**text < '0' || **text > '9') return 0;
    unsigned long long x = strtoull(*text, &end, 10);
    if (errno || x < 1 || x > most) return 0;
    *text = end;
    *out = x;
    return 1;
}

static kerf_status read_shapes(const char *text, products_option *l, kerf_error *err)
{
    const uint64_t most = UINT64_C(1) << 32;
    if (!text) return KERF_OK;
    TRY(allocate(&l->shape, MAX_SHAPES, sizeof *l->shape, err));
    for (const char *p = text;; p++) {
        if (l->shapes == MAX_SHAPES) return USAGE(err, "--shape: more than %d shapes", MAX_SHAPES);
        kerf_weight_shape *next = &l->shape[l->shapes];
        if (!take_number(&p, most, &next->n) || *p++ != 'x' || !take_number(&p, most, &next->k) ||
            (*p && *p != ',')) {
            return USAGE(err, "--shape %.60s: expected NxK,NxK,...: outputs x inputs", text);
        }
        l->shapes++;
        if (!*p) return KERF_OK;
    }
}

static kerf_status read_batches(const char *text, products_option *l, kerf_error *err)
{
    for (const char *p = text ? text : "1";; p++) {
        uint64_t batch = 0;
        if (l->batches == MAX_BATCHES || !take_number(&p, 1u << 30, &batch) || (*p && *p != ',')) {
            return USAGE(err, "--batch %.60s: expected up to %d whole numbers: 1,4,16", text,
                         MAX_BATCHES);
        }
        l->batch[l->batches++] = (unsigned)batch;
        if (!*p) return KERF_OK;
    }
}

static kerf_status read_formats(const char *text, products_option *l, kerf_error *err)
{
    kerf_codec_list all = {0};
    kerf_status s = option_codecs(text ? text : PRODUCT_FORMATS, &all, err);
    if (s == KERF_OK) s = allocate(&l->format, all.count, sizeof *l->format, err);
    for (size_t i = 0; s == KERF_OK && i < all.count; i++) {
        const kerf_format *f = all.codec[i].format;
        if (i && f == all.codec[i - 1].format) continue; /* another encoder of it */
        l->format[l->formats++] = f;
    }
    kerf_codec_list_free(&all);
    return s;
}

kerf_status option_products_open(products_option *l, const args *a, const char *shapes,
                                 kerf_error *err)
{
    const char *given = args_value(a, "shape");
    *l = (products_option){0};
    TRY(read_shapes(given ? given : shapes, l, err));
    TRY(read_batches(args_value(a, "batch"), l, err));
    return read_formats(args_value(a, "format"), l, err);
}

void option_products_close(products_option *l)
{
    free(l->format);
    free(l->shape);
    *l = (products_option){0};
}

kerf_status option_format(const args *a, const char *name, const kerf_format **out, kerf_error *err)
{
    const char *text = args_value(a, name);
    kerf_codec codec;
    if (!text) return KERF_OK;
    TRY(option_codec(text, &codec, err));
    *out = codec.format;
    return KERF_OK;
}

/* --- several GPUs -------------------------------------------------------------------------- */

const option option_gpu_count = {
    "gpus", 0, "N", "so many GPUs of this kind share every layer (tensor parallel; default: 1)"};
const option option_expert_parallel = {
    "expert-parallel", 0, NULL, "each expert is whole on one of the --gpus, not shared by all"};

kerf_status option_gpus(const args *a, int *gpus, int *expert_parallel, kerf_error *err)
{
    *gpus = 1;
    TRY(args_integer(a, "gpus", 1, 1024, gpus, err));
    *expert_parallel = args_has(a, "expert-parallel");
    if (*expert_parallel && *gpus == 1) return USAGE(err, "--expert-parallel needs --gpus N");
    return KERF_OK;
}

/* --- measuring ----------------------------------------------------------------------------- */

const option option_measure_format = {"format", 'f', "LIST",
                                      "formats, patterns, or all (default: those of kerf predict)"};
const option option_measure_batch = {"batch", 'b', "N,N,...",
                                     "columns of X, at most 16 (default: 1)"};
const option option_measure_type = {"dtype", 0, "TYPE", "of X: bf16 (default), fp16, fp32"};
const option option_measure_trials = {
    "trials", 'n', "N", "runs of which the median counts (default: 21, on a GPU 9 graphs)"};

kerf_status option_measure_open(measure_option *m, const args *a, const char *shapes,
                                kerf_error *err)
{
    static const char *const types[] = {"bf16", "fp16", "fp32", NULL};
    static const kerf_dtype type_of[] = {KERF_BF16, KERF_F16, KERF_F32};
    int type = 0, trials = 0;
    *m = (measure_option){0};
    TRY(option_products_open(&m->lists, a, shapes, err));
    for (size_t i = 0; i < m->lists.batches; i++) {
        if (m->lists.batch[i] <= KERF_GEMV_COLUMNS) continue;
        return USAGE(err, "--batch %u: matrix-vector kernels have at most %d columns",
                     m->lists.batch[i], KERF_GEMV_COLUMNS);
    }
    TRY(args_choice(a, "dtype", types, &type, err));
    TRY(args_integer(a, "trials", 1, KERF_TIMER_TRIALS, &trials, err));
    TRY(option_exec_open(a, &m->exec, err));
    if (!args_has(a, "threads")) m->exec.threads = 0; /* no readers and writers beside a product */
    m->request =
        (kerf_measure_request){.format = m->lists.format,
                               .formats = m->lists.formats,
                               .shape = m->lists.shape,
                               .shapes = m->lists.shapes,
                               .batch = m->lists.batch,
                               .batches = m->lists.batches,
                               .timer = {.exec = &m->exec, .x = type_of[type], .trials = trials}};
    return KERF_OK;
}

void option_measure_close(measure_option *m)
{
    option_products_close(&m->lists);
    option_exec_close(&m->exec);
    *m = (measure_option){0};
}
