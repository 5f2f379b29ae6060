/* limits.h - what verify allows each tensor to lose: a JSON file with the schema kerf.limits/1.
 *
 *   {"schema": "kerf.limits/1",
 *    "default": {"t2": 0.02},
 *    "tensors": {"*down_proj*": {"t2": 0.03, "max_error": 0.1}, "...": {...}}}
 *
 * Every pattern that matches a name counts, later ones over earlier ones; figures that nothing
 * names are not limited. */
#ifndef KERF_LIMITS_H
#define KERF_LIMITS_H

#include <jansson.h>

#include <kerf/advisor.h>

#include "base/base.h"

/* A figure that can be limited; bias by its magnitude. */
typedef struct figure {
    const char *name;
    double (*of)(const kerf_score *s);
} figure;

enum { FIGURES = 5 };
extern const figure limited_figures[FIGURES];

typedef struct limits {
    json_t *doc;
} limits;

/* path NULL: the built-in limit, t2 <= LIMIT_T2_BUILTIN for every tensor. */
#define LIMIT_T2_BUILTIN 0.5
kerf_status limits_open(limits *l, const char *path, kerf_error *err);
void limits_close(limits *l);

/* The limit of figure f for a tensor; infinity: none. */
double limit_of(const limits *l, const char *tensor, size_t f);

/* Limits that allow what was measured and 2 % more. Writes the file; `rows` maps names to scores.
 */
#define LIMIT_MARGIN 1.02
json_t *limits_measured(const kerf_score *s);
kerf_status limits_write(const char *path, json_t *tensors, int overwrite, kerf_error *err);

#endif
