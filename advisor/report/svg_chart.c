/* svg_chart.c - writes SVG by hand: the charts are few and simple. */
#include "report/svg_chart.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 860, HEIGHT = 420, LEFT = 70, RIGHT = 30, TOP = 16, BOTTOM = 50 };
enum { LINE = 14, PER_LETTER = 7 }; /* pixels of a label: its height, and of a letter at most */

void kf_put_escaped(FILE *to, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '&': fputs("&amp;", to); break;
        case '<': fputs("&lt;", to); break;
        case '>': fputs("&gt;", to); break;
        case '"': fputs("&quot;", to); break;
        default: fputc((unsigned char)*text < 32 || *text == 127 ? '?' : *text, to);
        }
    }
}

/* Place of v between the ends of an axis, 0 to 1. */
static double place(double v, double lo, double hi, int logarithmic)
{
    double p = logarithmic ? log(v / lo) / log(hi / lo) : (v - lo) / (hi - lo);
    return fmin(1, fmax(0, p));
}

double kf_svg_x(const kf_svg_axes *a, double x)
{
    return LEFT + place(x, a->x0, a->x1, a->log_x) * (WIDTH - LEFT - RIGHT);
}

double kf_svg_y(const kf_svg_axes *a, double y)
{
    return HEIGHT - BOTTOM - place(y, a->y0, a->y1, a->log_y) * (HEIGHT - TOP - BOTTOM);
}

void kf_svg_label(FILE *to, double x, double y, const char *text)
{
    fprintf(to, "<text x=\"%.1f\" y=\"%.1f\">", x, y);
    kf_put_escaped(to, text);
    fprintf(to, "</text>\n");
}

static void tick(FILE *to, const kf_svg_axes *a, int vertical, double v)
{
    if (vertical) {
        double y = kf_svg_y(a, v);
        fprintf(to,
                "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text class=\"dim\" x=\"%d\" y=\"%.1f\" "
                "text-anchor=\"end\">%g</text>\n",
                LEFT, y, WIDTH - RIGHT, LEFT - 8, y + 4, v);
    } else {
        double x = kf_svg_x(a, v);
        fprintf(to,
                "<path class=\"grid\" d=\"M%.1f %dV%d\"/><text class=\"dim\" x=\"%.1f\" y=\"%d\" "
                "text-anchor=\"middle\">%g</text>\n",
                x, TOP, HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 18, v);
    }
}

/* Round values: powers of ten, or steps of 1, 2 or 5 times one. */
static void ticks(FILE *to, const kf_svg_axes *a, int vertical)
{
    double lo = vertical ? a->y0 : a->x0, hi = vertical ? a->y1 : a->x1;
    if (vertical ? a->log_y : a->log_x) {
        int first = (int)ceil(log10(lo) - 1e-9), last = (int)floor(log10(hi) + 1e-9);
        for (int e = first; e <= last; e++) tick(to, a, vertical, pow(10, e));
        for (int e = first - 1; last - first < 2 && e <= last; e++) {
            for (int m = 2; m <= 5; m += 3) {
                double v = m * pow(10, e);
                if (v >= lo && v <= hi) tick(to, a, vertical, v);
            }
        }
        return;
    }
    double step = pow(10, floor(log10((hi - lo) / 4)));
    while ((hi - lo) / step > 10) step *= (hi - lo) / step > 25 ? 5 : 2;
    for (double v = ceil(lo / step) * step; v <= hi; v += step) tick(to, a, vertical, v);
}

void kf_svg_open(FILE *to, const kf_svg_axes *a, const char *x_label, const char *y_label)
{
    fprintf(
        to,
        "<div class=\"wide\"><svg class=\"chart\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
        "role=\"img\">\n",
        WIDTH, HEIGHT, WIDTH, HEIGHT);
    ticks(to, a, 0);
    ticks(to, a, 1);
    fprintf(to, "<text class=\"dim\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10);
    kf_put_escaped(to, x_label);
    fprintf(to,
            "</text>\n<text class=\"dim\" transform=\"translate(16 %d) rotate(-90)\" "
            "text-anchor=\"middle\">",
            (TOP + HEIGHT - BOTTOM) / 2);
    kf_put_escaped(to, y_label);
    fprintf(to, "</text>\n");
}

void kf_svg_close(FILE *to)
{
    fprintf(to, "</svg></div>\n");
}

/* Where a label would lie: y is its middle, x0 and x1 are its ends. */
typedef struct label_box {
    double x0, x1, y;
} label_box;

/* Whether a label there of the dot at x, y would leave the chart, run into another label, or cover
 * another dot or stand beside it. */
static int is_taken(const kf_svg_axes *a, const label_box *b, double x, double y)
{
    if (b->x0 < LEFT || b->x1 > WIDTH || b->y < TOP || b->y > HEIGHT - BOTTOM - 6) return 1;
    for (int i = 0; i < a->labels; i++) {
        if (fabs(a->label[i].y - b->y) < LINE && a->label[i].x0 < b->x1 && b->x0 < a->label[i].x1)
            return 1;
    }
    for (int i = 0; i < a->points; i++) {
        const double px = a->point[i].x, py = a->point[i].y;
        if (hypot(px - x, py - y) < 1) continue; /* its own */
        if (fabs(py - b->y) < 9 && px > b->x0 - 12 && px < b->x1 + 12) return 1;
    }
    return 0;
}

/* The i-th place to try for a label of so many pixels: beside its dot, then ever further above and
 * below, right of the dot before left of it. */
static label_box box_at(int i, double x, double y, double radius, double width)
{
    const int up = i / 2, left = i % 2;
    const double gap = radius + (up ? 24 : 4);
    const label_box b = {.x0 = left ? x - gap - width : x + gap,
                         .y = y + 7 * (up % 2 ? -((up + 1) / 2) : up / 2)};
    return (label_box){b.x0, b.x0 + width, b.y};
}

/* Writes a label as near to its dot as there is room, with a line when that is not beside it. Where
 * there is none its tooltip remains. */
static void place_label(FILE *to, kf_svg_axes *a, double x, double y, double radius,
                        const char *text)
{
    enum { TRIES = 160 };
    const double width = PER_LETTER * (double)strlen(text);
    label_box b = box_at(0, x, y, radius, width);
    int i = 0;
    while (is_taken(a, &b, x, y) && ++i < TRIES) b = box_at(i, x, y, radius, width);
    if (i == TRIES || a->labels == KF_SVG_LABELS) return;
    if (i > 1) {
        const int left = b.x1 < x;
        fprintf(to, "<path class=\"grid\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n",
                left ? x - radius : x + radius, y, left ? b.x1 + 3 : b.x0 - 3, b.y);
    }
    kf_svg_label(to, b.x0, b.y + 4, text);
    a->label[a->labels].x0 = b.x0;
    a->label[a->labels].x1 = b.x1;
    a->label[a->labels++].y = b.y;
}

void kf_svg_point(FILE *to, kf_svg_axes *a, double x, double y, const char *class_name,
                  double radius, const char *title)
{
    fprintf(to, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"><title>", class_name,
            kf_svg_x(a, x), kf_svg_y(a, y), radius);
    kf_put_escaped(to, title);
    fprintf(to, "</title></circle>\n");
    if (a->points == KF_SVG_LABELS) return;
    a->point[a->points].x = kf_svg_x(a, x);
    a->point[a->points++].y = kf_svg_y(a, y);
}

void kf_svg_point_label(FILE *to, kf_svg_axes *a, double x, double y, double radius,
                        const char *label)
{
    place_label(to, a, kf_svg_x(a, x), kf_svg_y(a, y), radius, label);
}
