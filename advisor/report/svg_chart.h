/* svg_chart.h - a small chart in SVG: axes with round ticks, points, labels. */
#ifndef KERF_SVG_CHART_H
#define KERF_SVG_CHART_H

#include <stdio.h>

enum { SVG_LABELS = 64 };

typedef struct svg_axes {
    double x0, x1, y0, y1; /* ends, in units of the data; above 0 where logarithmic */
    int log_x, log_y;
    struct {
        double x, y;
    } label[SVG_LABELS], point[SVG_LABELS]; /* places that are taken */
    int labels, points;
} svg_axes;

/* Text with &, <, > and quotes escaped and control characters replaced. */
void put_html(FILE *to, const char *text);

void svg_open(FILE *to, const svg_axes *a, const char *x_label, const char *y_label);
void svg_close(FILE *to);
double svg_x(const svg_axes *a, double x);
double svg_y(const svg_axes *a, double y);
/* A dot of a CSS class with a tooltip. */
void svg_point(FILE *to, svg_axes *a, double x, double y, const char *class_name, double radius,
               const char *title);
/* A label beside a dot. Labels keep clear of each other and of the dots that are there. */
void svg_point_label(FILE *to, svg_axes *a, double x, double y, double radius, const char *label);
void svg_label(FILE *to, double x, double y, const char *text);

#endif
