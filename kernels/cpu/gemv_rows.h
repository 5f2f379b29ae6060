/* gemv_rows.h - the matrix-vector product for one instruction set, included by its file after it
 * has said what a vector is:
 *
 *   V                      lanes of fp32
 *   vf, vi                 V floats, V dwords; vh: V 16-bit words; vt: a table of 16 floats
 *   vf_load, vf_set1, vf_add, vf_sub, vf_mul, vf_fma(a, b, c) = a * b + c, vf_sum (fixed tree)
 *   vf_spread(p, vi i)     lane l: p[i[l]]; reads V floats
 *   vf_of_int, vf_of_half, vf_of_bits, vt_load, vf_look_up(vt, vi): by the low 4 bits of lanes
 *   vf_spread_bytes(p, mask, factor, last): V bytes b as the fp16 b << 7 & mask, times factor;
 *                          last[0] and last[1] instead of 0x7F and 0xFF
 *   vi_load, vi_set1, vi_shl, vi_shr, vi_and, vi_load_pieces(p, stride, bytes),
 *   vi_top_byte(v, j)      byte j of each lane moved to its top, zeros below
 *   vh_load, vh_load6: 2V bytes; 3V/2 bytes, three to every dword
 *   vh_set1, vh_and, vh_or, vh_shl32, vh_shl16, vh_sra16(v, count), vh_max8, vh_has8(v, byte)
 *
 *   vf_dot(c, a, b)        with PAIRS: c + the products of two bfloat16 in each lane;
 *                          vi_table16(16 floats as bfloat16), vi_look_up16(table, vi)
 *
 * Each row is summed in an order that depends on the layout alone: lanes of a step over their
 * codes, steps of a chunk, chunks of a row, lanes by a fixed tree. Neither the rows nor the columns
 * that are done beside it change a bit. */
#include "cpu/gemv_layout.h"
#include "format/format.h"

#define ROWS 4 /* done at a time, so that each x is loaded once for them */
#define WIDE 4 /* columns done at a time, so that each weight is decoded once for them */
#ifdef PAIRS
#define PAIRED 1
#else
#define PAIRED 0
#endif
#define ENTRIES (KF_GEMV_CHUNK * KF_GEMV_LANES)

/* Asks for what lies `ahead` bytes further on: the same place of the rows that come next. Rows are
 * short enough for a prefetcher of the machine to lose them again and again. */
KF_HD void fetch_ahead(const uint8_t *p, size_t ahead)
{
    __builtin_prefetch((const void *)((uintptr_t)p + ahead), 0, 2);
}

/* --- scales -------------------------------------------------------------------------------------
 * Scales and zero points of entries [first, first + n) of row r as fp32, zero past its end. An
 * entry is what one scale serves of one step. */

/* Zero points of m groups from group `first` on, as the numbers of codes are. */
KF_HD void widen_zeros(kf_spec s, const kf_gemv_layout *l, const uint8_t *zeros, size_t first,
                       size_t m, float *restrict out)
{
    uint8_t code[ENTRIES];
    const unsigned in_byte = 8 / s.bits, mask = (1u << s.bits) - 1;
    const uint8_t *from = zeros + first / in_byte; /* chunks begin at whole bytes */
    size_t whole = m / in_byte;
    for (size_t i = 0; i < whole; i++)
        UNROLL for (unsigned j = 0; j < in_byte; j++) code[i * in_byte + j] =
            (uint8_t)(from[i] >> j * s.bits & mask);
    for (size_t i = whole * in_byte; i < m; i++)
        code[i] = (uint8_t)kf_get_code(zeros, s.bits, first + i);
    for (size_t i = 0; i < m; i++) {
        kf_scale scale = {0, code[i]};
        out[i] = ((float)kf_dequant_init(s, scale, 1, 0).zero - l->offset) * l->zero_unit;
    }
}

/* V scales that are fp16, or one byte each that spreads to one, from contiguous bytes. */
KF_HD vf halves_to_scales(const kf_gemv_layout *l, const uint8_t *from, float factor)
{
    if (l->halves == KF_HALVES_WHOLE) return vf_of_half(vh_load(from));
    return vf_spread_bytes(from, l->half_mask, factor, l->half_last);
}

/* The vector way for the layouts that have one; the same numbers as kf_dequant_at gives. 0: a
 * second-level scale so large or small that the products would round differently. */
KF_HD int widen_halves(kf_spec s, const kf_gemv_layout *l, const kf_matrix *w, size_t r,
                       size_t first, size_t m, float *restrict scale)
{
    const size_t size = s.scale == KERF_SCALE_F16 ? 2 : 1;
    uint8_t bytes[(ENTRIES + V) * 2];
    const uint8_t *from = w->plane[KERF_PLANE_SCALES];
    float factor = l->half_factor;
    size_t i = 0;
    if (s.second == KERF_SECOND_TENSOR)
        factor *= kf_float(kf_get_code(w->plane[KERF_PLANE_SECOND], 32, 0));
    if (!(kf_abs(factor) >= 0x1p-100f && kf_abs(factor) <= 0x1p100f)) return 0;
    if (s.geometry == KERF_GROUP_STRUCT) {
        const size_t together = kf_struct_groups(s) * size; /* chunks begin with a struct */
        from = w->plane[KERF_PLANE_CODES] + r * w->row_bytes + kf_struct_scale(s, first);
        for (size_t j = 0; j < m * size; j += together, from += kf_struct_bytes(s))
            memcpy(bytes + j, from, together);
        memset(bytes + m * size, 0, V * size);
        from = bytes;
        for (; i < m; i += V) vf_store(scale + i, halves_to_scales(l, from + i * size, factor));
        return 1;
    }
    from += (s.geometry == KERF_GROUP_FLAT ? r * w->cols / s.group : r * w->row_groups) * size;
    from += first * size;
    for (; i + V <= m; i += V) vf_store(scale + i, halves_to_scales(l, from + i * size, factor));
    memset(bytes, 0, V * size);
    memcpy(bytes, from + i * size, (m - i) * size);
    if (i < m) vf_store(scale + i, halves_to_scales(l, bytes, factor));
    return 1;
}

KF_HD void widen_scales(kf_spec s, const kf_gemv_layout *l, const kf_matrix *w, size_t r,
                        size_t first, size_t n, float *restrict scale, float *restrict zero)
{
    size_t base = s.geometry == KERF_GROUP_FLAT ? r * w->cols / s.group : 0;
    size_t left = (w->cols + l->scale_elements - 1) / l->scale_elements - first;
    size_t m = n < left ? n : left, at = s.geometry == KERF_GROUP_TENSOR ? 0 : r;
    const uint8_t *zeros =
        s.zero == KERF_ZERO_CODE ? w->plane[KERF_PLANE_ZEROS] + at * w->zero_bytes : NULL;
    if (l->scale_elements == s.group) {
        if (s.geometry == KERF_GROUP_BLOCK) {
            const size_t size = kf_scale_bytes(s.scale), ahead = ROWS * w->row_groups * size;
            const uint8_t *p = w->plane[KERF_PLANE_SCALES] + (r * w->row_groups + first) * size;
            for (size_t i = 0; i < m * size; i += 64) fetch_ahead(p + i, ahead);
        }
        int may = s.scale == KERF_SCALE_F16 || s.scale == KERF_SCALE_E4M3; /* folds away */
        if (!may || !l->halves || !widen_halves(s, l, w, r, first, m, scale))
            for (size_t i = 0; i < m; i++)
                scale[i] = kf_dequant_at(s, w, r, base + first + i).scale;
        if (zeros) widen_zeros(s, l, zeros, first, m, zero);
    } else { /* a group serves several steps */
        size_t known = SIZE_MAX;
        kf_dequant d = {0, 0};
        for (size_t i = 0; i < m; i++) {
            size_t group = s.group ? (first + i) * l->scale_elements / s.group : 0;
            if (group != known) d = kf_dequant_at(s, w, r, base + group);
            known = group;
            scale[i] = d.scale;
            if (zeros) zero[i] = ((float)d.zero - l->offset) * l->zero_unit;
        }
    }
    for (size_t i = m; i < n; i++) {
        scale[i] = 0;
        if (zeros) zero[i] = 0;
    }
}

#define KERF_FORMAT(ID, wire, name, family, elem, geometry, group, scale, second, zero, ...)      \
    static void widen_##ID(const kf_gemv_layout *l, const kf_matrix *w, size_t r, size_t first,   \
                           size_t n, float *scales, float *zeros)                                 \
    {                                                                                             \
        static const kf_spec s = KF_SPEC(ID, family, elem, geometry, group, scale, second, zero); \
        widen_scales(s, l, w, r, first, n, scales, zeros);                                        \
    }
#include <kerf/formats.def>
#undef KERF_FORMAT

typedef void widen_function(const kf_gemv_layout *l, const kf_matrix *w, size_t r, size_t first,
                            size_t n, float *scales, float *zeros);

static widen_function *const widen_of[] = {
#define KERF_FORMAT(ID, ...) widen_##ID,
#include <kerf/formats.def>
#undef KERF_FORMAT
};

/* --- codes to weights ---------------------------------------------------------------------------
 */

typedef struct constants {
    vt table;
#ifdef PAIRS
    vi table16;
#endif
    vi spread;
    vh mask, low7;
    unsigned shift;
} constants;

static inline constants constants_of(const kf_gemv_layout *l)
{
    int lane[KF_GEMV_LANES];
    for (size_t i = 0; i < V; i++) lane[i] = (int)(i * l->scales / V);
    constants k = {.table = vt_load(l->table),
                   .spread = vi_load((const uint8_t *)lane),
                   .mask = vh_set1((int16_t)l->mask),
                   .low7 = vh_set1(0x7f7f),
                   .shift = l->shift};
#ifdef PAIRS
    k.table16 = vi_table16(l->table);
#endif
    return k;
}

/* The codes of one step as they lie in memory. */
typedef union raw {
    vi d;
    vh h;
} raw;

/* Step `step` of a row whose bytes begin with step `origin`. piece: as in the layout. */
KF_HD raw load_codes(const int decode, const kf_gemv_layout *l, size_t piece, const uint8_t *row,
                     size_t origin, size_t step)
{
    raw q;
    size_t at = step - origin;
    if (decode == KF_DECODE_MINI8 || decode == KF_DECODE_F16)
        q.h = vh_load(row + at * (2 * V));
    else if (decode == KF_DECODE_MINI6)
        q.h = vh_load6(row + at * (3 * V / 2));
    else if (!piece ||
             (decode != KF_DECODE_LUT4 && decode != KF_DECODE_PAIR4 && decode != KF_DECODE_BYTE))
        q.d = vi_load(row + at * (4 * V));
    else if (piece < 4 * V)
        q.d = vi_load_pieces(row + l->first + at * (4 * V / piece) * l->stride, l->stride, piece);
    else {
        size_t in = at * (4 * V);
        q.d = vi_load(row + l->first + in / piece * l->stride + in % piece);
    }
    return q;
}

/* The j-th weight of each lane. */
KF_HD vf weight(const int decode, const constants *k, raw q, int j)
{
    switch (decode) {
    case KF_DECODE_LUT4: return vf_look_up(k->table, vi_shr(q.d, 4 * j));
    case KF_DECODE_LUT2: return vf_look_up(k->table, vi_shr(q.d, 2 * j));
    case KF_DECODE_BYTE: return vf_of_int(vi_top_byte(q.d, j));
    case KF_DECODE_MINI8:
        q.h = j == 0 ? vh_shl16(q.h, 8) : q.h;
        return vf_of_half(vh_and(vh_sra16(q.h, k->shift), k->mask));
    case KF_DECODE_MINI6: /* codes 0 and 2, or 1 and 3, at the top of the words of a dword */
        q.h = j == 0 ? vh_or(vh_and(vh_shl32(q.h, 10), vh_set32(0xfc00)),
                             vh_and(vh_shl32(q.h, 14), vh_set32((int32_t)0xfc000000)))
                     : vh_or(vh_and(vh_shl32(q.h, 4), vh_set32(0xfc00)),
                             vh_and(vh_shl32(q.h, 8), vh_set32((int32_t)0xfc000000)));
        return vf_of_half(vh_and(vh_sra16(q.h, k->shift), k->mask));
    case KF_DECODE_F16: return vf_of_half(q.h);
    case KF_DECODE_BF16:
        return vf_of_bits(j == 0 ? vi_shl(q.d, 16) : vi_and(q.d, vi_set1((int)0xffff0000)));
    default: return vf_of_bits(q.d);
    }
}

/* Adds the j-th vector of codes of a row times that of C columns to dot. */
KF_HD void add_products(const int decode, const int scaling, const int C, const constants *k, raw q,
                        vf zero, int j, const float *x, size_t x_stride, vf dot[WIDE])
{
#ifdef PAIRS
    vi pair = vi_look_up16(k->table16, vi_shr(q.d, (decode == KF_DECODE_PAIR4 ? 4 : 2) * j));
    (void)scaling, (void)zero;
    UNROLL for (int c = 0; c < C; c++)
    {
        vi v = vi_load((const uint8_t *)(x + (size_t)c * x_stride) + (size_t)j * sizeof v);
        dot[c] = vf_dot(j == 0 ? vf_set1(0) : dot[c], pair, v);
    }
#else
    vf w = weight(decode, k, q, j);
    if (scaling == KF_SCALING_ZERO) w = vf_sub(w, zero);
    UNROLL for (int c = 0; c < C; c++)
    {
        vf v = vf_load(x + (size_t)c * x_stride + (size_t)j * V);
        dot[c] = j == 0 ? vf_mul(w, v) : vf_fma(w, v, dot[c]);
    }
#endif
}

/* --- rows ---------------------------------------------------------------------------------------
 */

typedef struct scratch {
    float scale[ROWS][ENTRIES + V], zero[ROWS][ENTRIES + V];
    uint8_t tail[ROWS][64];
} scratch;

/* Adds steps [from, to) of R rows times C columns to sum; `first` is the first step of the chunk
 * whose scales are at hand. */
KF_HD void add_steps(const int decode, const int scaling, const int R, const int C,
                     const kf_gemv_layout *l, const constants *k, const scratch *t, size_t first,
                     const uint8_t *const *row, size_t piece, size_t origin, const float *x,
                     size_t x_stride, size_t from, size_t to, vf sum[ROWS][WIDE], vh worst[ROWS])
{
    static const int codes[] = {
#define X(name, n) n,
        KF_GEMV_DECODES(X)
#undef X
    };
    const int n = codes[decode];
    for (size_t step = from; step < to; step++) {
        vf dot[ROWS][WIDE], zero[ROWS];
        raw q[ROWS];
        size_t entry = (step - first) * l->scales;
        UNROLL for (int r = 0; r < R; r++)
        {
            fetch_ahead(row[r] + (step - origin) * l->step_bytes, ROWS * l->row_bytes);
            q[r] = load_codes(decode, l, piece, row[r], origin, step);
            if (decode == KF_DECODE_MINI8) worst[r] = vh_max8(worst[r], vh_and(q[r].h, k->low7));
            zero[r] =
                scaling == KF_SCALING_ZERO ? vf_spread(t->zero[r] + entry, k->spread) : vf_set1(0);
        }
        const float *xs = x + step * (size_t)n * V / (PAIRED + 1);
        UNROLL for (int j = 0; j < n / (PAIRED + 1); j++) UNROLL for (int r = 0; r < R; r++)
            add_products(decode, scaling, C, k, q[r], zero[r], j, xs, x_stride, dot[r]);
        UNROLL for (int r = 0; r < R; r++)
        {
            vf scale = vf_set1(1);
            if (scaling != KF_SCALING_ROW) scale = vf_spread(t->scale[r] + entry, k->spread);
            UNROLL for (int c = 0; c < C; c++) sum[r][c] =
                scaling == KF_SCALING_ROW ? vf_add(sum[r][c], dot[r][c])
                                          : vf_fma(dot[r][c], scale, sum[r][c]);
        }
    }
}

/* R rows from r on times C columns from `column` on. */
KF_HD void do_tile(const int decode, const int scaling, const int R, const int C,
                   const kf_gemv_call *call, size_t r0, size_t column)
{
    const kf_gemv_layout *l = call->plan->state;
    widen_function *widen = widen_of[kf_format_index(call->plan->shape.format)];
    size_t x_stride = l->steps * l->step;
    const float *x = kf_gemv_packed(l, call->workspace, column);
    constants k = constants_of(l);
    scratch t;
    const uint8_t *row[ROWS], *tail[ROWS];
    vf total[ROWS][WIDE];
    vh worst[ROWS];
    for (int r = 0; r < R; r++) {
        row[r] = call->w.plane[KERF_PLANE_CODES] + (r0 + (size_t)r) * l->row_bytes;
        tail[r] = t.tail[r];
        worst[r] = vh_set1(0);
        if (l->whole < l->steps) kf_gemv_tail(l, row[r], t.tail[r]);
        UNROLL for (int c = 0; c < C; c++) total[r][c] = vf_set1(0);
    }
    for (size_t first = 0; first < l->steps; first += KF_GEMV_CHUNK) {
        size_t end = l->steps - first < KF_GEMV_CHUNK ? l->steps : first + KF_GEMV_CHUNK;
        size_t whole = end < l->whole ? end : l->whole;
        vf sum[ROWS][WIDE];
        for (int r = 0; r < R; r++) {
            if (scaling != KF_SCALING_ROW)
                widen(l, &call->w, r0 + (size_t)r, first * l->scales, (end - first) * l->scales,
                      t.scale[r], t.zero[r]);
            UNROLL for (int c = 0; c < C; c++) sum[r][c] = vf_set1(0);
        }
        add_steps(decode, scaling, R, C, l, &k, &t, first, row, l->piece, 0, x, x_stride, first,
                  whole, sum, worst);
        if (end > l->whole)
            add_steps(decode, scaling, R, C, l, &k, &t, first, tail, 0, l->whole, x, x_stride,
                      l->whole, end, sum, worst);
        for (int r = 0; r < R; r++)
            UNROLL for (int c = 0; c < C; c++) total[r][c] = vf_add(total[r][c], sum[r][c]);
    }
    for (int r = 0; r < R; r++) {
        float factor[1] = {1}, none[1];
        if (scaling == KF_SCALING_ROW) widen(l, &call->w, r0 + (size_t)r, 0, 1, factor, none);
        int nan = decode == KF_DECODE_MINI8 && l->nan_code && vh_has8(worst[r], l->nan_code);
        for (int c = 0; c < C; c++) {
            float y = vf_sum(total[r][c]) * factor[0];
            kf_gemv_finish(call, r0 + (size_t)r, column + (size_t)c,
                           nan ? kf_float(0x7fc00000) : y);
        }
    }
}

/* Rows in fours: their codes stay near while the columns pass. */
KF_HD void do_rows(const int decode, const int scaling, const kf_gemv_call *call, size_t r0,
                   size_t r1)
{
    for (size_t r = r0; r < r1; r += ROWS) {
        size_t end = r1 - r < ROWS ? r1 : r + ROWS;
        for (size_t c = 0; c < call->columns;) {
            size_t left = call->columns - c, wide = left >= WIDE ? WIDE : left >= 2 ? 2 : 1;
            for (size_t i = r; i < end;) {
                size_t high = end - i;
                if (wide == WIDE && high >= 2) {
                    do_tile(decode, scaling, 2, WIDE, call, i, c);
                    i += 2;
                } else if (wide == WIDE)
                    do_tile(decode, scaling, 1, WIDE, call, i++, c);
                else if (wide == 2)
                    do_tile(decode, scaling, 1, 2, call, i++, c);
                else if (high == ROWS) {
                    do_tile(decode, scaling, ROWS, 1, call, i, c);
                    i += ROWS;
                } else
                    do_tile(decode, scaling, 1, 1, call, i++, c);
            }
            c += wide;
        }
    }
}

#define ROWS_OF(decode, scaling)                                                       \
    static void rows_##decode##_##scaling(const kf_gemv_call *c, size_t r0, size_t r1) \
    {                                                                                  \
        do_rows(KF_DECODE_##decode, KF_SCALING_##scaling, c, r0, r1);                  \
    }
#ifdef PAIRS
#define KERNELS(X) X(PAIR4, ROW) X(PAIR4, STEP) X(PAIR2, ROW) X(PAIR2, STEP)
#else
#define KERNELS(X)                                                                      \
    X(LUT4, ROW)                                                                        \
    X(LUT4, STEP)                                                                       \
    X(LUT4, ZERO)                                                                       \
    X(LUT2, ROW)                                                                        \
    X(LUT2, STEP)                                                                       \
    X(LUT2, ZERO) X(BYTE, ROW) X(BYTE, STEP) X(BYTE, ZERO) X(MINI8, ROW) X(MINI8, STEP) \
        X(MINI6, ROW) X(MINI6, STEP) X(F16, ROW) X(BF16, ROW) X(F32, ROW)
#endif
KERNELS(ROWS_OF)

typedef void rows_function(const kf_gemv_call *c, size_t r0, size_t r1);

static rows_function *const rows_of[KF_DECODES][KF_SCALINGS] = {
#define X(decode, scaling) [KF_DECODE_##decode][KF_SCALING_##scaling] = rows_##decode##_##scaling,
    KERNELS(X)
#undef X
};

/* --- the backend --------------------------------------------------------------------------------
 */

static kerf_status isa_plan(kerf_gemv *plan)
{
    kf_gemv_layout *l = malloc(sizeof *l);
    if (!l) return KERF_E_NOMEM;
    if (!kf_gemv_layout_init(l, plan, V, PAIRED) || !rows_of[l->decode][l->scaling]) {
        free(l);
        return KERF_E_NOSUP;
    }
    plan->state = l;
    plan->workspace = kf_gemv_layout_workspace(l, &plan->shape);
    plan->bound = kf_gemv_layout_bound(l);
    return KERF_OK;
}

/* n numbers as fp32; returns their largest magnitude, NaN and Inf as the largest of all. */
static float widen_x(kerf_dtype type, const uint8_t *x, size_t n, float *out)
{
    size_t i = 0;
    uint32_t amax = 0;
    if (type == KERF_F16)
        for (; i + V <= n; i += V) vf_store(out + i, vf_of_half(vh_load(x + 2 * i)));
    for (; i < n; i++) out[i] = kf_load(type, x, i);
    for (i = 0; i < n; i++) {
        uint32_t magnitude = kf_bits(out[i]) & 0x7fffffff;
        amax = magnitude > amax ? magnitude : amax;
    }
    return kf_float(amax);
}

/* One step of x in the order of the layout, zero past its n numbers. */
static void pack_step(const kf_gemv_layout *l, const float *from, size_t n, float *out)
{
    if (PAIRED) {
        uint16_t *half = (uint16_t *)out;
        for (size_t i = 0; i < l->step; i++)
            half[i] = l->order[i] < n ? (uint16_t)(kf_bits(from[l->order[i]]) >> 16) : 0;
    } else if (n == l->step) {
        for (size_t i = 0; i < n; i++) out[i] = from[l->order[i]];
    } else
        for (size_t i = 0; i < l->step; i++) out[i] = l->order[i] < n ? from[l->order[i]] : 0;
}

/* Packs x. Numbers so large or so small that sums of codes times x could leave the range of fp32
 * where y does not are for the reference. */
static int isa_start(const kf_gemv_call *c)
{
    const kf_gemv_layout *l = c->plan->state;
    size_t cols = c->w.cols, size = kerf_dtype_bits(c->x_type) / 8;
    float *wide = kf_gemv_packed(l, c->workspace, c->columns);
    for (unsigned i = 0; i < c->columns; i++) {
        float *out = kf_gemv_packed(l, c->workspace, i);
        float amax = widen_x(c->x_type, c->x + i * c->x_stride * size, cols, wide);
        if (amax != 0 && !(amax >= 0x1p-60f && amax <= 0x1p60f)) return 0;
        for (size_t k = 0; k < cols; k++) wide[k] *= l->factor;
        for (size_t step = 0; step < l->steps; step++) {
            size_t left = cols - step * l->step;
            pack_step(l, wide + step * l->step, left < l->step ? left : l->step,
                      out + step * l->step / (PAIRED + 1));
        }
    }
    return 1;
}

static void isa_rows(const kf_gemv_call *c, size_t r0, size_t r1)
{
    const kf_gemv_layout *l = c->plan->state;
    rows_of[l->decode][l->scaling](c, r0, r1);
}
