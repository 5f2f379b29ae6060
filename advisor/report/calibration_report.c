/* calibration_report.c - what a calibration says of each weight, as JSON and as lines of text. */
#include <kerf/calibrate.h>
#include <kerf/importance.h>
#include <kerf/words.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/ci_text.h"
#include "file/json/json_text.h"

typedef struct weight_row {
    const kerf_weight *weight;
    kerf_alpha_value alpha;
    float amax;
} weight_row;

typedef struct weight_rows {
    weight_row *row;
    size_t rows;
} weight_rows;

static kerf_status list_rows(const kerf_calibration *c, const kerf_checkpoint *source,
                             weight_rows *out, kerf_error *err)
{
    const kerf_weights *all = kerf_checkpoint_weights(source);
    KF_TRY(kf_allocate(&out->row, kerf_weights_count(all), sizeof *out->row, err));
    for (size_t i = 0; i < kerf_weights_count(all); i++) {
        weight_row *r = &out->row[out->rows];
        r->weight = kerf_weights_at(all, i);
        if (!kerf_importance_names(kerf_calibration_imatrix(c), r->weight)) continue;
        KF_TRY(kerf_calibration_alpha(c, r->weight, &r->alpha, err));
        KF_TRY(kerf_calibration_amax(c, r->weight, &r->amax, err));
        out->rows++;
    }
    return KERF_OK;
}

static void put_rows(FILE *to, const void *ctx)
{
    const weight_rows *all = ctx;
    char name[KERF_MAX_NAME_BYTES + 1];
    int width = 6;
    for (size_t i = 0; i < all->rows; i++) {
        const int n = (int)strlen(all->row[i].weight->name);
        width = n > width ? n : width;
    }
    fprintf(to, "%-*s  %9s  %9s  %9s\n", width, "weight", "alpha", "its error", "input");
    for (size_t i = 0; i < all->rows; i++) {
        const weight_row *r = &all->row[i];
        fprintf(to, "%-*s", width, kerf_text_printable(r->weight->name, name, sizeof name));
        if (isnan(r->alpha.value))
            fprintf(to, "  %9s  %9s", "-", "-");
        else
            fprintf(to, "  %9.4g  %9.2g", r->alpha.value, r->alpha.error);
        fprintf(to, "  %9.4g\n", (double)r->amax);
    }
}

static json_t *pack_rows(const kerf_calibration *c, const weight_rows *all)
{
    json_t *rows = json_array();
    for (size_t i = 0; i < all->rows; i++) {
        const weight_row *r = &all->row[i];
        kf_json_add(&rows, json_pack("{s:s, s:o, s:o, s:o, s:b}", "name", r->weight->name, "alpha",
                                     kf_json_number(r->alpha.value), "alpha_error",
                                     kf_json_number(r->alpha.error), "amax",
                                     kf_json_number((double)r->amax), "gram",
                                     kerf_calibration_has_gram(c, r->weight)));
    }
    return rows;
}

kerf_status kerf_calibration_write(const kerf_calibration *c, const kerf_checkpoint *source,
                                   kerf_calibration_kind kind, char **text, size_t *n,
                                   kerf_error *err)
{
    const kerf_calibration_about about = kerf_calibration_describe(c);
    const char *by = about.alphas == 0 ? NULL : about.by_kl ? "kl" : "loss";
    weight_rows all = {0};
    kerf_status s = list_rows(c, source, &all, err);
    if (s == KERF_OK && kind == KERF_CALIBRATION_TEXT) {
        s = kf_ci_print(put_rows, &all, text, n, err);
    } else if (s == KERF_OK) {
        json_t *doc =
            json_pack("{s:s, s:o, s:o, s:I, s:s?, s:o}", "schema", "kerf.calibrate/1", "source",
                      kf_json_path(kerf_checkpoint_path(source)), "output",
                      kf_json_path(kerf_checkpoint_path(kerf_calibration_imatrix(c))), "tokens",
                      (json_int_t)about.tokens, "alpha_by", by, "weights", pack_rows(c, &all));
        s = kf_json_write(doc, JSON_INDENT(2), text, n, err);
    }
    free(all.row);
    return s;
}
