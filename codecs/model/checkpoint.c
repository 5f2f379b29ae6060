/* checkpoint.c - opens a model: its files, and the weights in them. */
#include "model/checkpoint_view.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "layout/foreign.h"

/* Takes over the reader. */
static kerf_status make(const char *path, kerf_reader *reader, int borrows, kerf_checkpoint **out,
                        kerf_error *err)
{
    kerf_checkpoint *c = kf_alloc_zero(1, sizeof *c);
    char *copy = c ? strdup(path) : NULL;
    if (!copy) {
        free(c);
        if (!borrows) kerf_reader_close(reader);
        return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a checkpoint");
    }
    *c = (kerf_checkpoint){.path = copy, .reader = reader, .borrows_reader = borrows};
    kerf_status s = kerf_weights_open(reader, &c->weights, err);
    if (s != KERF_OK) {
        kerf_checkpoint_close(c);
        return s;
    }
    *out = c;
    return KERF_OK;
}

kerf_status kerf_checkpoint_open(const char *path, kerf_checkpoint **out, kerf_error *err)
{
    kerf_reader *reader = NULL;
    if (!path || !out)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "kerf_checkpoint_open: an argument is missing");
    *out = NULL;
    kerf_error why = {0}; /* also of a config.json that says nothing, which is no failure */
    kerf_status s = kerf_reader_open(path, &reader, &why);
    if (s == KERF_OK) s = make(path, reader, 0, out, &why);
    if (s != KERF_OK && err) *err = why;
    return s;
}

kerf_status kf_checkpoint_view(const kerf_checkpoint *c, kerf_checkpoint **out, kerf_error *err)
{
    *out = NULL;
    return make(c->path, c->reader, 1, out, err);
}

void kerf_checkpoint_close(kerf_checkpoint *c)
{
    if (!c) return;
    kerf_weights_close(c->weights);
    if (!c->borrows_reader) kerf_reader_close(c->reader);
    free(c->path);
    free(c);
}

const char *kerf_checkpoint_path(const kerf_checkpoint *c)
{
    return c->path;
}

const kerf_reader *kerf_checkpoint_reader(const kerf_checkpoint *c)
{
    return c->reader;
}

const kerf_weights *kerf_checkpoint_weights(const kerf_checkpoint *c)
{
    return c->weights;
}

size_t kerf_checkpoint_quantized(const kerf_checkpoint *c)
{
    size_t n = 0;
    for (size_t i = 0; i < kerf_weights_count(c->weights); i++) {
        const kerf_weight *w = kerf_weights_at(c->weights, i);
        n += w->codec.format || kf_foreign_form(w) ? 1 : 0;
    }
    return n;
}
