/* figures.c - the figures of a score, as columns and as keys. */
#include "verbs/figures.h"

#include <math.h>

double sqnr_db(const kerf_score *s)
{
    return -10 * log10(kerf_score_t2(s));
}

static double zstd_percent(const kerf_score *s)
{
    return s->code_bytes ? 100 * (double)s->zstd_bytes / (double)s->code_bytes : 0;
}

void figures_json(json_t *row, const kerf_score *s)
{
    json_object_set_new(row, "elements", json_integer((json_int_t)s->elements));
    json_object_set_new(row, "bytes", json_integer((json_int_t)s->bytes));
    json_object_set_new(row, "bpw", json_figure(kerf_score_bpw(s)));
    json_object_set_new(row, "t2", json_figure(kerf_score_t2(s)));
    if (!isnan(kerf_score_weighted_t2(s))) {
        json_object_set_new(row, "weighted_t2", json_figure(kerf_score_weighted_t2(s)));
    }
    json_object_set_new(row, "sqnr_db", json_figure(sqnr_db(s)));
    json_object_set_new(row, "bias", json_figure(kerf_score_bias(s)));
    json_object_set_new(row, "clip_share", json_figure(kerf_score_clip_share(s)));
    json_object_set_new(row, "max_error", json_figure(s->max_error));
    json_object_set_new(row, "nonfinite", json_integer((json_int_t)s->nonfinite));
    if (s->zstd_bytes) {
        json_object_set_new(row, "code_bytes", json_integer((json_int_t)s->code_bytes));
        json_object_set_new(row, "zstd_bytes", json_integer((json_int_t)s->zstd_bytes));
    }
}

const char *figures_headings(unsigned show)
{
    static const char *const headings[] = {
        "|>bpw|>t2|>SQNR dB|>bias|>clipped|>max error",
        "|>bpw|>t2|>weighted|>SQNR dB|>bias|>clipped|>max error",
        "|>bpw|>t2|>SQNR dB|>bias|>clipped|>max error|>zstd",
        "|>bpw|>t2|>weighted|>SQNR dB|>bias|>clipped|>max error|>zstd",
    };
    return headings[show & 3u];
}

void figures_cells(table *t, const kerf_score *s, unsigned show)
{
    table_cell(t, "%.3f", kerf_score_bpw(s));
    table_cell(t, "%.3e", kerf_score_t2(s));
    if (show & SHOW_WEIGHTED) {
        double weighted = kerf_score_weighted_t2(s);
        if (isnan(weighted)) {
            table_cell(t, "-");
        } else {
            table_cell(t, "%.3e", weighted);
        }
    }
    table_cell(t, "%.2f", sqnr_db(s));
    table_cell(t, "%+.1e", kerf_score_bias(s));
    table_cell(t, "%.4f %%", 100 * kerf_score_clip_share(s));
    table_cell(t, "%.3e", s->max_error);
    if (show & SHOW_ZSTD) table_cell(t, "%.1f %%", zstd_percent(s));
}
