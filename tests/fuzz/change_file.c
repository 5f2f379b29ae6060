/* change_file.c - changes inside of a safetensors file, and of one that is packed; GGUF files have
 * change_gguf.c. A changed header is mended again most of the time, so that types, shapes, offsets
 * and the length of the file agree, or nothing beyond the first check would ever be reached. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <zstd.h>

#include "fuzz.h"

enum { MOST_BYTES = 1 << 16 };

static uint64_t load(const uint8_t *p, unsigned n)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < n; i++) v |= (uint64_t)p[i] << 8 * i;
    return v;
}

static void store(uint8_t *p, uint64_t v, unsigned n)
{
    for (unsigned i = 0; i < n; i++) p[i] = (uint8_t)(v >> 8 * i);
}

/* --- safetensors ----------------------------------------------------------------------------- */

/* Bytes of a tensor of this type and shape; MOST_BYTES + 1: too many. */
static uint64_t bytes_of(json_t *tensor)
{
    static const struct {
        const char *name;
        unsigned bytes;
    } types[] = {{"F64", 8}, {"I64", 8}, {"U64", 8},  {"F32", 4}, {"I32", 4},
                 {"U32", 4}, {"F16", 2}, {"BF16", 2}, {"I16", 2}, {"U16", 2}};
    const char *type = json_string_value(json_object_get(tensor, "dtype"));
    uint64_t n = 1;
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i].name) == 0) n = types[i].bytes;
    size_t i;
    json_t *d;
    json_array_foreach(json_object_get(tensor, "shape"), i, d)
    {
        const json_int_t k = json_integer_value(d);
        if (k < 0 || k > MOST_BYTES) return MOST_BYTES + 1;
        n *= (uint64_t)k;
        if (n > MOST_BYTES) return MOST_BYTES + 1;
    }
    return n;
}

/* Lays the tensors out one after another; data of each is what it had, cut or repeated. */
static fuzz_bytes mend(json_t *head, const uint8_t *data, size_t n)
{
    fuzz_bytes out = {NULL, 0};
    const char *name;
    json_t *tensor;
    json_object_foreach(head, name, tensor)
    {
        json_t *place = json_object_get(tensor, "data_offsets");
        const uint64_t bytes = bytes_of(tensor);
        if (strcmp(name, "__metadata__") == 0 || !json_is_object(tensor)) continue;
        if (bytes > MOST_BYTES || out.n + bytes > 4 * MOST_BYTES) continue; /* left as it is */
        uint64_t from = (uint64_t)json_integer_value(json_array_get(place, 0));
        uint64_t to = (uint64_t)json_integer_value(json_array_get(place, 1));
        if (from > n) from = n;
        if (to > n || to < from) to = n;
        json_object_set_new(tensor, "data_offsets",
                            json_pack("[I,I]", (json_int_t)out.n, (json_int_t)(out.n + bytes)));
        for (uint64_t put = 0; put < bytes;) {
            static const uint8_t zeros[256];
            uint64_t k = to > from ? to - from : sizeof zeros;
            if (k > bytes - put) k = bytes - put;
            fuzz_add(&out, to > from ? data + from : zeros, (size_t)k);
            put += k;
        }
    }
    return out;
}

static void change_data(fuzz_random *r, fuzz_bytes *data)
{
    static const uint8_t fill[] = {0, 0xff, 0x7f, 0x80, 0x3f};
    if (data->n == 0) return;
    const size_t at = fuzz_below(r, (unsigned)data->n);
    size_t k = 1 + fuzz_below(r, fuzz_below(r, 2) ? 8 : (unsigned)data->n);
    if (k > data->n - at) k = data->n - at;
    if (fuzz_below(r, 3) == 0) {
        memset(data->p + at, fill[fuzz_below(r, sizeof fill)], k);
        return;
    }
    fuzz_bytes b = fuzz_change_bytes(r, data->p + at, k);
    memcpy(data->p + at, b.p, b.n < k ? b.n : k);
    free(b.p);
}

/* The bytes of one tensor may be JSON themselves (bitsandbytes' quant_state). */
static void change_text_tensor(fuzz_random *r, json_t *head, const uint8_t *data, size_t n,
                               fuzz_bytes *out)
{
    const char *name;
    json_t *tensor;
    json_object_foreach(head, name, tensor)
    {
        json_t *place = json_object_get(tensor, "data_offsets");
        const uint64_t from = (uint64_t)json_integer_value(json_array_get(place, 0));
        const uint64_t to = (uint64_t)json_integer_value(json_array_get(place, 1));
        if (!place || to > n || from >= to || data[from] != '{') continue;
        fuzz_bytes b = fuzz_change_json(r, data + from, (size_t)(to - from));
        *out = fuzz_copy(data, n);
        json_object_set_new(tensor, "data_offsets",
                            json_pack("[I,I]", (json_int_t)n, (json_int_t)(n + b.n)));
        json_object_set_new(tensor, "shape", json_pack("[I]", (json_int_t)b.n));
        fuzz_add(out, b.p, b.n);
        free(b.p);
        return;
    }
}

static fuzz_bytes change_safetensors(fuzz_random *r, const uint8_t *p, size_t n)
{
    const uint64_t length = load(p, 8);
    const uint8_t *data = p + 8 + length;
    const size_t data_n = n - 8 - (size_t)length;
    fuzz_bytes text = {NULL, 0}, body = {NULL, 0};
    json_t *head = json_loadb((const char *)p + 8, (size_t)length, JSON_ALLOW_NUL, NULL);
    const unsigned kind = fuzz_below(r, 10);
    if (head && kind == 0) change_text_tensor(r, head, data, data_n, &body);
    if (head && kind > 2) {
        text = fuzz_change_json(r, p + 8, (size_t)length);
        json_t *changed = json_loadb((const char *)text.p, text.n, JSON_ALLOW_NUL, NULL);
        if (changed) {
            json_decref(head);
            head = changed;
        }
    }
    if (head && (text.p || body.p) && fuzz_below(r, 8) > 0) {
        fuzz_bytes whole = body.p ? body : fuzz_copy(data, data_n);
        body = mend(head, whole.p, whole.n);
        free(whole.p);
        char *written = json_dumps(head, JSON_COMPACT);
        free(text.p);
        text = fuzz_copy(written ? written : "{}", written ? strlen(written) : 2);
        free(written);
    }
    if (!text.p) text = fuzz_copy(p + 8, (size_t)length);
    if (!body.p) body = fuzz_copy(data, data_n);
    if (kind <= 2 || fuzz_below(r, 8) == 0) change_data(r, &body);
    json_decref(head);
    uint8_t size[8];
    store(size, text.n, 8);
    fuzz_bytes out = fuzz_copy(size, 8);
    fuzz_add(&out, text.p, text.n);
    fuzz_add(&out, body.p, body.n);
    free(text.p);
    free(body.p);
    return out;
}

/* --- zstd, seekable -------------------------------------------------------------------------- */

/* Packs bytes as a few frames and a table of them. */
static fuzz_bytes pack(fuzz_random *r, const uint8_t *p, size_t n)
{
    fuzz_bytes out = {NULL, 0}, table = {NULL, 0};
    uint8_t word[17];
    uint32_t frames = 0;
    for (size_t at = 0; at < n; frames++) {
        size_t k = 1 + fuzz_below(r, (unsigned)n + 1000);
        if (k > n - at || frames > 8) k = n - at;
        const size_t bound = ZSTD_compressBound(k);
        uint8_t *packed = malloc(bound);
        if (!packed) abort();
        const size_t m = ZSTD_compress(packed, bound, p + at, k, 1);
        fuzz_add(&out, packed, m);
        free(packed);
        store(word, m, 4);
        store(word + 4, k, 4);
        fuzz_add(&table, word, 8);
        at += k;
    }
    store(word, 0x184D2A5E, 4);
    store(word + 4, table.n + 9, 4);
    fuzz_add(&out, word, 8);
    fuzz_add(&out, table.p, table.n);
    store(word, frames, 4);
    word[4] = 0;
    store(word + 5, 0x8F92EAB1, 4);
    fuzz_add(&out, word, 9);
    free(table.p);
    return out;
}

/* The unpacked bytes of all frames; n 0: it cannot be unpacked. */
static fuzz_bytes unpack(const uint8_t *p, size_t n)
{
    fuzz_bytes out = {malloc(4 * MOST_BYTES), 0};
    if (!out.p) abort();
    while (n > 0) {
        const size_t frame = ZSTD_findFrameCompressedSize(p, n);
        if (ZSTD_isError(frame) || frame > n) break;
        const size_t k = ZSTD_decompress(out.p + out.n, 4 * MOST_BYTES - out.n, p, frame);
        if (ZSTD_isError(k)) break;
        out.n += k;
        p += frame;
        n -= frame;
    }
    return out;
}

static fuzz_bytes change_packed(fuzz_random *r, const uint8_t *p, size_t n)
{
    fuzz_bytes plain = unpack(p, n);
    if (plain.n < 8 || fuzz_below(r, 5) == 0) { /* frames or table */
        free(plain.p);
        const size_t tail = n < 200 || fuzz_below(r, 3) == 0 ? n : 64;
        fuzz_bytes out = fuzz_copy(p, n - tail), b = fuzz_change_bytes(r, p + n - tail, tail);
        fuzz_add(&out, b.p, b.n);
        free(b.p);
        return out;
    }
    fuzz_bytes changed = fuzz_change_file(r, plain.p, plain.n);
    fuzz_bytes out = pack(r, changed.p, changed.n);
    free(plain.p);
    free(changed.p);
    return out;
}

fuzz_bytes fuzz_change_file(fuzz_random *r, const uint8_t *p, size_t n)
{
    if (n < 9 || fuzz_below(r, 24) == 0) return fuzz_change_bytes(r, p, n);
    if (memcmp(p, "GGUF", 4) == 0) return fuzz_change_gguf(r, p, n);
    if (load(p, 4) == 0xFD2FB528) return change_packed(r, p, n);
    if (p[0] == '{' || p[0] == '[') return fuzz_change_json(r, p, n);
    if (load(p, 8) <= n - 8) return change_safetensors(r, p, n);
    return fuzz_change_bytes(r, p, n);
}
