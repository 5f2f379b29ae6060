/* predict_shapes.c - kerf predict for matrix products: every shape x batch x format of the lists.
 */
#include "verbs/predict_verb.h"

typedef struct shape_question {
    const kerf_hardware *hardware;
    const kerf_format *activations;
    products_option lists;
    double matrices;
} shape_question;

/* One line of the answer. */
typedef struct shape_answer {
    const kerf_format *format;
    kerf_weight_shape shape;
    unsigned batch;
    kerf_work work;
    kerf_prediction time;
    double speedup; /* over bf16 weights, same shape and batch */
} shape_answer;

static kerf_status read_question(shape_question *q, const args *a, kerf_error *err)
{
    int matrices = 1;
    TRY(option_products_open(&q->lists, a, NULL, err));
    TRY(args_integer(a, "matrices", 1, 1 << 20, &matrices, err));
    q->matrices = matrices;
    return option_activations(a, &q->activations, err);
}

/* --- answers ------------------------------------------------------------------------------- */

static kerf_status predict_one(const shape_question *q, const kerf_format *f,
                               kerf_weight_shape shape, unsigned batch, shape_answer *out,
                               kerf_error *err)
{
    kerf_matmul m = {.format = f,
                     .activations = q->activations,
                     .n = shape.n,
                     .k = shape.k,
                     .rows = (double)batch * q->matrices,
                     .matrices = q->matrices};
    *out = (shape_answer){.format = f, .shape = shape, .batch = batch};
    TRY(kerf_matmul_work(q->hardware, &m, &out->work, err));
    TRY(kerf_predict(q->hardware, &m, &out->time, err));
    if (f->id == KERF_FORMAT_BF16) {
        out->speedup = 1;
        return KERF_OK;
    }
    kerf_prediction bf16;
    m.format = kerf_format_find("bf16");
    m.activations = NULL;
    TRY(kerf_predict(q->hardware, &m, &bf16, err));
    out->speedup = bf16.us / out->time.us;
    return KERF_OK;
}

typedef kerf_status (*take_answer)(void *ctx, const shape_answer *a, kerf_error *err);

/* Of many shapes, the one that cannot be is named. */
static kerf_status name_shape(kerf_status s, kerf_weight_shape shape, kerf_error *err)
{
    if (s == KERF_OK) return s;
    const kerf_error why = *err;
    return kerf_fail(err, s, "product %llux%llu: %s", (unsigned long long)shape.n,
                     (unsigned long long)shape.k, why.text);
}

static kerf_status for_each(const shape_question *q, take_answer take, void *ctx, kerf_error *err)
{
    shape_answer a;
    const products_option *l = &q->lists;
    for (size_t i = 0; i < l->shapes; i++) {
        for (size_t b = 0; b < l->batches; b++) {
            for (size_t f = 0; f < l->formats; f++) {
                TRY(name_shape(predict_one(q, l->format[f], l->shape[i], l->batch[b], &a, err),
                               l->shape[i], err));
                TRY(take(ctx, &a, err));
            }
        }
    }
    return KERF_OK;
}

/* --- output -------------------------------------------------------------------------------- */

static kerf_status take_row(void *ctx, const shape_answer *a, kerf_error *err)
{
    table *t = ctx;
    const kerf_prediction *p = &a->time;
    (void)err;
    table_cell(t, "%llux%llu", (unsigned long long)a->shape.n, (unsigned long long)a->shape.k);
    table_cell(t, "%u", a->batch);
    table_cell(t, "%s", a->format->name);
    table_cell(t, "%.3f", kerf_work_bytes(&a->work) * 1e-6);
    time_cells(t, p);
    table_cell(t, "%.2f", p->intensity);
    table_cell(t, "%.0f", p->ridge);
    table_cell(t, "%s", kerf_bound_name(p->bound));
    table_cell(t, "%.2f", a->speedup);
    return KERF_OK;
}

static kerf_status print_rows(const shape_question *q, kerf_error *err)
{
    table *t = NULL;
    TRY(table_open(&t, "NxK|>batch|format|+>MB|tier|>us|+>flop/B|+>ridge|bound|>vs bf16", err));
    kerf_status status = for_each(q, take_row, t, err);
    status = table_end(t, status, err);
    if (status == KERF_OK) print_tier_note(q->hardware);
    return status;
}

static kerf_status take_csv(void *ctx, const shape_answer *a, kerf_error *err)
{
    const shape_question *q = ctx;
    const kerf_prediction *p = &a->time;
    (void)err;
    printf("%s,%llu,%llu,%u,%.0f,%s,%s,%.4f,%.4f,%.4f,%.0f,%.0f,%.4f,%.2f,%s,%.4f\n",
           shown(q->hardware->name), (unsigned long long)a->shape.n, (unsigned long long)a->shape.k,
           a->batch, q->matrices, a->format->name, kerf_tier_name(p->tier), p->low_us, p->us,
           p->high_us, kerf_work_bytes(&a->work), a->work.flops, p->intensity, p->ridge,
           kerf_bound_name(p->bound), a->speedup);
    return KERF_OK;
}

static kerf_status take_json(void *ctx, const shape_answer *a, kerf_error *err)
{
    json_t *row =
        json_pack("{s:I, s:I, s:I, s:s}", "n", (json_int_t)a->shape.n, "k", (json_int_t)a->shape.k,
                  "batch", (json_int_t)a->batch, "format", a->format->name);
    (void)err;
    prediction_json(&row, &a->time);
    json_set(&row, "weight_bytes", json_real(a->work.weight_bytes));
    json_set(&row, "bytes", json_real(kerf_work_bytes(&a->work)));
    json_set(&row, "flops", json_real(a->work.flops));
    json_set(&row, "speedup", json_real(a->speedup));
    json_add(ctx, row);
    return KERF_OK;
}

static kerf_status print_answers(shape_question *q, const args *a, kerf_error *err)
{
    if (args_has(a, "json")) {
        json_t *rows = json_array();
        kerf_status status = for_each(q, take_json, &rows, err);
        if (status != KERF_OK) {
            json_decref(rows);
            return status;
        }
        return print_json("predict",
                          json_pack("{s:s, s:f, s:o}", "hardware", q->hardware->name, "matrices",
                                    q->matrices, "predictions", rows),
                          err);
    }
    if (!args_has(a, "csv")) return print_rows(q, err);
    printf("hardware,n,k,batch,matrices,format,tier,low_us,us,high_us,bytes,flops,intensity,ridge,"
           "bound,speedup\n");
    return for_each(q, take_csv, q, err);
}

kerf_status predict_shapes(const args *a, const kerf_hardware *h, kerf_error *err)
{
    shape_question q = {.hardware = h};
    kerf_status status = read_question(&q, a, err);
    if (status == KERF_OK) status = print_answers(&q, a, err);
    option_products_close(&q.lists);
    return status;
}
