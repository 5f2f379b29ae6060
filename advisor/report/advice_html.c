/* advice_html.c - the report as one HTML file: no script, no font, nothing fetched. Charts are
 * inline SVG in CSS variables, so that light and dark are two sets of colours. */
#include <math.h>
#include <string.h>

#include <kerf/words.h>

#include "report/report.h"
#include "report/svg_chart.h"

static const char style[] =
    ":root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#5b6570;--line:#d5dae0;--a:#1f5fbf;"
    "--b:#b3541e;--c:#2b7a3d;--lo:#e9eff8;--hi:#1f5fbf}"
    "@media(prefers-color-scheme:dark){:root{--bg:#14171b;--fg:#e4e8ec;--dim:#98a2ad;--line:#"
    "353c44;"
    "--a:#7fb0ff;--b:#f0a070;--c:#7fd08f;--lo:#20262e;--hi:#7fb0ff}}"
    "body{background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif;max-width:76rem;"
    "margin:2rem auto;padding:0 1rem}h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}"
    "p{max-width:60rem}.is{color:var(--b)}.got{color:var(--c)}.wide{overflow-x:auto}svg{max-width:"
    "100%;height:auto}"
    "svg text{fill:var(--fg);font:12px system-ui,sans-serif}"
    "svg.chart text{paint-order:stroke;stroke:var(--bg);stroke-width:3px}svg .dim{fill:var(--dim)}"
    "svg .grid{stroke:var(--line);fill:none}svg .a{stroke:var(--a);fill:none;stroke-width:2}"
    "svg .dot{fill:var(--b)}svg .pick{fill:var(--c)}svg .roof{stroke:var(--b);fill:none;"
    "stroke-width:2}table{border-collapse:collapse;width:100%;font-size:13px}"
    "th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid var(--line)}"
    "th{color:var(--dim);font-weight:600}td.n,th.n{text-align:right;white-space:nowrap;"
    "font-variant-numeric:tabular-nums}dl{display:grid;grid-template-columns:max-content 1fr;"
    "gap:.2rem 1rem}dt{color:var(--dim)}dd{margin:0}"
    ".verdict{font-size:1.15rem}pre{overflow-x:auto;background:var(--lo);padding:.5rem .8rem;"
    "border-radius:4px}.dim{color:var(--dim)}svg.chart{min-width:40rem}td:last-child{min-width:"
    "16rem}svg .num{font:10px system-ui,sans-serif}"
    /* two pages: the verdict and the frontier, then the layers; the table is for screens */
    "@media print{:root{--bg:#fff;--fg:#000;--dim:#444;--line:#d5dae0;--a:#1f5fbf;--b:#b3541e;"
    "--c:#2b7a3d;--lo:#e9eff8;--hi:#1f5fbf}@page{margin:12mm}body{max-width:none;margin:0;"
    "padding:0;font-size:11px}h1{font-size:16px}h2{font-size:13px;margin:.5rem 0 0}p,pre{margin:"
    ".3rem 0}.verdict{font-size:13px}svg{max-height:72mm;width:auto}.wide{overflow:visible}"
    "section{break-inside:avoid}.screen{display:none}svg.chart{min-width:0}}";

/* --- charts -------------------------------------------------------------------------------- */

static double bits_of(const kerf_advice_point *p)
{
    return p->bits;
}

static double us_of(const kerf_advice_point *p)
{
    return p->us;
}

/* A point with its numbers, for who holds the pointer there. */
static void point_title(const kerf_advice *a, const kerf_advice_point *p, const char *name,
                        char out[200])
{
    const int n = snprintf(out, 200, "%s: %.3f bits, %.1f MB, alpha t2 %.3g", name, p->bits,
                           p->bytes * 1e-6, p->t2);
    if (a->hardware && n > 0)
        snprintf(out + n, 200 - (size_t)n, ", %.1f us (%.1f to %.1f)", p->us, p->low_us,
                 p->high_us);
}

/* The name of a point and its error, for who reads a printed page. */
static void label_point(FILE *to, kf_svg_axes *axes, double x, double t2, double radius,
                        const char *name)
{
    char text[96];
    snprintf(text, sizeof text, "%s %.3g", name, t2);
    kf_svg_point_label(to, axes, x, t2, radius, text);
}

/* Error against size or time: the best choices, uniform formats, and the choice. */
static void put_pareto(const kerf_advice *a, FILE *to, const char *label,
                       const kerf_advice_curve *curve, double (*of)(const kerf_advice_point *))
{
    double x0 = INFINITY, x1 = 0, y0 = INFINITY, y1 = 0;
    char name[64], title[200];
    kerf_advice_point mine = kerf_advice_total(a);
    for (size_t i = 0; i < curve->count; i++) {
        const kerf_advice_point *p = &curve->point[i];
        x0 = fmin(x0, of(p));
        y1 = fmax(y1, p->t2);
    }
    for (size_t c = 0; c < a->codecs; c++) {
        kerf_advice_point p = kerf_advice_uniform(a, c);
        if (p.t2 > 0) y1 = fmax(y1, p.t2), x1 = fmax(x1, of(&p)), y0 = fmin(y0, p.t2);
        if (p.t2 > 0) x0 = fmin(x0, of(&p));
    }
    x1 = fmax(x1, of(&mine)); /* to where the choices are, not to where nothing is quantized */
    for (size_t i = 0; i < curve->count; i++) {
        const kerf_advice_point *p = &curve->point[i];
        if (p->t2 > 0 && of(p) <= x1) y0 = fmin(y0, p->t2);
    }
    if (!(x1 > x0) || !(y1 > y0)) {
        fprintf(to, "<p>Nothing to choose: no candidate is better than to keep every group.</p>\n");
        return;
    }
    kf_svg_axes axes = {.x0 = x0 - (x1 - x0) / 20,
                        .x1 = x1 + (x1 - x0) / 5,
                        .y0 = y0 / 1.5,
                        .y1 = y1 * 1.5,
                        .log_y = 1};
    kf_svg_open(to, &axes, label, "sum of alpha t2");
    fprintf(to, "<polyline class=\"a\" points=\"");
    for (size_t i = 0; i < curve->count; i++) {
        const kerf_advice_point *p = &curve->point[i];
        if (p->t2 >= axes.y0 && of(p) <= axes.x1)
            fprintf(to, "%.1f,%.1f ", kf_svg_x(&axes, of(p)), kf_svg_y(&axes, p->t2));
    }
    fprintf(to, "\"/>\n");
    for (int text = 0; text < 2; text++) { /* labels come when all dots are known */
        if (mine.t2 > 0 && text) {
            label_point(to, &axes, of(&mine), mine.t2, 6, "the choice");
        } else if (mine.t2 > 0) {
            point_title(a, &mine, "the choice", title);
            kf_svg_point(to, &axes, of(&mine), mine.t2, "pick", 6, title);
        }
        for (size_t c = 0; c < a->codecs; c++) {
            kerf_advice_point p = kerf_advice_uniform(a, c);
            kerf_advice_codec_name(a, c, name);
            if (p.t2 > 0 && text) label_point(to, &axes, of(&p), p.t2, 3.5, name);
            point_title(a, &p, name, title);
            if (p.t2 > 0 && !text) kf_svg_point(to, &axes, of(&p), p.t2, "dot", 3.5, title);
        }
    }
    kf_svg_close(to);
}

typedef struct roof_point {
    double intensity, tflops;
} roof_point;

/* Where a group lies with this candidate; all zeros when its time is not known. Of experts, those
 * count that some token chose. */
static roof_point find_point(const kerf_advice *a, const kerf_advice_group *g, size_t candidate)
{
    const kerf_advice_cost *x = &g->cost[candidate];
    double flops = 2 * g->elements * a->batch / a->gpus, moved = x->bytes / a->gpus;
    if (a->has_model && a->model.experts && g->experts) {
        double all = (double)a->model.experts, active = (double)a->model.experts_active;
        flops *= active / all;
        moved *= kerf_expected_experts(all, active, a->batch) / all;
    }
    if (!(x->us > 0) || !(moved > 0)) return (roof_point){0};
    return (roof_point){flops / moved, flops / x->us * 1e-6};
}

/* The products of the groups, under the roofs of the machine, as they are and as chosen. */
static void put_roofline(const kerf_advice *a, FILE *to)
{
    const kerf_hardware *h = a->hardware;
    double bandwidth = h->fact[KERF_FACT_BANDWIDTH].value * 1e-3; /* TFLOPS at 1 flop/B */
    double peak = kerf_peak_tflops(h, NULL, NULL), low = bandwidth / 4, left = 0.5;
    if (peak == 0) return;
    double ridge = peak / bandwidth, right = 4 * ridge;
    for (size_t i = 0; i < a->groups * 2; i++) {
        const kerf_advice_group *g = &a->group[i / 2];
        roof_point p = find_point(a, g, i % 2 ? g->pick : a->codecs);
        if (p.intensity == 0) continue;
        low = fmin(low, p.tflops);
        left = fmin(left, p.intensity);
        right = fmax(right, 2 * p.intensity);
    }
    kf_svg_axes axes = {
        .x0 = left / 2, .x1 = right, .y0 = low / 2, .y1 = 2 * peak, .log_x = 1, .log_y = 1};
    kf_svg_open(to, &axes, "operations per byte", "TFLOPS");
    fprintf(to, "<polyline class=\"roof\" points=\"%.1f,%.1f %.1f,%.1f %.1f,%.1f\"/>\n",
            kf_svg_x(&axes, axes.x0), kf_svg_y(&axes, axes.x0 * bandwidth), kf_svg_x(&axes, ridge),
            kf_svg_y(&axes, peak), kf_svg_x(&axes, right), kf_svg_y(&axes, peak));
    kf_svg_label(to, kf_svg_x(&axes, ridge), kf_svg_y(&axes, peak) - 6, "bf16 ridge");
    for (size_t i = 0; i < a->groups * 2; i++) {
        const kerf_advice_group *g = &a->group[i / 2];
        size_t candidate = i % 2 ? g->pick : a->codecs;
        roof_point p = find_point(a, g, candidate);
        char name[64], title[KERF_ADVICE_NAME + 80];
        if (p.intensity == 0) continue;
        snprintf(title, sizeof title, "%s: %s, %.2f us", g->name,
                 kerf_advice_codec_name(a, candidate, name), g->cost[candidate].us);
        kf_svg_point(to, &axes, p.intensity, p.tflops, i % 2 ? "pick" : "dot", 3.5, title);
    }
    for (size_t i = 0; i < a->groups; i++) { /* one of each kind is named, as chosen */
        const kerf_advice_group *g = &a->group[i];
        size_t k = 0;
        while (k < i && strcmp(kerf_advice_part(&a->group[k]), kerf_advice_part(g)) != 0) k++;
        const roof_point p = find_point(a, g, g->pick);
        if (k == i && p.intensity > 0)
            kf_svg_point_label(to, &axes, p.intensity, p.tflops, 3.5, kerf_advice_part(g));
    }
    kf_svg_close(to);
}

/* --- heat map ------------------------------------------------------------------------------ */

enum { MAP_ROWS = 64, CELL = 30, NAMES = 180, SHADE = 45 /* %: numbers stay readable */ };

typedef struct map_rows {
    const char *part[MAP_ROWS];
    size_t count;
    int layers;
} map_rows;

static void list_rows(const kerf_advice *a, map_rows *m)
{
    for (size_t i = 0; i < a->groups; i++) {
        const kerf_advice_group *g = &a->group[i];
        size_t r = 0;
        if (g->layer < 0) continue;
        if (g->layer + 1 > m->layers) m->layers = g->layer + 1;
        while (r < m->count && strcmp(m->part[r], kerf_advice_part(g)) != 0) r++;
        if (r == m->count && r < MAP_ROWS) m->part[m->count++] = kerf_advice_part(g);
    }
}

static double share_of_error(const kerf_advice_group *g, double total)
{
    return total > 0 ? g->cost[g->pick].t2 / total : 0;
}

/* What the shades mean. */
static void put_scale(FILE *to, int y, double most, int what)
{
    fprintf(to, "<text class=\"dim\" x=\"4\" y=\"%d\">layer along; shade:</text>\n", y + 14);
    for (int i = 0; i <= 4; i++)
        fprintf(to,
                "<rect x=\"%d\" y=\"%d\" width=\"28\" height=\"18\" style=\"fill:color-mix(in "
                "srgb,var(--hi) %d%%,var(--lo))\"/>\n<text class=\"num\" text-anchor=\"middle\" "
                "x=\"%d\" y=\"%d\">%.*f</text>\n",
                NAMES + i * 30, y, i * SHADE / 4, NAMES + i * 30 + 14, y + 13,
                what || most < 10 ? 1 : 0, (what ? 100 : 1) * most * i / 4);
    fprintf(to, "<text class=\"dim\" x=\"%d\" y=\"%d\">%s</text>\n", NAMES + 156, y + 14,
            what ? "%" : "bits");
}

/* A cell per group, layers along: what = 0 bits, what = 1 the share of the error. */
static void put_map(const kerf_advice *a, FILE *to, int what)
{
    map_rows m = {0};
    list_rows(a, &m);
    if (m.count == 0) return;
    double most = 0, total = kerf_advice_total(a).t2;
    for (size_t i = 0; i < a->groups; i++) {
        const kerf_advice_group *g = &a->group[i];
        most = fmax(most, what ? share_of_error(g, total) : kerf_advice_bits(g, g->pick));
    }
    int width = NAMES + m.layers * CELL + 10, height = (int)m.count * CELL + 60;
    if (width < NAMES + 200) width = NAMES + 200; /* for the scale */
    fprintf(to, "<div class=\"wide\"><svg viewBox=\"0 0 %d %d\" width=\"%d\" role=\"img\">\n",
            width, height, width);
    for (size_t r = 0; r < m.count; r++) {
        kf_svg_label(to, 4, (double)r * CELL + 46, m.part[r]);
    }
    for (int l = 0; l<m.layers; l += m.layers> 40 ? 8 : 1) {
        fprintf(to, "<text class=\"dim\" x=\"%d\" y=\"20\" text-anchor=\"middle\">%d</text>\n",
                NAMES + l * CELL + CELL / 2, l);
    }
    for (size_t i = 0; i < a->groups; i++) {
        const kerf_advice_group *g = &a->group[i];
        size_t r = 0;
        char name[64];
        if (g->layer < 0) continue;
        while (r < m.count && strcmp(m.part[r], kerf_advice_part(g)) != 0) r++;
        if (r == m.count) continue;
        double x = what ? share_of_error(g, total) : kerf_advice_bits(g, g->pick);
        double shade = most > 0 ? SHADE * x / most : 0;
        fprintf(to,
                "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"3\" style=\"fill:"
                "color-mix(in srgb,var(--hi) %.0f%%,var(--lo))\"><title>",
                NAMES + g->layer * CELL, 27 + (int)r * CELL, CELL - 2, CELL - 2, shade);
        kf_put_escaped(to, g->name);
        fprintf(to, ": %s, %.3f bits, %.1f %% of the error</title></rect>\n",
                kerf_advice_codec_name(a, g->pick, name), kerf_advice_bits(g, g->pick),
                100 * share_of_error(g, total));
        fprintf(to,
                "<text class=\"num\" text-anchor=\"middle\" x=\"%d\" y=\"%d\">"
                "%.*f</text>\n",
                NAMES + g->layer * CELL + CELL / 2 - 1, 27 + (int)r * CELL + CELL / 2 + 3,
                what || x < 10 ? 1 : 0, what ? 100 * x : x);
    }
    put_scale(to, height - 26, most, what);
    fprintf(to, "</svg></div>\n");
}

/* --- table --------------------------------------------------------------------------------- */

static void put_table(const kerf_advice *a, FILE *to)
{
    char name[64];
    int timed = a->hardware != NULL;
    fprintf(to,
            "<div class=\"wide\"><table><tr><th>group</th><th>format</th><th class=\"n\">bits</th>"
            "<th class=\"n\">alpha t2</th>%s<th>why</th></tr>\n",
            timed ? "<th class=\"n\">us</th>" : "");
    for (size_t i = 0; i < a->groups; i++) {
        const kerf_advice_group *g = &a->group[i];
        fprintf(to, "<tr><td>");
        kf_put_escaped(to, g->name);
        fprintf(to, "</td><td>%s</td><td class=\"n\">%.3f</td><td class=\"n\">%.3e</td>",
                kerf_advice_codec_name(a, g->pick, name), kerf_advice_bits(g, g->pick),
                g->cost[g->pick].t2);
        if (timed) fprintf(to, "<td class=\"n\">%.2f</td>", g->cost[g->pick].us);
        fprintf(to, "<td>");
        kf_put_escaped(to, g->reason);
        fprintf(to, "</td></tr>\n");
    }
    fprintf(to, "</table></div>\n");
}

void kf_put_html(const kerf_advice *a, FILE *to)
{
    fprintf(to,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
            "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
            "<title>kerf: precision advice</title><style>%s</style></head><body>\n"
            "<main>\n",
            style);
    kf_put_verdict(a, to);
    fprintf(to, "<section><h2>Error against size</h2>\n<p>Line: the best choice at every size. "
                "Dots: one format "
                "for all groups.</p>\n");
    put_pareto(a, to, "bits per weight", &a->by_size, bits_of);
    if (a->hardware) {
        fprintf(to, "</section><section><h2>Error against predicted time</h2>\n<p>Line: the best "
                    "choice at every time "
                    "of the products. Dots: one format for all groups.</p>\n");
        put_pareto(a, to, "us", &a->by_time, us_of);
        fprintf(to,
                "</section><section><h2>Roofline</h2>\n<p>Each group <span class=\"is\">as it "
                "is</span> and <span "
                "class=\"got\">as chosen</span>; the line is what %s could do at most.</p>\n",
                a->hardware->name);
        put_roofline(a, to);
    }
    fprintf(to, "</section><section><h2>Bits per weight by layer</h2>\n");
    put_map(a, to, 0);
    fprintf(to, "</section><section><h2>Share of the error by layer, in %%</h2>\n");
    put_map(a, to, 1);
    fprintf(to, "</section><section class=\"screen\"><h2>Groups</h2>\n");
    put_table(a, to);
    fprintf(to, "</section></main></body></html>\n");
}
