/* geometry.c - how a tensor lies in a format: planes, bands, and the sizes of both. Every product
 * is checked, since shapes come from files. */
#include "format/format.h"
#include "base/base.h"
#include "block/all.h"

#include <string.h>

#define FLAT_BAND 16384u /* 256 blocks of 64: one run of second-level scales */

int kerf_shape_equal(const kerf_shape *a, const kerf_shape *b)
{
    return a->rank == b->rank && a->rank <= KERF_MAX_RANK &&
           memcmp(a->dim, b->dim, a->rank * sizeof *a->dim) == 0;
}

kerf_status kerf_shape_count(const kerf_shape *s, uint64_t *out, kerf_error *err)
{
    uint64_t n = 1, nonzero = 1;
    if (s->rank > KERF_MAX_RANK)
        return kf_fail(err, KERF_E_RANGE, KF_NOWHERE, "rank %u is above %d", s->rank,
                       KERF_MAX_RANK);
    for (unsigned i = 0; i < s->rank; i++) {
        /* An empty tensor must not hide dimensions that could never be multiplied. */
        if (!kf_mul_ok(nonzero, s->dim[i] ? s->dim[i] : 1, &nonzero))
            return kf_fail(err, KERF_E_RANGE, KF_NOWHERE,
                           "the product of the dimensions overflows");
        n = s->dim[i] ? n * s->dim[i] : 0;
    }
    *out = n;
    return KERF_OK;
}

static kerf_dtype codes_dtype(kerf_element e)
{
    switch (e) {
    case KERF_ELEM_F32: return KERF_F32;
    case KERF_ELEM_F16: return KERF_F16;
    case KERF_ELEM_BF16: return KERF_BF16;
    case KERF_ELEM_E4M3: return KERF_F8_E4M3;
    case KERF_ELEM_E5M2: return KERF_F8_E5M2;
    case KERF_ELEM_MXI8:
    case KERF_ELEM_S8: return KERF_I8;
    default: return KERF_U8;
    }
}

static kerf_dtype scale_dtype(kerf_scale_kind k)
{
    switch (k) {
    case KERF_SCALE_F32: return KERF_F32;
    case KERF_SCALE_F16: return KERF_F16;
    case KERF_SCALE_BF16: return KERF_BF16;
    case KERF_SCALE_E4M3: return KERF_F8_E4M3;
    case KERF_SCALE_E8M0:
    case KERF_SCALE_MAP8: return KERF_U8;
    case KERF_SCALE_NONE: break;
    }
    return KERF_DTYPE_NONE;
}

/* The leading dimensions of the tensor, all but the last `drop` (which are `rows` and `cols`). */
static kerf_shape leading(const kerf_shape *s, unsigned drop)
{
    kerf_shape out = {0};
    out.rank = s->rank > drop ? s->rank - drop : 0;
    for (unsigned i = 0; i < out.rank; i++) out.dim[i] = s->dim[i];
    return out;
}

static void append(kerf_shape *s, uint64_t dim)
{
    s->dim[s->rank++] = dim;
}

/* A plane with `per_band` bytes in each band, shaped [.., rows of groups, last]. */
static void set_band_plane(kerf_geometry *g, kerf_plane_id id, kerf_dtype dtype, uint64_t last,
                           uint64_t per_band)
{
    kerf_plane *p = &g->plane[id];
    int tile = g->format->geometry == KERF_GROUP_TILE;
    p->dtype = dtype;
    p->band_bytes = per_band;
    p->bytes = g->bands * per_band;
    p->shape = leading(&g->shape, tile ? 2 : 1);
    if (tile) append(&p->shape, g->rows ? kf_div_up(g->rows, g->band_rows) : 0);
    append(&p->shape, last);
}

/* A plane with one value per matrix: its shape is the leading dimensions. */
static void set_matrix_plane(kerf_geometry *g, kerf_plane_id id, kerf_dtype dtype)
{
    kerf_plane *p = &g->plane[id];
    p->dtype = dtype;
    p->per_matrix = 1;
    p->bytes = g->matrices * (kerf_dtype_bits(dtype) / 8);
    p->shape = leading(&g->shape, g->format->geometry == KERF_GROUP_FLAT ? KERF_MAX_RANK : 2);
}

static void set_codes_plane(kerf_geometry *g, uint64_t row_bytes)
{
    kerf_plane *p = &g->plane[KERF_PLANE_CODES];
    p->dtype = codes_dtype(g->format->element);
    p->band_bytes = g->band_rows * row_bytes;
    p->bytes = g->matrices * g->rows * row_bytes;
    p->shape = g->shape;
    const int is_inline = kf_is_inline(kf_spec_of(g->format));
    if (is_inline) p->dtype = KERF_U8;
    if (is_inline || g->format->bits < 8) {
        p->shape = leading(&g->shape, 1);
        append(&p->shape, row_bytes);
    }
}

/* One long row, cut into bands of 256 blocks; shaped as bitsandbytes has it. */
static void init_flat(kerf_geometry *g)
{
    const kerf_format *f = g->format;
    uint64_t groups = kf_div_up(g->elements, f->group),
             code_bytes = g->elements / 2 + g->elements % 2;
    g->matrices = g->rows = g->band_rows = 1;
    g->cols = g->elements;
    g->band_cols = FLAT_BAND;
    g->band_groups = FLAT_BAND / f->group;
    g->bands = g->bands_per_matrix = kf_div_up(g->elements, FLAT_BAND);

    kerf_plane codes = {KERF_U8, {2, {code_bytes, 1}}, code_bytes, 0, FLAT_BAND / 2};
    g->plane[KERF_PLANE_CODES] = codes;
    kerf_dtype dtype = scale_dtype(f->scale);
    uint64_t size = kerf_dtype_bits(dtype) / 8;
    kerf_plane scales = {dtype, {1, {groups}}, groups * size, 0, g->band_groups * size};
    g->plane[KERF_PLANE_SCALES] = scales;
    if (f->second == KERF_SECOND_NESTED) {
        kerf_plane second = {KERF_F32, {1, {g->bands}}, g->bands * 4, 0, 4};
        g->plane[KERF_PLANE_SECOND] = second;
    }
    if (f->zero == KERF_ZERO_F32) set_matrix_plane(g, KERF_PLANE_ZEROS, KERF_F32);
}

static void init_rows(kerf_geometry *g, uint64_t row_bytes)
{
    const kerf_format *f = g->format;
    unsigned rank = g->shape.rank;
    g->cols = rank ? g->shape.dim[rank - 1] : 1;
    g->rows = rank > 1 ? g->shape.dim[rank - 2] : 1;
    g->matrices = 1;
    for (unsigned i = 0; i + 2 < rank; i++) g->matrices *= g->shape.dim[i];
    g->band_rows = f->geometry == KERF_GROUP_TILE ? f->group : 1;
    g->band_cols = g->cols;
    g->bands_per_matrix = g->elements ? kf_div_up(g->rows, g->band_rows) : 0;
    g->bands = g->matrices * g->bands_per_matrix;
    switch (f->geometry) {
    case KERF_GROUP_ROW: g->band_groups = g->cols ? 1 : 0; break;
    case KERF_GROUP_BLOCK:
    case KERF_GROUP_STRUCT:
    case KERF_GROUP_SUPER:
    case KERF_GROUP_TILE: g->band_groups = kf_div_up(g->cols, f->group); break;
    default: g->band_groups = 0; break;
    }

    set_codes_plane(g, row_bytes);
    kerf_dtype scale = scale_dtype(f->scale);
    if (f->geometry == KERF_GROUP_TENSOR) {
        set_matrix_plane(g, KERF_PLANE_SCALES, scale);
        if (f->zero == KERF_ZERO_CODE) set_matrix_plane(g, KERF_PLANE_ZEROS, KERF_I8);
    } else if (f->geometry != KERF_GROUP_NONE && !kf_is_inline(kf_spec_of(f))) {
        set_band_plane(g, KERF_PLANE_SCALES, scale, g->band_groups,
                       g->band_groups * (kerf_dtype_bits(scale) / 8));
        uint64_t zero_bytes = kf_div_up(g->band_groups * f->bits, 8);
        if (f->zero == KERF_ZERO_CODE)
            set_band_plane(g, KERF_PLANE_ZEROS, f->bits == 8 ? KERF_I8 : KERF_U8, zero_bytes,
                           zero_bytes);
    }
    if (f->second == KERF_SECOND_TENSOR) set_matrix_plane(g, KERF_PLANE_SECOND, KERF_F32);
}

kerf_status kerf_geometry_init(kerf_geometry *out, const kerf_format *f, const kerf_shape *shape,
                               kerf_error *err)
{
    kerf_geometry g = {0};
    g.format = f;
    g.shape = *shape;
    KF_TRY(kerf_shape_count(shape, &g.elements, err));

    /* No plane is larger than 64 bits per element and row, so this one check bounds them all. */
    uint64_t cols = shape->rank ? shape->dim[shape->rank - 1] : 1, bound, row_bits;
    uint64_t rows = 1;
    for (unsigned i = 0; i + 1 < shape->rank; i++) /* cannot overflow: checked with the elements */
        rows *= shape->dim[i] ? shape->dim[i] : 1;
    if (!kf_add_ok(cols, 64, &bound) || !kf_mul_ok(bound, rows, &bound) ||
        !kf_mul_ok(bound, 64, &bound) || !kf_mul_ok(cols, f->bits, &row_bits))
        return kf_fail(err, KERF_E_RANGE, KF_NOWHERE, "the size of this tensor in %s overflows",
                       f->name);

    const kf_spec s = kf_spec_of(f);
    if (kf_is_inline(s)) {
        if (cols % kf_inline_elements(s))
            return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                           "%s has blocks of %u elements and no short ones; a row of %llu is no "
                           "multiple of that; keep this tensor in its type",
                           f->name, kf_inline_elements(s), (unsigned long long)cols);
        init_rows(&g, cols / kf_inline_elements(s) * kf_inline_bytes(s));
    } else if (f->geometry == KERF_GROUP_FLAT)
        init_flat(&g);
    else
        init_rows(&g, kf_div_up(row_bits, 8));
    for (int p = 0; p < KERF_PLANES; p++) g.bytes += g.plane[p].bytes;
    *out = g;
    return KERF_OK;
}

kerf_status kerf_codec_check(kerf_codec c, const kerf_shape *shape, kerf_dtype source,
                             kerf_error *err)
{
    kerf_geometry g;
    if (source != KERF_F32 && source != KERF_F16 && source != KERF_BF16)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "numbers of type %s cannot be encoded; F32, F16 and BF16 can",
                       kerf_dtype_name(source));
    KF_TRY(kf_encoder_check(c.format, c.encoder, source, err));
    return kerf_geometry_init(&g, c.format, shape, err);
}

double kerf_geometry_bpw(const kerf_geometry *g)
{
    return g->elements ? 8.0 * (double)g->bytes / (double)g->elements : 0;
}

/* Rows of the stacked matrices before band b. */
static uint64_t rows_before(const kerf_geometry *g, uint64_t b)
{
    if (g->bands_per_matrix == 0) return 0;
    return b / g->bands_per_matrix * g->rows + b % g->bands_per_matrix * g->band_rows;
}

kerf_extent kerf_band_elements(const kerf_geometry *g, uint64_t b0, uint64_t b1)
{
    kerf_extent e;
    if (g->format->geometry == KERF_GROUP_FLAT) {
        e.offset = kf_min_u64(b0 * FLAT_BAND, g->elements);
        e.count = kf_min_u64(b1 * FLAT_BAND, g->elements) - e.offset;
    } else {
        e.offset = rows_before(g, b0) * g->cols;
        e.count = rows_before(g, b1) * g->cols - e.offset;
    }
    return e;
}

kerf_extent kerf_band_bytes(const kerf_geometry *g, kerf_plane_id id, uint64_t b0, uint64_t b1)
{
    const kerf_plane *p = &g->plane[id];
    kerf_extent e = {0, p->bytes};
    if (p->per_matrix) return e;
    if (id == KERF_PLANE_CODES && g->format->geometry != KERF_GROUP_FLAT) {
        uint64_t row_bytes = p->band_bytes / g->band_rows;
        e.offset = rows_before(g, b0) * row_bytes;
        e.count = rows_before(g, b1) * row_bytes - e.offset;
    } else {
        e.offset = kf_min_u64(b0 * p->band_bytes, p->bytes);
        e.count = kf_min_u64(b1 * p->band_bytes, p->bytes) - e.offset;
    }
    return e;
}
