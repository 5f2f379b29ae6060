/* figures.c - the figures of a score as columns of a table, and a predicted time. */
#include "verbs/figures.h"

#include <kerf/inspect.h>
#include <math.h>

#include "terminal.h"

static double zstd_percent(const kerf_score *s)
{
    return s->code_bytes ? 100 * (double)s->zstd_bytes / (double)s->code_bytes : 0;
}

const char *figures_headings(unsigned show)
{
    static const char *const headings[] = {
        "|>bpw|>t2|+>SQNR dB|+>bias|+>clipped|>max error",
        "|>bpw|>t2|>weighted|+>SQNR dB|+>bias|+>clipped|>max error",
        "|>bpw|>t2|+>SQNR dB|+>bias|+>clipped|>max error|+>zstd",
        "|>bpw|>t2|>weighted|+>SQNR dB|+>bias|+>clipped|>max error|+>zstd",
    };
    return headings[show & 3u];
}

kerf_status note_ruined(const kerf_checkpoint *source, kerf_error *err)
{
    char text[512], shown[512];
    size_t count;
    TRY(kerf_find_ruined(source, text, sizeof text, &count, NULL, err));
    if (count == 0) return KERF_OK;
    print_note("the source is ruined: %s%s; kerf inspect shows all",
               kerf_text_printable(text, shown, sizeof shown), count > 1 ? ", and others" : "");
    return KERF_OK;
}

void print_ruined(const char *tensor, const kerf_score *s)
{
    char name[256];
    const double rest = kerf_score_rest_t2(s), lost = kerf_score_lost_share(s);
    if (lost > 0)
        printf("%s: %.2g %% of its blocks of 128 weights have lost more than half of themselves, "
               "which one scale far above the others does\n",
               kerf_text_printable(tensor, name, sizeof name), 100 * lost);
    if (!(rest > 0.1 && rest > 4 * kerf_score_t2(s))) return;
    printf(
        "%s: %llu of %llu weights become zero; an outlier has taken all of the range, and without "
        "it t2 is %.2g\n",
        kerf_text_printable(tensor, name, sizeof name), (unsigned long long)s->zeroed,
        (unsigned long long)s->elements, rest);
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
    table_cell(t, "%.2f", kerf_score_sqnr_db(s));
    table_cell(t, "%+.1e", kerf_score_bias(s));
    table_cell(t, "%.4f %%", 100 * kerf_score_clip_share(s));
    table_cell(t, "%.3e", s->max_error);
    if (show & SHOW_ZSTD) table_cell(t, "%.1f %%", zstd_percent(s));
}

void time_cells(table *t, const kerf_prediction *p)
{
    table_cell(t, "%s%s", kerf_tier_name(p->tier), p->extrapolated ? " (edge)" : "");
    if (p->tier == KERF_TIER_SPEC) {
        table_cell(t, "%.2f..%.2f", p->low_us, p->high_us);
    } else {
        table_cell(t, "%.2f", p->us);
    }
}
