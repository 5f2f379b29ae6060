/* gemv_steps.h - steps of a few rows times a few columns, for one instruction set (gemv_rows.h):
 * codes become weights, and weights times x are summed in registers. */
#ifndef KERF_GEMV_STEPS_H
#define KERF_GEMV_STEPS_H

#include "cpu/gemv_direct.h"

/* --- codes to weights ---------------------------------------------------------------------------
 */

typedef struct constants {
    vt table;
#ifdef PAIRS
    vi table16;
#endif
#ifdef INTEGERS
    vw_tables whole;
#endif
    vi spread;
    vh mask, low7;
    unsigned shift;
    direct_places place;
} constants;

static inline constants constants_of(const kf_gemv_layout *l)
{
    int lane[KF_GEMV_LANES];
    for (size_t i = 0; i < V; i++) lane[i] = (int)(i * l->scales / V);
    constants k = {.table = vt_load(l->table),
                   .spread = vi_load((const uint8_t *)lane),
                   .mask = vh_set1((int16_t)l->mask),
                   .low7 = vh_set1(0x7f7f),
                   .shift = l->shift,
                   .place = direct_places_of(l)};
#ifdef PAIRS
    k.table16 = vi_table16(l->table);
#endif
#ifdef INTEGERS
    k.whole = vw_tables_of(l);
#endif
    return k;
}

/* The codes of one step as they lie in memory. */
typedef union raw {
    vi d;
    vh h;
} raw;

/* What steps are alike: their codes lie in structs, of which a step has any part, one or two; or
 * one scale serves all lanes, or a few steps, or a whole row; or neither. A literal, so that no
 * loop asks. */
enum {
    STEPS,
    STEPS_OF_ONE,
    STEPS_SHARED,
    STEPS_OF_ROW,
    STEPS_OF_STRUCTS,
    STEPS_OF_STRUCT,
    STEPS_OF_TWO
};

/* Step `step` of a row whose bytes begin with step `origin`. */
KF_HD raw load_codes(const int decode, const int kind, const kf_gemv_layout *l, const uint8_t *row,
                     size_t origin, size_t step)
{
    raw q;
    size_t at = step - origin;
    if (decode == KF_DECODE_MINI8 || decode == KF_DECODE_F16) q.h = vh_load(row + at * (2 * V));
#ifdef TAKES_BFLOAT
    else if (decode == KF_DECODE_BFLOAT6)
        q.d = vi_load6(row + at * (3 * V));
#endif
#ifdef INTEGERS
    else if (decode == KF_DECODE_INT6 || decode == KF_DECODE_WIDE6)
        q.d = vi_load6(row + at * (3 * V));
#endif
    else if (decode == KF_DECODE_MINI6)
        q.h = vh_load6(row + at * (3 * V / 2));
    else if (kind == STEPS_OF_STRUCT)
        q.d = vi_load(row + l->first + at * l->step_stride);
    else if (kind == STEPS_OF_TWO)
        q.d = vi_load_pieces(row + l->first + at * l->step_stride, l->stride, 2 * V);
    else if (kind != STEPS_OF_STRUCTS)
        q.d = vi_load(row + at * (4 * V));
    else if (l->piece < 4 * V)
        q.d = vi_load_pieces(row + l->first + at * l->step_stride, l->stride, l->piece);
    else if (l->piece == 4 * V)
        q.d = vi_load(row + l->first + at * l->step_stride);
    else {
        size_t in = at * (4 * V);
        q.d = vi_load(row + l->first + in / l->piece * l->stride + in % l->piece);
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
#ifdef TAKES_BFLOAT
    case KF_DECODE_BFLOAT8: /* codes 0 and 2 of a lane, then 1 and 3 */
    case KF_DECODE_BFLOAT6:
        if (j < 2) q.d = vi_shl16(q.d, decode == KF_DECODE_BFLOAT8 ? 8 : 6);
        q.d = vi_sra16(q.d, k->shift);
        q.d = vi_and(q.d, vi_both(k->mask));
        return vf_of_bits(j % 2 ? vi_and(q.d, vi_set1((int)0xffff0000)) : vi_shl(q.d, 16));
#endif
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

KF_HD int is_bfloat(const int decode)
{
    return kf_gemv_is_bfloat((kf_gemv_decode)decode);
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
        if (j > 0)
            dot[c] = vf_fma(w, v, dot[c]);
        else if (is_bfloat(decode)) /* a Zen 3 waits where it only multiplies subnormals */
            dot[c] = vf_fma(w, v, vf_set1(0));
        else
            dot[c] = vf_mul(w, v);
    }
#endif
}

/* --- rows ---------------------------------------------------------------------------------------
 */

typedef struct scratch {
    float scale[ROWS][ENTRIES + V], zero[ROWS][ENTRIES + V];
    vz zero_of_row[ROWS];
    uint8_t tail[ROWS][64];
    direct d;
    vh odd; /* the largest fp16 that bytes of scales spread to */
} scratch;

#ifdef INTEGERS
/* Adds one step of a row to its sums. x: the packed integers; units: what one of them stands for.
 */
KF_HD void add_whole(const int decode, const int scaling, const int late, const int C,
                     const constants *k, raw q, vf scale, vz zero, const int16_t *x,
                     const float *unit, size_t x_stride, vf sum[WIDE])
{
    vw w = vw_of(decode, scaling == KF_SCALING_ZERO, &k->whole, q.d, zero);
    UNROLL for (int c = 0; c < C; c++)
    {
        vf dot = vw_dot(decode, &w, x + (size_t)c * 2 * x_stride);
        vf u = vf_set1(unit[(size_t)c * x_stride]);
        sum[c] = late ? vf_fma(dot, u, sum[c]) : vf_fma(vf_mul(dot, u), scale, sum[c]);
    }
}
#endif

/* Bytes of codes of a step: a literal, as the decode is. */
KF_HD size_t step_bytes_of(const int decode)
{
    if (decode == KF_DECODE_MINI8 || decode == KF_DECODE_F16) return (size_t)2 * V;
    if (decode == KF_DECODE_MINI6) return (size_t)3 * V / 2;
    const int six =
        decode == KF_DECODE_INT6 || decode == KF_DECODE_WIDE6 || decode == KF_DECODE_BFLOAT6;
    return (size_t)(six ? 3 : 4) * V;
}

/* The scales of a row's lanes in one step. */
KF_HD vf step_scale(const int scaling, const int kind, const int source, const kf_gemv_layout *l,
                    const constants *k, const scratch *t, int r, size_t step, size_t entry, vh *odd)
{
    if (scaling == KF_SCALING_ROW || kind == STEPS_OF_ROW) return vf_set1(1);
    if (source)
        return direct_scale(source,
                            kind == STEPS_OF_ONE || kind == STEPS_SHARED ||
                                (source == KF_SOURCE_MAP && kind == STEPS_OF_STRUCT),
                            kind == STEPS_OF_TWO, l, &t->d, &k->place, r, step, odd);
    if (kind == STEPS_OF_ONE) return vf_set1(t->scale[r][entry]);
    return vf_spread(t->scale[r] + entry, k->spread);
}

/* What a row has in one step. */
typedef struct step_row {
    raw q;
    vf scale;
    vz zero;
} step_row;

/* Puts the scale and the zero point of row r in this step into s. */
KF_HD void scale_row(const int decode, const int scaling, const int kind, const int source,
                     const kf_gemv_layout *l, const constants *k, const scratch *t, int r,
                     size_t step, size_t entry, vh *odd, step_row *s)
{
    const unsigned packed = decode == KF_DECODE_INT2 ? 2 : 1; /* 2^packed zero points in a byte */
    s->zero = scaling != KF_SCALING_ZERO ? vz_of(vf_set1(0))
              : source                   ? direct_zero(packed, l, &t->d, &k->place, r, step)
              : kind == STEPS_OF_ROW     ? t->zero_of_row[r]
              : kind == STEPS_OF_ONE     ? vz_set1(t->zero[r][entry])
                                         : vz_of(vf_spread(t->zero[r] + entry, k->spread));
    s->scale = step_scale(scaling, kind, source, l, k, t, r, step, entry, odd);
}

#ifndef INTEGERS
/* Adds one step of a row to its sums. */
KF_HD void add_row(const int decode, const int scaling, const int late, const int C,
                   const constants *k, const step_row *s, const size_t codes, const float *x,
                   size_t x_stride, vf sum[WIDE])
{
    vf dot[WIDE];
    UNROLL for (int j = 0; j < (int)codes; j++)
        add_products(decode, scaling, C, k, s->q, s->zero, j, x, x_stride, dot);
    UNROLL for (int c = 0; c < C; c++) sum[c] =
        late ? vf_add(sum[c], dot[c]) : vf_fma(dot[c], s->scale, sum[c]);
}
#endif

#ifdef TWO_MINIS
/* Steps of MINI8 and MINI6 two at a time, each summed as add_steps does: both are shifted and
 * masked at once. Returns the step that is left over, or `to`. */
KF_HD size_t add_minis(const int decode, const int scaling, const int R, const int C,
                       const int kind, const int source, const kf_gemv_layout *l,
                       const constants *k, scratch *t, size_t first, const uint8_t *const *row,
                       size_t origin, const float *x, size_t x_stride, size_t step, size_t to,
                       vf sum[ROWS][WIDE], vh worst[ROWS], vh *odd)
{
    const int six = decode == KF_DECODE_MINI6;
    const size_t bytes = (size_t)(six ? 3 : 4) * V;
    const vi mask = vi_both(k->mask), low7 = vi_both(k->low7);
    vi most[ROWS];
    UNROLL for (int r = 0; r < R; r++) most[r] = vi_both(worst[r]);
    for (; to - step >= 2; step += 2) {
        const size_t at = (step - origin) / 2 * bytes;
        if (at % 64 < bytes)
            UNROLL for (int r = 0; r < R; r++) fetch_ahead(row[r] + at, ROWS * l->row_bytes);
        UNROLL for (int r = 0; r < R; r++)
        {
            const vi q = six ? vi_load6(row[r] + at) : vi_load(row[r] + at);
            const vi lower = vi_and(vi_sra16(vi_shl16(q, six ? 6 : 8), k->shift), mask);
            const vi upper = vi_and(vi_sra16(q, k->shift), mask);
            if (!six) most[r] = vi_max8(most[r], vi_and(q, low7));
            UNROLL for (int i = 0; i < 2; i++)
            {
                const size_t entry = (step + (size_t)i - first) * l->scales >> l->share;
                const vf scale =
                    step_scale(scaling, kind, source, l, k, t, r, step + (size_t)i, entry, odd);
                const vf w0 = vf_of_half(vi_part(lower, i)), w1 = vf_of_half(vi_part(upper, i));
                UNROLL for (int c = 0; c < C; c++)
                {
                    const float *xs = x + (size_t)c * x_stride + (step + (size_t)i) * 2 * V;
                    const vf dot = vf_fma(w1, vf_load(xs + V), vf_mul(w0, vf_load(xs)));
                    sum[r][c] = scaling == KF_SCALING_ROW ? vf_add(sum[r][c], dot)
                                                          : vf_fma(dot, scale, sum[r][c]);
                }
            }
        }
    }
    UNROLL for (int r = 0; r < R; r++) worst[r] = vh_max8(vi_part(most[r], 0), vi_part(most[r], 1));
    return step;
}
#endif

/* Whether all rows have their codes and scales before any is multiplied. */
KF_HD int is_apart(const int decode)
{
#ifdef INTEGERS
    return decode == KF_DECODE_INT6;
#else
    (void)decode;
    return 1;
#endif
}

/* Adds steps [from, to) of R rows times C columns to sum; `first` is the first step of the chunk
 * whose scales are at hand, if they are widened. */
KF_HD void add_steps(const int decode, const int scaling, const int R, const int C, const int kind,
                     const int source, const kf_gemv_layout *l, const constants *k, scratch *t,
                     size_t first, const uint8_t *const *row, size_t origin, const float *x,
                     size_t x_stride, size_t from, size_t to, vf total[ROWS][WIDE],
                     vh all_worst[ROWS])
{
    static const int codes[] = {
#define KF_GEMV_DECODE(kind, name, n, ...) n,
#include "cpu/gemv_decodes.def"
#undef KF_GEMV_DECODE
    };
    const size_t n = (size_t)codes[decode], ahead = ROWS * l->row_bytes;
    const int late = scaling == KF_SCALING_ROW || kind == STEPS_OF_ROW;
    vf sum[ROWS][WIDE]; /* of their own, so that they live in registers */
    vh worst[ROWS], odd = t->odd;
    step_row s[ROWS];
#ifdef TAKES_BFLOAT
    vi most[ROWS]; /* of BFLOAT8 */
    UNROLL for (int r = 0; r < R; r++) most[r] = vi_both(all_worst[r]);
#endif
    UNROLL for (int r = 0; r < R; r++)
    {
        worst[r] = all_worst[r];
        s[r].scale = vf_set1(0), s[r].zero = vz_of(vf_set1(0));
        UNROLL for (int c = 0; c < C; c++) sum[r][c] = total[r][c];
    }
#ifdef TWO_MINIS
    if (decode == KF_DECODE_MINI8 || decode == KF_DECODE_MINI6)
        from = add_minis(decode, scaling, R, C, kind, source, l, k, t, first, row, origin, x,
                         x_stride, from, to, sum, worst, &odd);
#endif
    for (size_t step = from; step < to; step++) {
        const size_t entry = (step - first) * l->scales >> l->share;
        const size_t at = step - origin;
        const int apart = kind == STEPS_SHARED || is_apart(decode);
        const int is_new = kind != STEPS_SHARED || !(step & (((size_t)1 << l->share) - 1));
        if (step_bytes_of(decode) > 32 || at % 2 == 0) /* once for 64 bytes */
            UNROLL for (int r = 0; r < R; r++)
                fetch_ahead(row[r] + at * step_bytes_of(decode), ahead);
        if (apart && is_new)
            UNROLL for (int r = 0; r < R; r++)
                scale_row(decode, scaling, kind, source, l, k, t, r, step, entry, &odd, &s[r]);
        if (is_apart(decode))
            UNROLL for (int r = 0; r < R; r++) s[r].q = load_codes(decode, kind, l, row[r], 0, at);
#ifdef INTEGERS
        UNROLL for (int r = 0; r < R; r++)
        {
            step_row own = {.scale = s[r].scale, .zero = s[r].zero};
            own.q = is_apart(decode) ? s[r].q : load_codes(decode, kind, l, row[r], 0, at);
            if (!apart)
                scale_row(decode, scaling, kind, source, l, k, t, r, step, entry, &odd, &own);
            add_whole(decode, scaling, late, C, k, own.q, own.scale, own.zero,
                      X_STEP(l, x, step, n), X_UNIT(l, x, step, n), x_stride, sum[r]);
        }
#else
        vf dot[ROWS][WIDE];
        if (decode == KF_DECODE_MINI8)
            UNROLL for (int r = 0; r < R; r++) worst[r] =
                vh_max8(worst[r], vh_and(s[r].q.h, k->low7));
#ifdef TAKES_BFLOAT
        if (decode == KF_DECODE_BFLOAT8)
            UNROLL for (int r = 0; r < R; r++) most[r] =
                vi_max8(most[r], vi_and(s[r].q.d, vi_both(k->low7)));
#endif
        const float *xs = x + step * n * V / (HAS_PAIR + 1);
        if (is_bfloat(decode) && C > 1) { /* no registers for rows side by side */
            UNROLL for (int r = 0; r < R; r++)
                add_row(decode, scaling, late, C, k, &s[r], n, xs, x_stride, sum[r]);
            continue;
        }
        UNROLL for (int j = 0; j < (int)n / (HAS_PAIR + 1); j++) UNROLL for (int r = 0; r < R; r++)
            add_products(decode, scaling, C, k, s[r].q, s[r].zero, j, xs, x_stride, dot[r]);
        UNROLL for (int r = 0; r < R; r++) UNROLL for (int c = 0; c < C; c++) sum[r][c] =
            late ? vf_add(sum[r][c], dot[r][c]) : vf_fma(dot[r][c], s[r].scale, sum[r][c]);
#endif
    }
    t->odd = odd;
    UNROLL for (int r = 0; r < R; r++)
    {
        all_worst[r] = worst[r];
#ifdef TAKES_BFLOAT
        if (decode == KF_DECODE_BFLOAT8)
            all_worst[r] = vh_max8(vi_part(most[r], 0), vi_part(most[r], 1));
#endif
        UNROLL for (int c = 0; c < C; c++) total[r][c] = sum[r][c];
    }
}

#endif
