/* predict_shapes.c - kerf predict for matrix products: every shape x batch x format of the lists.
 */
#include <stdlib.h>
#include <string.h>

#include <kerf/predict.h>

#include "verbs/codec_list.h"
#include "verbs/predict_verb.h"

typedef struct sweep {
    const kerf_hardware *hardware;
    const kerf_format *activations;
    shape_list shapes;
    batches batch;
    codec_list codecs;
    double matrices;
} sweep;

/* One line of the answer. */
typedef struct answer {
    const kerf_format *format;
    shape shape;
    uint64_t batch;
    kerf_work work;
    kerf_prediction time;
    double speedup; /* over bf16 weights, same shape and batch */
} answer;

/* --- lists --------------------------------------------------------------------------------- */

static kerf_status parse_sweep(sweep *s, const args *a, kerf_error *err)
{
    int matrices = 1;
    const char *formats = args_value(a, "format");
    TRY(parse_shapes(args_value(a, "shape"), &s->shapes, err));
    TRY(parse_batches(args_value(a, "batch"), &s->batch, err));
    TRY(args_integer(a, "matrices", 1, 1 << 20, &matrices, err));
    s->matrices = matrices;
    TRY(parse_activations(a, &s->activations, err));
    return codec_list_parse(&s->codecs, formats ? formats : PREDICT_FORMATS, err);
}

/* --- answers ------------------------------------------------------------------------------- */

static kerf_status predict_one(const sweep *s, const kerf_format *f, shape sh, uint64_t batch,
                               answer *out, kerf_error *err)
{
    kerf_matmul m = {.format = f,
                     .activations = s->activations,
                     .n = sh.n,
                     .k = sh.k,
                     .rows = (double)batch * s->matrices,
                     .matrices = s->matrices};
    *out = (answer){.format = f, .shape = sh, .batch = batch};
    TRY(kerf_matmul_work(s->hardware, &m, &out->work, err));
    TRY(kerf_predict(s->hardware, &m, &out->time, err));
    if (f->id == KERF_FORMAT_BF16) {
        out->speedup = 1;
        return KERF_OK;
    }
    kerf_prediction bf16;
    m.format = kerf_format_find("bf16");
    m.activations = NULL;
    TRY(kerf_predict(s->hardware, &m, &bf16, err));
    out->speedup = bf16.us / out->time.us;
    return KERF_OK;
}

typedef kerf_status (*take_answer)(void *ctx, const answer *a, kerf_error *err);

static kerf_status for_each(const sweep *s, take_answer take, void *ctx, kerf_error *err)
{
    answer a;
    for (size_t i = 0; i < s->shapes.count; i++) {
        for (size_t b = 0; b < s->batch.count; b++) {
            for (size_t c = 0; c < s->codecs.count; c++) {
                const kerf_format *f = s->codecs.item[c].format;
                if (c && f == s->codecs.item[c - 1].format) continue; /* another encoder */
                TRY(predict_one(s, f, s->shapes.item[i], s->batch.item[b], &a, err));
                TRY(take(ctx, &a, err));
            }
        }
    }
    return KERF_OK;
}

/* --- output -------------------------------------------------------------------------------- */

static kerf_status take_row(void *ctx, const answer *a, kerf_error *err)
{
    table *t = ctx;
    const kerf_prediction *p = &a->time;
    (void)err;
    table_cell(t, "%llux%llu", (unsigned long long)a->shape.n, (unsigned long long)a->shape.k);
    table_cell(t, "%llu", (unsigned long long)a->batch);
    table_cell(t, "%s", a->format->name);
    table_cell(t, "%.3f", kerf_work_bytes(&a->work) * 1e-6);
    time_cells(t, p);
    table_cell(t, "%.2f", p->intensity);
    table_cell(t, "%.0f", p->ridge);
    table_cell(t, "%s", kerf_bound_name(p->bound));
    table_cell(t, "%.2f", a->speedup);
    return KERF_OK;
}

static kerf_status print_rows(const sweep *s, kerf_error *err)
{
    table *t = NULL;
    TRY(table_open(&t, "NxK|>batch|format|>MB|tier|>us|>flop/B|>ridge|bound|>vs bf16", err));
    kerf_status status = for_each(s, take_row, t, err);
    if (status == KERF_OK) status = table_print(t, stdout, err);
    table_close(t);
    if (status == KERF_OK) print_tier_note(s->hardware);
    return status;
}

static kerf_status take_csv(void *ctx, const answer *a, kerf_error *err)
{
    const sweep *s = ctx;
    const kerf_prediction *p = &a->time;
    (void)err;
    printf("%s,%llu,%llu,%llu,%.0f,%s,%s,%.4f,%.4f,%.4f,%.0f,%.0f,%.4f,%.2f,%s,%.4f\n",
           s->hardware->name, (unsigned long long)a->shape.n, (unsigned long long)a->shape.k,
           (unsigned long long)a->batch, s->matrices, a->format->name, kerf_tier_name(p->tier),
           p->low_us, p->us, p->high_us, kerf_work_bytes(&a->work), a->work.flops, p->intensity,
           p->ridge, kerf_bound_name(p->bound), a->speedup);
    return KERF_OK;
}

static kerf_status take_json(void *ctx, const answer *a, kerf_error *err)
{
    json_t *row =
        json_pack("{s:I, s:I, s:I, s:s}", "n", (json_int_t)a->shape.n, "k", (json_int_t)a->shape.k,
                  "batch", (json_int_t)a->batch, "format", a->format->name);
    (void)err;
    prediction_json(row, &a->time);
    json_object_set_new(row, "weight_bytes", json_real(a->work.weight_bytes));
    json_object_set_new(row, "bytes", json_real(kerf_work_bytes(&a->work)));
    json_object_set_new(row, "flops", json_real(a->work.flops));
    json_object_set_new(row, "speedup", json_real(a->speedup));
    json_array_append_new(ctx, row);
    return KERF_OK;
}

static kerf_status print_sweep(sweep *s, const args *a, kerf_error *err)
{
    if (args_has(a, "json")) {
        json_t *rows = json_array();
        kerf_status status = for_each(s, take_json, rows, err);
        if (status != KERF_OK) {
            json_decref(rows);
            return status;
        }
        return print_json("predict",
                          json_pack("{s:s, s:f, s:o}", "hardware", s->hardware->name, "matrices",
                                    s->matrices, "predictions", rows),
                          err);
    }
    if (!args_has(a, "csv")) return print_rows(s, err);
    printf("hardware,n,k,batch,matrices,format,tier,low_us,us,high_us,bytes,flops,intensity,ridge,"
           "bound,speedup\n");
    return for_each(s, take_csv, s, err);
}

kerf_status predict_shapes(const args *a, const kerf_hardware *h, kerf_error *err)
{
    sweep s = {.hardware = h};
    kerf_status status = parse_sweep(&s, a, err);
    if (status == KERF_OK) status = print_sweep(&s, a, err);
    codec_list_free(&s.codecs);
    shape_list_free(&s.shapes);
    return status;
}
