/* gemv_super.h - rows of ggml's blocks of two levels times columns, for one instruction set
 * (gemv_rows.h). Each row of the table in block/super_layout.h is compiled as a literal.
 *
 * The bits of V codes side by side lie in as many bytes side by side, at the same place in each: a
 * load that widens bytes takes them in the order of the elements, and x stays as it is. Where there
 * is a minimum a weight is made as kerf_decode makes it, by a product and a sum, since the two may
 * cancel; otherwise the scale of a group enters after its sum. */
#ifndef KERF_GEMV_SUPER_H
#define KERF_GEMV_SUPER_H

#include "cpu/gemv_block_levels.h"

/* What the groups of a block are multiplied by, and what is added to them. */
typedef struct super_levels {
    vf scale, offset; /* blocks of one group */
    float scales[SUPER_GROUPS + V], offsets[SUPER_GROUPS + V];
} super_levels;

/* A bit of each element, V of them from i on, out of bits in a row. */
KF_HD vi single_bits(kf_place p, const uint8_t *block, unsigned i)
{
    uint32_t word;
    memcpy(&word, block + p.at + i / 32 * 4, 4);
    return vi_and(vi_shr_lanes(vi_set1((int)word), (int)(i % 32)), vi_set1(1));
}

/* What place p has of codes i to i + V - 1, `up` bits higher. */
KF_HD vi super_bits(kf_place p, const uint8_t *block, unsigned i, unsigned up)
{
    if (p.run == 1) return vi_shl(single_bits(p, block, i), (int)up);
    const unsigned shift = kf_place_shift(p, i);
    vi bits = vi_load_bytes(block + kf_place_byte(p, i));
    if (up > shift) bits = vi_shl(bits, (int)(up - shift));
    if (up < shift) bits = vi_shr(bits, (int)(shift - up));
    const int alone = up == 0 && shift + p.bits == 8;
    return alone ? bits : vi_and(bits, vi_set1((int)(((1u << p.bits) - 1) << up)));
}

/* The numbers that codes i to i + V - 1 stand for, before any scale. */
KF_HD vf super_numbers(kf_super k, vt book, const uint8_t *block, unsigned i)
{
    vi codes = super_bits(k.low, block, i, 0);
    if (k.high.bits) codes = vi_or(codes, super_bits(k.high, block, i, k.low.bits));
    if (k.book) return vf_look_up(book, codes);
    const vf numbers = vf_of_int(codes);
    return k.middle ? vf_sub(numbers, vf_set1((float)k.middle)) : numbers;
}

/* The same products as in kf_super_group, V at a time. */
KF_HD void find_levels(kf_super k, const uint8_t *block, unsigned groups, super_levels *out)
{
    const vf d = super_half(block + k.d), m = super_half(block + k.m);
    out->scale = d, out->offset = m;
    if (k.levels == KF_LEVELS_NONE) return;
    const super_bytes b = level_bytes(k.levels, block + k.at);
    UNROLL for (unsigned j = 0; j < groups; j += V)
    {
        const vf level = vf_of_int(vi_of_bytes(b.scale, j));
        vf_store(out->scales + j, vf_mul(d, b.bias != 0 ? vf_sub(level, vf_set1(b.bias)) : level));
        if (!k.m) continue;
        const vf min = vf_of_int(vi_of_bytes(b.min, j));
        vf_store(out->offsets + j, vf_mul(vf_sub(vf_set1(0), m), min)); /* -(m * min) */
    }
}

/* Adds a block times those numbers of C columns to sum. */
KF_HD void add_block(kf_super k, const unsigned group, const int C, vt book, const uint8_t *block,
                     const float *x, size_t x_stride, vf sum[WIDE])
{
    const unsigned groups = k.elements / group;
    super_levels levels;
    vf part[WIDE];
    find_levels(k, block, groups, &levels);
    UNROLL for (unsigned j = 0; j < groups; j++)
    {
        const vf scale = groups == 1 ? levels.scale : vf_set1(levels.scales[j]);
        const vf offset = groups == 1 ? levels.offset : vf_set1(levels.offsets[j]);
        vf dot[WIDE];
        UNROLL for (unsigned i = 0; i < group; i += V)
        {
            vf w = super_numbers(k, book, block, j * group + i);
            if (k.m) w = vf_add(vf_mul(w, scale), offset);
            UNROLL for (int c = 0; c < C; c++)
            {
                vf v = vf_load(x + (size_t)c * x_stride + j * group + i);
                dot[c] = i == 0 ? vf_mul(w, v) : vf_fma(w, v, dot[c]);
            }
        }
        UNROLL for (int c = 0; c < C; c++)
        {
            if (!k.m) dot[c] = j == 0 ? vf_mul(dot[c], scale) : vf_fma(dot[c], scale, part[c]);
            part[c] = k.m && j > 0 ? vf_add(part[c], dot[c]) : dot[c];
        }
    }
    UNROLL for (int c = 0; c < C; c++) sum[c] = vf_add(sum[c], part[c]);
}

/* Row r times C columns from `column` on. */
KF_HD void super_row(kf_spec s, const int C, const kf_gemv_call *call, size_t r, size_t column)
{
    const kf_super k = kf_super_of(s);
    const kf_gemv_layout *l = call->plan->state;
    const size_t x_stride = l->steps * l->step;
    const float *x = kf_gemv_packed(l, call->workspace, column);
    const uint8_t *row = call->w.plane[KERF_PLANE_CODES] + r * l->row_bytes;
    const vt book = vt_load(l->table);
    vf total[WIDE];
    UNROLL for (int c = 0; c < C; c++) total[c] = vf_set1(0);
    for (size_t first = 0; first < l->steps; first += l->chunk) {
        const size_t end = l->steps - first < l->chunk ? l->steps : first + l->chunk;
        vf sum[WIDE];
        UNROLL for (int c = 0; c < C; c++) sum[c] = vf_set1(0);
        for (size_t step = first; step < end; step++) {
            const uint8_t *block = row + step * k.bytes;
            for (size_t i = 0; i < k.bytes; i += 64) fetch_ahead(block + i, SUPER_AHEAD);
            add_block(k, s.group, C, book, block, x + step * k.elements, x_stride, sum);
        }
        UNROLL for (int c = 0; c < C; c++) total[c] = vf_add(total[c], sum[c]);
    }
    for (int c = 0; c < C; c++) kf_gemv_finish(call, r, column + (size_t)c, vf_sum(total[c]));
}

KF_HD void super_rows(kf_spec s, const kf_gemv_call *call, size_t r0, size_t r1)
{
    for (size_t r = r0; r < r1; r++)
        for (size_t c = 0; c < call->columns;) {
            const size_t left = call->columns - c;
            if (left >= WIDE)
                super_row(s, WIDE, call, r, c), c += WIDE;
            else
                super_row(s, 1, call, r, c), c++;
        }
}

#define EACH_SUPER super_rows
#define EACH_SUPER_SMALL 0
#define EACH_SUPER_NAME(x) super_of_##x
#include "cpu/gemv_each_super.h"

kf_gemv_rows_function *const KF_ISA(SUPER)[KF_SCALINGS] = {[KF_SCALING_STEP] = super_of_any};

#endif
