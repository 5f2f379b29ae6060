/* forward_model.h - the tiny models of tests/data/forward/golden.json, whose numbers come from a
 * formula, as files. */
#ifndef KERF_TESTS_FORWARD_MODEL_H
#define KERF_TESTS_FORWARD_MODEL_H

#include <jansson.h>
#include <kerf/file.h>
#include <stdio.h>
#include <stdlib.h>

#define FORMULA_TENSORS 256

/* As formula() of interop/forward.py. */
static inline void by_formula(const char *name, float *out, uint64_t n)
{
    uint32_t seed = 2166136261u;
    for (const char *at = name; *at; at++) seed = (seed ^ (unsigned char)*at) * 16777619u;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t u = (uint32_t)(i * 2654435761u) + seed;
        u = ((u >> 16) ^ u) * 0x45d9f3bu;
        u = ((u >> 16) ^ u) * 0x45d9f3bu;
        u = (u >> 16) ^ u;
        out[i] = ((float)(u >> 8) / 16777216.0f - 0.5f) * 0.5f;
    }
}

static inline kerf_status write_formula(kerf_writer *w, const kerf_entry *e, size_t i,
                                        kerf_error *err)
{
    uint64_t n;
    kerf_status s = kerf_shape_count(&e->shape, &n, err);
    float *x = s == KERF_OK ? malloc(n * sizeof *x + 1) : NULL;
    if (!x) return s == KERF_OK ? KERF_E_NOMEM : s;
    by_formula(e->name, x, n);
    s = kerf_writer_write(w, i, 0, x, n * sizeof *x, err);
    free(x);
    return s;
}

/* The tokens of golden.json again and again, others each time. */
static inline void formula_tokens(const json_t *golden, uint32_t *out, uint64_t n)
{
    const json_t *list = json_object_get(golden, "tokens");
    for (uint64_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(list, i % json_array_size(list));
        out[i] = (uint32_t)((uint64_t)json_integer_value(one) + i / 48 * 7) % 160;
    }
}

/* folder/model.safetensors and folder/config.json. */
static inline kerf_status write_formula_model(const char *folder, const json_t *config,
                                              const json_t *tensors, kerf_error *err)
{
    kerf_entry entry[FORMULA_TENSORS];
    size_t count = 0;
    const char *name;
    const json_t *shape;
    kerf_writer *w = NULL;
    char path[4200];
    json_object_foreach((json_t *)tensors, name, shape)
    {
        if (count == FORMULA_TENSORS) return KERF_E_LIMIT;
        kerf_entry *e = &entry[count++];
        *e = (kerf_entry){name, KERF_F32, {(unsigned)json_array_size(shape), {0}}, 0};
        for (unsigned i = 0; i < e->shape.rank; i++)
            e->shape.dim[i] = (uint64_t)json_integer_value(json_array_get(shape, i));
    }
    const kerf_writer_options opt = {.overwrite = 1};
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    kerf_status s = kerf_writer_create(path, entry, count, &opt, &w, err);
    for (size_t i = 0; s == KERF_OK && i < count; i++) s = write_formula(w, &entry[i], i, err);
    if (s == KERF_OK)
        s = kerf_writer_commit(w, err);
    else
        kerf_writer_abort(w);
    snprintf(path, sizeof path, "%s/config.json", folder);
    return s == KERF_OK && json_dump_file(config, path, 0) != 0 ? KERF_E_IO : s;
}

#endif
