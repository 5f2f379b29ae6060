/* synthetic.h - checkpoints of synthetic numbers, for make_model.c: entries are added, then all is
 * written at once. */
#ifndef KERF_TESTS_SYNTHETIC_H
#define KERF_TESTS_SYNTHETIC_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kerf/file.h>

enum { MOST = 64, CHUNK = 1 << 20 };

typedef struct model {
    kerf_entry *entry; /* write_model frees it */
    size_t count;
    int varies; /* tensors have deviations of their own */
    int tails;  /* and tails: the farther a number lies out, the farther it is moved */
    kerf_writer_options options;
} model;

static void die(const kerf_error *err)
{
    fprintf(stderr, "make_model: %s\n", err->text);
    exit(1);
}

static void add(model *m, const char *name, kerf_dtype dtype, kerf_shape shape, unsigned shard)
{
    if (m->count % MOST == 0) m->entry = realloc(m->entry, (m->count + MOST) * sizeof *m->entry);
    if (!m->entry) exit(1);
    m->entry[m->count++] = (kerf_entry){name, dtype, shape, shard};
}

static uint64_t mix(uint64_t x)
{
    x = (x + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* A float of a bell-shaped distribution around zero, deviation about 0.02. */
static float weight(uint64_t i)
{
    uint64_t w = mix(i);
    int sum = (int)(w & 0xffff) + (int)(w >> 16 & 0xffff) + (int)(w >> 32 & 0xffff) +
              (int)(w >> 48) - 131070;
    return (float)sum * 0x1p-21f;
}

/* Element i as bytes of its type; fp16 by cutting the float's mantissa, which is exact enough. */
static void put_element(unsigned char *out, kerf_dtype dtype, uint64_t i, float scale, float tail)
{
    float x = weight(i) * scale;
    x *= 1 + tail * x * x;
    uint32_t bits;
    memcpy(&bits, &x, 4);
    int exponent = (int)(bits >> 23 & 255) - 127;
    uint32_t half = exponent < -14 ? 0 : (uint32_t)(exponent + 15) << 10 | (bits >> 13 & 0x3ff);
    uint32_t value = dtype == KERF_F32    ? bits
                     : dtype == KERF_BF16 ? bits >> 16
                     : dtype == KERF_F16  ? (bits >> 16 & 0x8000) | half
                                          : (uint32_t)i & 0x7f;
    memcpy(out, &value, kerf_dtype_bits(dtype) / 8 < 4 ? kerf_dtype_bits(dtype) / 8 : 4);
}

static void write_tensor(kerf_writer *w, const model *m, size_t at, long bad, uint32_t bad_bits)
{
    static unsigned char chunk[CHUNK];
    kerf_error err = {0};
    const kerf_entry *e = &m->entry[at];
    const size_t size = kerf_dtype_bits(e->dtype) / 8;
    const float scale = m->varies ? 1 + (float)(at % 61) / 64 : 1;
    const float tail = m->tails ? (float)(at % 7) * 80 : 0;
    uint64_t elements = 0;
    if (kerf_shape_count(&e->shape, &elements, &err) != KERF_OK) die(&err);
    for (uint64_t first = 0; first < elements; first += CHUNK / size) {
        uint64_t n = elements - first < CHUNK / size ? elements - first : CHUNK / size;
        memset(chunk, 0, sizeof chunk);
        for (uint64_t i = 0; i < n; i++)
            put_element(chunk + i * size, e->dtype, first + i + at * 977, scale, tail);
        if (e->shape.rank == 0) chunk[size - 1] &= 0x7f; /* a scale, which has no sign */
        if (at == 0 && bad >= 0) memcpy(chunk + (size_t)bad * size, &bad_bits, size);
        if (kerf_writer_write(w, at, first * size, chunk, (size_t)n * size, &err) != KERF_OK)
            die(&err);
    }
}

static void write_model(const model *m, const char *path, long bad, uint32_t bad_bits)
{
    kerf_error err = {0};
    kerf_writer *w = NULL;
    if (kerf_writer_create(path, m->entry, m->count, &m->options, &w, &err) != KERF_OK) die(&err);
    for (size_t i = 0; i < m->count; i++) write_tensor(w, m, i, bad, bad_bits);
    if (kerf_writer_commit(w, &err) != KERF_OK) die(&err);
    free(m->entry);
}

#endif
