/* score_json.c - what was scored and what was verified, for programs: the same keys in both. */
#include <kerf/verify.h>

#include <math.h>

#include "file/json/json_text.h"

static void add_number(json_t **row, const char *key, double value)
{
    kf_json_set(row, key, kf_json_number(value));
}

static void add_integer(json_t **row, const char *key, uint64_t value)
{
    kf_json_set(row, key, json_integer((json_int_t)value));
}

/* Adds the figures of a score; those of importance and compression only where there are any. */
static void add_figures(json_t **row, const kerf_score *s)
{
    add_integer(row, "elements", s->elements);
    add_integer(row, "bytes", s->bytes);
    add_number(row, "bpw", kerf_score_bpw(s));
    add_number(row, "t2", kerf_score_t2(s));
    if (!isnan(kerf_score_weighted_t2(s)))
        add_number(row, "weighted_t2", kerf_score_weighted_t2(s));
    add_number(row, "sqnr_db", kerf_score_sqnr_db(s));
    add_number(row, "bias", kerf_score_bias(s));
    add_number(row, "clip_share", kerf_score_clip_share(s));
    add_number(row, "max_error", s->max_error);
    add_number(row, "rest_t2", kerf_score_rest_t2(s));
    add_number(row, "zero_share", kerf_score_zero_share(s));
    add_number(row, "lost_share", kerf_score_lost_share(s));
    add_integer(row, "nonfinite", s->nonfinite);
    if (s->zstd_bytes) {
        add_integer(row, "code_bytes", s->code_bytes);
        add_integer(row, "zstd_bytes", s->zstd_bytes);
    }
}

/* --- scores -------------------------------------------------------------------------------- */

kerf_status kerf_scores_write(const kerf_scores *s, char **text, size_t *n, kerf_error *err)
{
    json_t *tensors = json_array(), *totals = json_array();
    char name[64];
    for (size_t i = 0; i < s->tensors * s->codecs; i++) {
        const kerf_codec codec = s->codec[i % s->codecs];
        json_t *row = json_pack("{s:s, s:s}", "name", s->weight[i / s->codecs]->name, "format",
                                kerf_codec_name(codec, name, sizeof name));
        add_figures(&row, &s->score[i]);
        kf_json_add(&tensors, row);
    }
    for (size_t c = 0; c < s->codecs; c++) {
        json_t *row = json_pack("{s:s}", "format", kerf_codec_name(s->codec[c], name, sizeof name));
        add_figures(&row, &s->total[c]);
        kf_json_add(&totals, row);
    }
    json_t *doc = json_pack("{s:s, s:o, s:o, s:o, s:o}", "schema", "kerf.score/1", "source",
                            kf_json_path(s->source), "imatrix", kf_json_path(s->imatrix), "totals",
                            totals, "tensors", tensors);
    return kf_json_write(doc, JSON_INDENT(2), text, n, err);
}

/* --- verification -------------------------------------------------------------------------- */

static json_t *row_json(const kerf_verify_row *r)
{
    char format[64];
    json_t *row = json_pack("{s:s}", "name", r->weight->name);
    if (r->other)
        kf_json_set(&row, "format",
                    json_string(kerf_weight_format(r->other, format, sizeof format)));
    if (!r->measured) return row;
    json_t *over = json_array();
    add_figures(&row, &r->score);
    for (unsigned f = 0; f < KERF_FIGURES; f++) {
        if (!(r->over >> f & 1u)) continue;
        const kerf_figure figure = (kerf_figure)f;
        kf_json_add(&over, json_pack("{s:s, s:o, s:o}", "figure", kerf_figure_name(figure),
                                     "measured", kf_json_number(kerf_figure_of(&r->score, figure)),
                                     "limit", kf_json_number(r->limit[f])));
    }
    kf_json_set(&row, "over", over);
    return row;
}

static json_t *problem_json(const char *tensor, const char *text)
{
    return json_pack("{s:s, s:o}", "tensor", tensor, "text", kf_json_path(text));
}

kerf_status kerf_verification_write(const kerf_verification *v, char **text, size_t *n,
                                    kerf_error *err)
{
    json_t *tensors = json_array(), *problems = json_array(), *total = json_object();
    for (size_t i = 0; i < v->rows; i++) {
        const kerf_verify_row *r = &v->row[i];
        kf_json_add(&tensors, row_json(r));
        if (r->problem[0]) kf_json_add(&problems, problem_json(r->weight->name, r->problem));
    }
    for (size_t i = 0; i < v->extras; i++)
        kf_json_add(&problems, problem_json(v->extra[i], "is not in the source"));
    add_figures(&total, &v->total);
    json_t *doc = json_pack("{s:s, s:o, s:o, s:b, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "schema",
                            "kerf.verify/1", "source", kf_json_path(v->source), "quantized",
                            kf_json_path(v->other), "pass", v->passed, "measured",
                            (json_int_t)v->measured, "equal", (json_int_t)v->equal, "over",
                            (json_int_t)v->over, "nonfinite", (json_int_t)v->nonfinite, "total",
                            total, "tensors", tensors, "problems", problems);
    return kf_json_write(doc, JSON_INDENT(2), text, n, err);
}
