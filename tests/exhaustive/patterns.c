/* patterns.c - see patterns.h. */
#include "exhaustive/patterns.h"

#include "exhaustive/run_options.h"
#include "exhaustive/oracle.h"

static unsigned binades_of(kerf_element e)
{
    return e == KERF_ELEM_E5M2 ? 34 : e == KERF_ELEM_E4M3 ? 20 : e >= KERF_ELEM_S4 ? 6 : 10;
}

layout layout_of(const kerf_format *f, kerf_dtype type)
{
    layout l = {type, 1, 32, 1, 32, 1, binades_of(f->element)};
    if (f->geometry == KERF_GROUP_BLOCK || f->geometry == KERF_GROUP_FLAT)
        l.cols = l.width = f->group;
    unsigned multiple = row_multiple(f);
    if (multiple > 1) { /* byte structs of some groups */
        l.width = f->group;
        l.cols = multiple;
        l.groups = l.payload = multiple / f->group;
    }
    if (f->geometry == KERF_GROUP_TENSOR || f->geometry == KERF_GROUP_TILE) {
        l.rows = 4;
        l.cols = 8;
    }
    if (f->second == KERF_SECOND_TENSOR) { /* also a block of zeros, and one with the amax */
        l.rows = l.groups = 8;
        l.payload = 6;
    }
    return l;
}

static unsigned mantissa_bits(const layout *l)
{
    return l->type == KERF_F16 ? 10 : 7;
}

static unsigned top_exponent(const layout *l)
{
    return l->type == KERF_F16 ? 0x1e : 0xfe;
}

static uint64_t finite_numbers(const layout *l)
{
    return 2 * ((uint64_t)top_exponent(l) + 1) << mantissa_bits(l);
}

uint64_t layout_matrices(const layout *l)
{
    uint64_t per_matrix = (uint64_t)l->payload * (l->width - 1);
    return (finite_numbers(l) + per_matrix - 1) / per_matrix + 1;
}

/* Number j of all finite ones by magnitude, + before -. */
static uint16_t number(const layout *l, uint64_t j)
{
    j %= finite_numbers(l);
    return (uint16_t)(j >> 1 | (j & 1) << 15);
}

static unsigned exponent_above(const layout *l, unsigned magnitude, unsigned binades,
                               unsigned mantissa)
{
    unsigned exponent = (magnitude >> mantissa_bits(l)) + binades;
    if (binades == 0 && mantissa < (magnitude & ((1u << mantissa_bits(l)) - 1))) exponent++;
    return exponent > top_exponent(l) ? top_exponent(l) : exponent;
}

/* Group k: its numbers, and one of the given mantissa above them. Returns that one's exponent. */
static unsigned fill_group(uint16_t *x, const layout *l, uint64_t k, unsigned mantissa, uint64_t h)
{
    unsigned top = 0, place = (unsigned)(h % l->width), n = 0;
    for (unsigned i = 0; i < l->width; i++) {
        if (i == place) continue;
        x[i] = number(l, k * (l->width - 1) + n++);
        if ((x[i] & 0x7fffu) > top) top = x[i] & 0x7fffu;
    }
    unsigned exponent = exponent_above(l, top, (unsigned)(h >> 8) % l->binades, mantissa);
    x[place] = (uint16_t)(exponent << mantissa_bits(l) | mantissa | (h >> 16 & 1) << 15);
    return exponent;
}

static void fill_zeros(uint16_t *x, size_t n, uint64_t h)
{
    for (size_t i = 0; i < n; i++) x[i] = (uint16_t)((h >> i % 64 & 1) << 15);
}

static void fill_bits(uint16_t *x, const layout *l, uint64_t k, unsigned m, uint64_t h)
{
    const unsigned low_bits = mantissa_bits(l) - 7, end = top_exponent(l);
    unsigned top = 0;
    if (k + 1 == layout_matrices(l)) {
        fill_zeros(x, (size_t)l->rows * l->cols, h);
        return;
    }
    for (unsigned i = 0; i < l->payload; i++) {
        uint64_t of_group = mix_bits(h + i);
        unsigned mantissa = m << low_bits | ((unsigned)(of_group >> 20) & ((1u << low_bits) - 1));
        unsigned e = fill_group(x + i * l->width, l, k * l->payload + i, mantissa, of_group);
        if (e > top) top = e;
    }
    if (l->payload == l->groups) return;
    fill_zeros(x + l->payload * l->width, l->width, h);
    uint16_t *last = x + (l->payload + 1) * l->width;
    unsigned above = top + (unsigned)(h >> 40) % 20, mantissa = (unsigned)(h >> 50 & 0x7f);
    memset(last, 0, l->width * sizeof *last);
    last[0] = (uint16_t)((above > end ? end : above) << mantissa_bits(l) | mantissa << low_bits);
    last[1] = number(l, h >> 20);
    if ((last[1] & 0x7fff) > last[0]) last[1] = 0;
}

void fill_matrix(uint16_t *bits, float *x, const layout *l, uint64_t k, unsigned m, int one_sided)
{
    const size_t n = (size_t)l->rows * l->cols;
    const uint64_t h = mix_bits(k << 7 | m);
    fill_bits(bits, l, k, m, h);
    for (size_t i = 0; i < n; i++) {
        if (one_sided) bits[i] = (uint16_t)((bits[i] & 0x7fff) | (m & 1) << 15);
        x[i] = (float)oracle_number(l->type, bits[i]);
        if (l->type != KERF_F32 || k % 2 == 0) continue;
        uint32_t wide = (uint32_t)bits[i] << 16 | (uint32_t)(mix_bits(h + i) & 0xffff);
        memcpy(&x[i], &wide, sizeof wide);
    }
}
