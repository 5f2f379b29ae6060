/* change_gguf.c - changes inside of a GGUF file: it is taken apart into keys and tensors, one of
 * them is changed, and put together again, mostly with offsets and data that fit. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

enum { MOST = 64, RANKS = 4, MOST_BYTES = 1 << 16 };

typedef struct key {
    const uint8_t *name, *value;
    uint64_t name_n, value_n;
    uint32_t type;
} key;

typedef struct tensor {
    const uint8_t *name, *data;
    uint64_t name_n, data_n, offset, dim[RANKS];
    uint32_t rank, type;
} tensor;

typedef struct file {
    uint32_t version;
    uint64_t tensors, keys; /* as the head claims */
    key key[MOST];
    tensor tensor[MOST];
    size_t key_n, tensor_n;
    const uint8_t *data;
    size_t data_n;
} file;

typedef struct cursor {
    const uint8_t *p;
    size_t left;
} cursor;

static const uint8_t *take(cursor *c, uint64_t n)
{
    if (n > c->left) return NULL;
    const uint8_t *p = c->p;
    c->p += n;
    c->left -= (size_t)n;
    return p;
}

static int take_number(cursor *c, unsigned n, uint64_t *out)
{
    const uint8_t *p = take(c, n);
    *out = 0;
    for (unsigned i = 0; p && i < n; i++) *out |= (uint64_t)p[i] << 8 * i;
    return p != NULL;
}

static int take_text(cursor *c, const uint8_t **p, uint64_t *n)
{
    return take_number(c, 8, n) && (*p = take(c, *n)) != NULL;
}

/* Bytes of a value: 8 is a string, 9 a list. */
static const uint8_t size_of_type[13] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

static int skip_value(cursor *c, uint64_t type, int depth)
{
    const uint8_t *p;
    uint64_t n, of;
    if (type > 12 || depth > 3) return 0;
    if (type == 8) return take_text(c, &p, &n);
    if (type != 9) return take(c, size_of_type[type]) != NULL;
    if (!take_number(c, 4, &of) || !take_number(c, 8, &n)) return 0;
    for (uint64_t i = 0; i < n; i++)
        if (!skip_value(c, of, depth + 1)) return 0;
    return 1;
}

static int take_key(cursor *c, key *k)
{
    uint64_t type;
    if (!take_text(c, &k->name, &k->name_n) || !take_number(c, 4, &type)) return 0;
    k->type = (uint32_t)type;
    k->value = c->p;
    if (!skip_value(c, type, 0)) return 0;
    k->value_n = (uint64_t)(c->p - k->value);
    return 1;
}

static int take_tensor(cursor *c, tensor *t)
{
    uint64_t rank, type;
    if (!take_text(c, &t->name, &t->name_n) || !take_number(c, 4, &rank) || rank > RANKS) return 0;
    for (uint64_t i = 0; i < rank; i++)
        if (!take_number(c, 8, &t->dim[i])) return 0;
    t->rank = (uint32_t)rank;
    if (!take_number(c, 4, &type) || !take_number(c, 8, &t->offset)) return 0;
    t->type = (uint32_t)type;
    return 1;
}

/* 0: it is not of this form, or has too much. */
static int take_apart(const uint8_t *p, size_t n, file *f)
{
    cursor c = {p + 4, n - 4};
    uint64_t version;
    *f = (file){.version = 0};
    if (!take_number(&c, 4, &version) || !take_number(&c, 8, &f->tensors) ||
        !take_number(&c, 8, &f->keys) || f->tensors > MOST - 2 || f->keys > MOST - 2)
        return 0;
    f->version = (uint32_t)version;
    for (; f->key_n < f->keys; f->key_n++)
        if (!take_key(&c, &f->key[f->key_n])) return 0;
    for (; f->tensor_n < f->tensors; f->tensor_n++)
        if (!take_tensor(&c, &f->tensor[f->tensor_n])) return 0;
    size_t at = ((size_t)(c.p - p) + 31) / 32 * 32;
    if (at > n) at = n;
    f->data = p + at;
    f->data_n = n - at;
    for (size_t i = 0; i < f->tensor_n; i++) {
        tensor *t = &f->tensor[i];
        uint64_t end = f->data_n;
        for (size_t k = 0; k < f->tensor_n; k++)
            if (f->tensor[k].offset > t->offset && f->tensor[k].offset < end)
                end = f->tensor[k].offset;
        if (t->offset <= end) t->data = f->data + t->offset, t->data_n = end - t->offset;
    }
    return 1;
}

/* --- changes --------------------------------------------------------------------------------- */

static uint64_t odd(fuzz_random *r)
{
    static const uint64_t some[] = {
        0,          1,          2,          3,          4,          31,
        32,         33,         64,         96,         128,        255,
        256,        512,        1024,       4096,       UINT32_MAX, 1ull << 32,
        1ull << 31, 1ull << 53, 1ull << 62, 1ull << 63, UINT64_MAX, UINT64_MAX - 31};
    return some[fuzz_below(r, sizeof some / sizeof *some)];
}

static const char *odd_name(fuzz_random *r, uint64_t *n)
{
    static const char *const some[] = {"general.alignment",
                                       "general.architecture",
                                       "general.file_type",
                                       "split.no",
                                       "split.count",
                                       "split.tensors.count",
                                       "general.quantization_version",
                                       "token_embd.weight",
                                       "output.weight",
                                       "blk.0.attn_q.weight",
                                       "blk.0.attn_q.scale",
                                       "blk.0.ffn_down.weight",
                                       "blk.0.ffn_up_exps.weight",
                                       "blk.0.attn_norm.weight",
                                       "blk.0.ffn_down.input_scale",
                                       "x",
                                       ""};
    const char *name = some[fuzz_below(r, sizeof some / sizeof *some)];
    *n = strlen(name);
    return name;
}

static const uint8_t odd_types[] = {0,  1,  2,  3,  4,  6,  7,  8,  9,  10, 11, 12,
                                    13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24,
                                    25, 26, 27, 28, 29, 30, 34, 35, 39, 40, 41};

static void change_tensor(fuzz_random *r, tensor *t)
{
    switch (fuzz_below(r, 6)) {
    case 0: t->type = odd_types[fuzz_below(r, sizeof odd_types)]; break;
    case 1: t->name = (const uint8_t *)odd_name(r, &t->name_n); break;
    case 2: t->rank = fuzz_below(r, RANKS + 1); break;
    case 3: t->offset += fuzz_below(r, 2) ? 32 : odd(r); break;
    default:
        t->dim[fuzz_below(r, RANKS)] = fuzz_below(r, 2) ? odd(r) : 32 * (1 + fuzz_below(r, 16));
    }
}

static void change_key(fuzz_random *r, key *k, uint8_t room[16])
{
    if (fuzz_below(r, 2)) k->name = (const uint8_t *)odd_name(r, &k->name_n);
    if (fuzz_below(r, 2) && k->type < 13 && size_of_type[k->type] > 0) {
        const uint64_t v = odd(r);
        memcpy(room, &v, 8);
        k->value = room;
    }
    if (fuzz_below(r, 3) == 0) k->type = fuzz_below(r, 14);
}

/* The same number of bytes for every tensor as its type and dimensions ask for, where that is
 * little; bytes of the usual types alone. */
static uint64_t bytes_of(const tensor *t)
{
    static const struct {
        uint32_t type, elements, bytes;
    } types[] = {{0, 1, 4},      {1, 1, 2},      {30, 1, 2},    {2, 32, 18},   {3, 32, 20},
                 {6, 32, 22},    {7, 32, 24},    {8, 32, 34},   {10, 256, 84}, {12, 256, 144},
                 {13, 256, 176}, {14, 256, 210}, {24, 1, 1},    {26, 1, 4},    {39, 32, 17},
                 {40, 64, 36},   {20, 32, 18},   {23, 256, 136}};
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++) {
        if (t->dim[i] > MOST_BYTES) return t->data_n;
        n *= t->dim[i];
        if (n > MOST_BYTES) return t->data_n;
    }
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == t->type) return n / types[i].elements * types[i].bytes;
    return t->data_n;
}

/* --- together again -------------------------------------------------------------------------- */

static void put(fuzz_bytes *b, uint64_t v, unsigned n)
{
    uint8_t p[8];
    for (unsigned i = 0; i < n; i++) p[i] = (uint8_t)(v >> 8 * i);
    fuzz_add(b, p, n);
}

static void pad(fuzz_bytes *b)
{
    static const uint8_t zeros[32];
    fuzz_add(b, zeros, (32 - b->n % 32) % 32);
}

static fuzz_bytes put_together(file *f, int mends)
{
    fuzz_bytes b = {NULL, 0}, data = {NULL, 0};
    for (size_t i = 0; mends && i < f->tensor_n; i++) {
        tensor *t = &f->tensor[i];
        const uint64_t bytes = bytes_of(t);
        if (data.n > MOST_BYTES) break;
        t->offset = data.n;
        for (uint64_t done = 0; done < bytes;) {
            static const uint8_t zeros[256];
            const uint8_t *from = t->data_n ? t->data : zeros;
            uint64_t k = t->data_n ? t->data_n : sizeof zeros;
            if (k > bytes - done) k = bytes - done;
            fuzz_add(&data, from, (size_t)k);
            done += k;
        }
        pad(&data);
    }
    if (!mends) fuzz_add(&data, f->data, f->data_n);
    fuzz_add(&b, "GGUF", 4);
    put(&b, f->version, 4);
    put(&b, mends ? f->tensor_n : f->tensors, 8);
    put(&b, mends ? f->key_n : f->keys, 8);
    for (size_t i = 0; i < f->key_n; i++) {
        const key *k = &f->key[i];
        put(&b, k->name_n, 8);
        fuzz_add(&b, k->name, (size_t)k->name_n);
        put(&b, k->type, 4);
        fuzz_add(&b, k->value, (size_t)k->value_n);
    }
    for (size_t i = 0; i < f->tensor_n; i++) {
        const tensor *t = &f->tensor[i];
        put(&b, t->name_n, 8);
        fuzz_add(&b, t->name, (size_t)t->name_n);
        put(&b, t->rank, 4);
        for (uint32_t k = 0; k < t->rank; k++) put(&b, t->dim[k], 8);
        put(&b, t->type, 4);
        put(&b, t->offset, 8);
    }
    pad(&b);
    fuzz_add(&b, data.p, data.n);
    free(data.p);
    return b;
}

fuzz_bytes fuzz_change_gguf(fuzz_random *r, const uint8_t *p, size_t n)
{
    static file f;
    uint8_t room[16];
    if (!take_apart(p, n, &f)) return fuzz_change_bytes(r, p, n);
    const size_t t = fuzz_below(r, (unsigned)f.tensor_n), k = fuzz_below(r, (unsigned)f.key_n);
    switch (fuzz_below(r, 10)) {
    case 0: f.version = fuzz_below(r, 5); break;
    case 1: f.tensors = odd(r); break;
    case 2: f.keys = odd(r); break;
    case 3: /* a tensor more, or a key */
        if (f.tensor_n > 0 && fuzz_below(r, 2))
            f.tensor[f.tensor_n++] = f.tensor[t];
        else if (f.key_n > 0)
            f.key[f.key_n++] = f.key[k];
        break;
    case 4: /* one less */
        if (f.tensor_n > 0 && fuzz_below(r, 2))
            f.tensor[t] = f.tensor[--f.tensor_n];
        else if (f.key_n > 0)
            f.key[k] = f.key[--f.key_n];
        break;
    case 5:
    case 6:
        if (f.key_n > 0) change_key(r, &f.key[k], room);
        break;
    default:
        if (f.tensor_n > 0) change_tensor(r, &f.tensor[t]);
    }
    return put_together(&f, fuzz_below(r, 4) > 0);
}
