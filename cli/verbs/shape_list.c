/* shape_list.c - reads lists of shapes and batches. */
#include "verbs/shape_list.h"

#include <errno.h>
#include <stdlib.h>

/* A whole number at *text, which is moved past it. */
static int take_number(const char **text, uint64_t most, uint64_t *out)
{
    char *end = NULL;
    errno = 0;
    if (**text < '0' || **text > '9') return 0;
    unsigned long long x = strtoull(*text, &end, 10);
    if (errno || x < 1 || x > most) return 0;
    *text = end;
    *out = x;
    return 1;
}

static kerf_status take_shapes(const char *text, shape_list *out, kerf_error *err)
{
    const uint64_t most = UINT64_C(1) << 32;
    for (const char *p = text;; p++) {
        shape *next = &out->item[out->count];
        if (out->count == MAX_SHAPES) {
            return USAGE(err, "--shape: more than %d shapes", MAX_SHAPES);
        }
        if (!take_number(&p, most, &next->n) || *p++ != 'x' || !take_number(&p, most, &next->k) ||
            (*p && *p != ',')) {
            return USAGE(err, "--shape %.60s: expected NxK,NxK,...: outputs x inputs", text);
        }
        out->count++;
        if (!*p) return KERF_OK;
    }
}

kerf_status parse_shapes(const char *text, shape_list *out, kerf_error *err)
{
    *out = (shape_list){0};
    TRY(allocate(&out->item, MAX_SHAPES, sizeof *out->item, err));
    kerf_status s = take_shapes(text, out, err);
    if (s != KERF_OK) shape_list_free(out);
    return s;
}

void shape_list_free(shape_list *l)
{
    free(l->item);
    *l = (shape_list){0};
}

kerf_status parse_batches(const char *text, batches *out, kerf_error *err)
{
    *out = (batches){0};
    for (const char *p = text ? text : "1";; p++) {
        if (out->count == MAX_BATCHES || !take_number(&p, 1u << 30, &out->item[out->count++]) ||
            (*p && *p != ',')) {
            return USAGE(err, "--batch %.60s: expected up to %d whole numbers: 1,4,16", text,
                         MAX_BATCHES);
        }
        if (!*p) return KERF_OK;
    }
}
