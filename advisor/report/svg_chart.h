/* svg_chart.h - a small chart in SVG: axes with round ticks, points, labels. */
#ifndef KERF_SVG_CHART_H
#define KERF_SVG_CHART_H

#include <stdio.h>

enum { KF_SVG_LABELS = 64 };

typedef struct kf_svg_axes {
    double x0, x1, y0, y1; /* ends, in units of the data; above 0 where logarithmic */
    int log_x, log_y;
    struct {
        double x0, x1, y;
    } label[KF_SVG_LABELS]; /* places that are taken */
    struct {
        double x, y;
    } point[KF_SVG_LABELS];
    int labels, points;
} kf_svg_axes;

/* Text with &, <, > and quotes escaped and control characters replaced. */
void kf_put_escaped(FILE *to, const char *text);

void kf_svg_open(FILE *to, const kf_svg_axes *a, const char *x_label, const char *y_label);
void kf_svg_close(FILE *to);
double kf_svg_x(const kf_svg_axes *a, double x);
double kf_svg_y(const kf_svg_axes *a, double y);
/* A dot of a CSS class with a tooltip. */
void kf_svg_point(FILE *to, kf_svg_axes *a, double x, double y, const char *class_name,
                  double radius, const char *title);
/* A label beside a dot, or near it with a line. Labels keep clear of each other and of the dots
 * that are there. */
void kf_svg_point_label(FILE *to, kf_svg_axes *a, double x, double y, double radius,
                        const char *label);
void kf_svg_label(FILE *to, double x, double y, const char *text);

#endif
