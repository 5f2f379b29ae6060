/* vector_text.c - reads golden vectors line by line. A line is a key, a space and what belongs to
 * the key; a line that begins with '#' is a comment. */
#include "selftest/vector_text.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_BYTES = 1 << 24 }; /* of one line */

/* What is left of a line while it is read. */
typedef struct rest {
    const char *at, *end;
} rest;

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* A number of at most MAX_BYTES; 0 when there is none. */
static int read_number(rest *r, uint64_t *out)
{
    const char *begin = r->at;
    for (*out = 0; r->at < r->end && *r->at >= '0' && *r->at <= '9'; r->at++) {
        *out = *out * 10 + (uint64_t)(*r->at - '0');
        if (*out > MAX_BYTES) return 0;
    }
    return r->at > begin;
}

/* The next word goes into out; 0 when there is none or it is too long. */
static int read_word(rest *r, char *out, size_t size)
{
    size_t n = 0;
    while (r->at < r->end && *r->at == ' ') r->at++;
    while (r->at < r->end && *r->at != ' ' && n < size) out[n++] = *r->at++;
    if (n == 0 || n == size) return 0;
    out[n] = 0;
    return 1;
}

/* "[2,3,40]" */
static int read_shape(rest *r, kerf_shape *out)
{
    *out = (kerf_shape){0};
    while (r->at < r->end && *r->at == ' ') r->at++;
    if (r->at == r->end || *r->at++ != '[') return 0;
    while (r->at < r->end && *r->at != ']') {
        if (out->rank == KERF_MAX_RANK || !read_number(r, &out->dim[out->rank++])) return 0;
        if (r->at < r->end && *r->at == ',') r->at++;
    }
    return r->end - r->at == 1;
}

/* --- bytes ----------------------------------------------------------------------------------- */

/* One byte of hex and how often it stands there: "3f" or "00*24;". */
static int read_run(rest *r, unsigned char *byte, uint64_t *times)
{
    if (r->end - r->at < 2) return 0;
    int high = hex_digit(r->at[0]), low = hex_digit(r->at[1]);
    if (high < 0 || low < 0) return 0;
    *byte = (unsigned char)(high << 4 | low);
    *times = 1;
    r->at += 2;
    if (r->at == r->end || *r->at != '*') return 1;
    r->at++;
    return read_number(r, times) && r->at < r->end && *r->at++ == ';';
}

/* What read_line returns when the text is right and memory is short; kf_vector_next makes it NULL.
 */
static const char no_memory[] = "";

static const char *read_bytes(kf_vector_reader *r, rest text, kf_vector_line *out)
{
    unsigned char byte = 0;
    uint64_t times = 0, n = 0;
    for (rest t = text; t.at < t.end; n += times) {
        if (!read_run(&t, &byte, &times)) return "not bytes in hex";
        if (n + times > MAX_BYTES) return "too many bytes";
    }
    if (n > r->capacity) {
        unsigned char *more = realloc(r->buffer, (size_t)n);
        if (!more) return no_memory;
        r->buffer = more;
        r->capacity = (size_t)n;
    }
    for (size_t at = 0; text.at < text.end; at += (size_t)times) {
        read_run(&text, &byte, &times);
        memset(r->buffer + at, byte, (size_t)times);
    }
    out->p = r->buffer;
    out->n = (size_t)n;
    return NULL;
}

/* "#0123456789abcdef" */
static const char *read_digest(rest text, kf_vector_line *out)
{
    if (text.end - text.at != 17) return "a digest has 16 digits";
    for (out->digested = 1, text.at++; text.at < text.end; text.at++) {
        int digit = hex_digit(*text.at);
        if (digit < 0) return "not a digest in hex";
        out->digest = out->digest << 4 | (uint64_t)digit;
    }
    return NULL;
}

static const char *read_content(kf_vector_reader *r, rest text, kf_vector_line *out)
{
    if (text.at < text.end && *text.at == '#') return read_digest(text, out);
    return read_bytes(r, text, out);
}

/* --- lines ----------------------------------------------------------------------------------- */

const char *kf_vector_plane_name(kerf_plane_id p)
{
    static const char *const names[KERF_PLANES] = {"codes", "scales", "second", "zeros"};
    return names[p];
}

static const char *read_case(rest text, kf_vector_line *out)
{
    char type[16];
    if (!read_word(&text, out->name, sizeof out->name)) return "no label";
    if (out->key == KF_VECTOR_CASE) {
        if (!read_word(&text, type, sizeof type)) return "no source type";
        out->dtype = kerf_dtype_find(type);
        if (out->dtype == KERF_DTYPE_NONE) return "unknown source type";
    }
    return read_shape(&text, &out->shape) ? NULL : "no shape";
}

static const char *read_line(kf_vector_reader *r, rest text, kf_vector_line *out)
{
    static const struct {
        const char *word;
        kf_vector_key key;
    } keys[] = {{"file", KF_VECTOR_FILE},
                {"case", KF_VECTOR_CASE},
                {"decode", KF_VECTOR_DECODE},
                {"src", KF_VECTOR_SRC},
                {"enc", KF_VECTOR_ENC}};
    char word[16];
    if (!read_word(&text, word, sizeof word)) return "a key is a short word";
    if (text.at < text.end) text.at++; /* the space */
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strcmp(word, keys[i].word) != 0) continue;
        out->key = keys[i].key;
        if (out->key == KF_VECTOR_SRC) return read_bytes(r, text, out);
        if (out->key == KF_VECTOR_CASE || out->key == KF_VECTOR_DECODE) return read_case(text, out);
        return read_word(&text, out->name, sizeof out->name) ? NULL : "no name";
    }
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++) {
        if (strcmp(word, kf_vector_plane_name(p)) != 0) continue;
        out->key = KF_VECTOR_PLANE;
        out->plane = p;
        return read_content(r, text, out);
    }
    out->key = KF_VECTOR_VALUES;
    out->dtype = kerf_dtype_find(word);
    if (out->dtype != KERF_F32 && out->dtype != KERF_F16 && out->dtype != KERF_BF16)
        return "unknown key";
    return read_content(r, text, out);
}

int kf_vector_next(kf_vector_reader *r, kf_vector_line *out, const char **problem)
{
    while (r->at < r->end) {
        const char *begin = r->at, *stop = memchr(begin, '\n', (size_t)(r->end - begin));
        rest text = {begin, stop ? stop : r->end};
        r->at = stop ? stop + 1 : r->end;
        r->line++;
        if (text.at == text.end || *text.at == '#') continue;
        *out = (kf_vector_line){.text = begin, .length = (size_t)(text.end - begin)};
        const char *wrong = read_line(r, text, out);
        *problem = wrong == no_memory ? NULL : wrong;
        return wrong ? -1 : 1;
    }
    return 0;
}

void kf_vector_reader_close(kf_vector_reader *r)
{
    free(r->buffer);
    *r = (kf_vector_reader){0};
}

void kf_vector_unify_nans(kerf_dtype dtype, unsigned char *p, size_t n)
{
    if (dtype == KERF_F32) {
        for (size_t i = 0; i + 4 <= n; i += 4) {
            uint32_t bits, nan = 0x7fc00000u;
            memcpy(&bits, p + i, 4);
            if ((bits & 0x7fffffffu) > 0x7f800000u) memcpy(p + i, &nan, 4);
        }
        return;
    }
    const uint16_t infinity = dtype == KERF_F16 ? 0x7c00u : 0x7f80u;
    for (size_t i = 0; i + 2 <= n; i += 2) {
        uint16_t bits, nan = dtype == KERF_F16 ? 0x7e00u : 0x7fc0u;
        memcpy(&bits, p + i, 2);
        if ((bits & 0x7fffu) > infinity) memcpy(p + i, &nan, 2);
    }
}
