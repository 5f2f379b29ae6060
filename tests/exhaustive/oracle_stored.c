/* oracle_stored.c - see oracle_stored.h. */
#include "exhaustive/oracle_stored.h"

/* Where a number of some bits stands in a plane. */
typedef struct place {
    uint8_t *plane;
    uint64_t bit;
    unsigned bits;
} place;

static uint32_t get(place p)
{
    const uint8_t *at = p.plane + p.bit / 8;
    uint32_t v = at[0];
    unsigned shift = (unsigned)(p.bit % 8), bytes = (shift + p.bits + 7) / 8;
    for (unsigned k = 1; k < bytes; k++) v |= (uint32_t)at[k] << 8 * k;
    return p.bits == 32 ? v : v >> shift & ((1u << p.bits) - 1);
}

static void put(place p, uint32_t v)
{
    for (unsigned b = 0; b < p.bits; b++) {
        uint8_t *at = p.plane + (p.bit + b) / 8, one = (uint8_t)(1u << (p.bit + b) % 8);
        *at = (uint8_t)(v >> b & 1 ? *at | one : *at & ~one);
    }
}

/* --- byte structs ----------------------------------------------------------------------------- */

/* A struct: the scales of its groups, then their codes, group by group. Of the nibbles of a group
 * the low ones hold its first half. */
typedef struct parts {
    unsigned groups, scale_bytes, group_bytes, bytes;
} parts;

static parts parts_of(const kerf_format *f)
{
    parts p = {f->scale == KERF_SCALE_E4M3 ? 4 : 1, f->scale == KERF_SCALE_F16 ? 2 : 1,
               f->group * f->bits / 8, 0};
    p.bytes = p.groups * (p.scale_bytes + p.group_bytes);
    return p;
}

static uint64_t struct_at(const coded *c, const parts *p, uint64_t row, uint64_t group)
{
    uint64_t per_row = c->g.cols / c->codec.format->group / p->groups;
    return (row * per_row + group / p->groups) * p->bytes;
}

static place struct_scale(const coded *c, uint64_t row, uint64_t group)
{
    const parts p = parts_of(c->codec.format);
    uint64_t byte = struct_at(c, &p, row, group) + group % p.groups * p.scale_bytes;
    return (place){c->plane[KERF_PLANE_CODES].p, 8 * byte, 8 * p.scale_bytes};
}

static place struct_code(const coded *c, uint64_t row, uint64_t col)
{
    const kerf_format *f = c->codec.format;
    const parts p = parts_of(f);
    const unsigned half = f->group / 2, at = (unsigned)(col % f->group);
    uint64_t byte = struct_at(c, &p, row, col / f->group) + p.groups * p.scale_bytes +
                    col / f->group % p.groups * p.group_bytes;
    if (f->bits == 8) return (place){c->plane[KERF_PLANE_CODES].p, 8 * (byte + at), 8};
    return (place){c->plane[KERF_PLANE_CODES].p, 8 * (byte + at % half) + at / half * 4, 4};
}

/* --- planes ----------------------------------------------------------------------------------- */

static uint64_t div_up(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

static place code_place(const coded *c, uint64_t row, uint64_t col)
{
    const kerf_format *f = c->codec.format;
    if (f->geometry == KERF_GROUP_STRUCT) return struct_code(c, row, col);
    if (f->element == KERF_ELEM_NF4) col ^= 1; /* the even element is in the high nibble */
    uint64_t row_bits = 8 * div_up(c->g.cols * f->bits, 8);
    return (place){c->plane[KERF_PLANE_CODES].p, row * row_bits + col * f->bits, f->bits};
}

/* Which scale of its plane an element has. */
static uint64_t scale_index(const coded *c, uint64_t row, uint64_t col)
{
    const kerf_format *f = c->codec.format;
    const kerf_geometry *g = &c->g;
    uint64_t matrix = row / g->rows, down;
    switch (f->geometry) {
    case KERF_GROUP_TENSOR: return matrix;
    case KERF_GROUP_BLOCK: return row * div_up(g->cols, f->group) + col / f->group;
    case KERF_GROUP_FLAT: return col / f->group;
    case KERF_GROUP_TILE:
        down = matrix * div_up(g->rows, f->group) + row % g->rows / f->group;
        return down * div_up(g->cols, f->group) + col / f->group;
    default: return row;
    }
}

unsigned stored_scale_bits(const kerf_format *f)
{
    switch (f->scale) {
    case KERF_SCALE_NONE: return 0;
    case KERF_SCALE_F32: return 32;
    case KERF_SCALE_F16:
    case KERF_SCALE_BF16: return 16;
    default: return 8;
    }
}

static place scale_place(const coded *c, uint64_t row, uint64_t col)
{
    const kerf_format *f = c->codec.format;
    const unsigned bits = stored_scale_bits(f);
    if (f->geometry == KERF_GROUP_STRUCT) return struct_scale(c, row, col / f->group);
    return (place){c->plane[KERF_PLANE_SCALES].p, scale_index(c, row, col) * bits, bits};
}

uint32_t stored_code(const coded *c, uint64_t row, uint64_t col)
{
    return get(code_place(c, row, col));
}

uint32_t stored_scale(const coded *c, uint64_t row, uint64_t col)
{
    return c->codec.format->scale == KERF_SCALE_NONE ? 0 : get(scale_place(c, row, col));
}

/* One byte a row or matrix; along a row a stream as wide as the codes. */
uint32_t stored_zero(const coded *c, uint64_t row, uint64_t col)
{
    const kerf_format *f = c->codec.format;
    if (f->zero != KERF_ZERO_CODE) return 0;
    uint64_t bit = 8 * scale_index(c, row, col);
    if (f->geometry == KERF_GROUP_BLOCK)
        bit = row * 8 * div_up(div_up(c->g.cols, f->group) * f->bits, 8) + col / f->group * f->bits;
    return get((place){c->plane[KERF_PLANE_ZEROS].p, bit, f->bits});
}

void store_code(coded *c, uint64_t row, uint64_t col, uint32_t code)
{
    put(code_place(c, row, col), code);
}

void store_scale(coded *c, uint64_t row, uint64_t col, uint32_t bits)
{
    if (c->codec.format->scale != KERF_SCALE_NONE) put(scale_place(c, row, col), bits);
}
