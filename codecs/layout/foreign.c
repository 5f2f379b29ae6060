/* foreign.c - weights of other programs in forms that no format of kerf is: integers in groups of
 * any size, or with a group for each column (GPTQ's desc_act, compressed-tensors' actorder); bytes
 * with one scale, with zero points, in groups; FP8 in tiles of any size; MLX's codes and biases.
 *
 * Each number is
 *
 *     (code - zero point) * scale     exact, then rounded once, to F32
 *     FP8 * scale                     rounded once, to F32
 *     code * scale + bias             the product exact, the sum in double, then rounded to F32
 *
 * Rows are decoded when they are read; nothing is kept. A scale of NaN gives NaN. */
#include "layout/foreign.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define MOST_ELEMENTS (UINT64_C(1) << 18) /* that are decoded at a time, unless a row has more */

/* --- decoding ------------------------------------------------------------------------------- */

static unsigned code_at(const unsigned char *row, unsigned bits, uint64_t i)
{
    const uint64_t at = i * bits / 8, shift = i * bits % 8;
    const unsigned next = shift + bits > 8 ? (unsigned)row[at + 1] << 8 : 0;
    return (row[at] | next) >> shift & ((1u << bits) - 1);
}

/* n numbers of a format whose scale, where it has one, is 1. */
static kerf_status to_floats(const char *format, const void *from, size_t bytes, uint64_t n,
                             float *to, kerf_error *err)
{
    static const kerf_exec one = {.threads = 1};
    static const float unit = 1;
    const kerf_shape shape = {2, {1, n}};
    kerf_geometry g;
    KF_TRY(kerf_geometry_init(&g, kerf_format_find(format), &shape, err));
    kerf_cspan planes[KERF_PLANES] = {{from, bytes}};
    if (g.plane[KERF_PLANE_SCALES].bytes)
        planes[KERF_PLANE_SCALES] = (kerf_cspan){&unit, sizeof unit};
    const kerf_span out = {to, (size_t)n * sizeof *to};
    return kerf_decode(&g, 0, g.bands, planes, out, KERF_F32, &one, err);
}

/* 2^(byte - 127); 0xff is NaN. */
static void widen_exponents(const unsigned char *from, uint64_t n, float *to)
{
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t bits = from[i] == 0xff ? 0x7fc00000u
                              : from[i] == 0  ? 0x00400000u
                                              : (uint32_t)from[i] << 23;
        memcpy(to + i, &bits, sizeof bits);
    }
}

static kerf_status widen_scales(kerf_dtype t, const unsigned char *from, uint64_t n, float *to,
                                kerf_error *err)
{
    if (t == KERF_F8_E8M0 || t == KERF_U8) {
        widen_exponents(from, n, to);
        return KERF_OK;
    }
    const char *format = t == KERF_F32 ? "fp32" : t == KERF_F16 ? "fp16" : "bf16";
    return to_floats(format, from, (size_t)n * kerf_dtype_bits(t) / 8, n, to, err);
}

/* What some rows are decoded from: rows of codes, of scales, of zero points; the group of each
 * column. */
typedef struct piece {
    unsigned char *at[KF_PART_ZEROS + 1];
    float *scale, *bias; /* bias NULL: there are none */
    uint32_t *group;
} piece;

static float zero_at(const kf_foreign_parts *f, const piece *p, uint64_t row, uint64_t g)
{
    if (!f->part[KF_PART_ZEROS] || f->is_biased) return (float)f->middle;
    const unsigned char *zeros = p->at[KF_PART_ZEROS] + row * f->rows_of[KF_PART_ZEROS].row_bytes;
    if (f->is_stream) return (float)zeros[g];
    return f->is_unsigned ? (float)code_at(zeros, f->bits, g) : (float)(signed char)zeros[g];
}

/* The numbers of one row's codes into what they stand for. */
static void scale_row(const kf_foreign_parts *f, const piece *p, uint64_t row, float *out)
{
    float scale = 0, zero = 0, bias = 0;
    uint64_t last = UINT64_MAX;
    for (uint64_t c = 0; c < f->cols; c++) {
        const uint64_t g = p->group ? p->group[c] : c / f->tile_cols;
        if (g != last) {
            scale = p->scale[row * f->across + g];
            zero = zero_at(f, p, row, g);
            if (p->bias) bias = p->bias[row * f->across + g];
            last = g;
        }
        out[c] = p->bias ? (float)((double)out[c] * (double)scale + (double)bias)
                         : (out[c] - zero) * scale;
    }
}

/* The codes of `count` rows as numbers. */
static kerf_status read_codes(const kf_foreign_parts *f, const piece *p, uint64_t count, float *out,
                              kerf_error *err)
{
    const uint64_t row_bytes = f->rows_of[KF_PART_CODES].row_bytes;
    if (!f->is_unsigned)
        return to_floats(f->element == KERF_ELEM_S8     ? "int8-tensor"
                         : f->element == KERF_ELEM_E4M3 ? "fp8-e4m3"
                                                        : "fp8-e5m2",
                         p->at[KF_PART_CODES], (size_t)(count * row_bytes), count * f->cols, out,
                         err);
    for (uint64_t i = 0; i < count; i++)
        for (uint64_t c = 0; c < f->cols; c++)
            out[i * f->cols + c] = (float)code_at(p->at[KF_PART_CODES] + i * row_bytes, f->bits, c);
    return KERF_OK;
}

static kerf_status read_rows(const kerf_reader *r, const kf_foreign_parts *f, int part,
                             uint64_t first, uint64_t count, piece *p, kerf_error *err)
{
    const kf_foreign_rows *rows = &f->rows_of[part];
    const size_t n = (size_t)(count * rows->row_bytes);
    KF_TRY(kf_allocate(&p->at[part], n + 1, 1, err));
    if (rows->is_ordered)
        return kf_turned_read(&rows->order, r, f->part[part], first * rows->row_bytes, p->at[part],
                              n, err);
    return kerf_reader_read(r, f->part[part], first * rows->row_bytes, p->at[part], n, err);
}

/* Zero points that follow each other in the words of their group, for rows [first, first + count):
 * a byte for each. */
static kerf_status read_zero_stream(const kerf_reader *r, const kf_foreign_parts *f, uint64_t first,
                                    uint64_t count, piece *p, kerf_error *err)
{
    const kerf_tensor *t = f->part[KF_PART_ZEROS];
    const uint64_t row_words = t->shape.dim[1], begin = first * f->bits / 32;
    const uint64_t words = ((first + count) * f->bits + 31) / 32 - begin;
    unsigned char *stream = NULL;
    KF_TRY(kf_allocate(&p->at[KF_PART_ZEROS], count * f->across + 1, 1, err));
    KF_TRY(kf_allocate(&stream, words * 4 + 1, 1, err));
    kerf_status s = KERF_OK;
    for (uint64_t g = 0; g < f->across && s == KERF_OK; g++) {
        s = kerf_reader_read(r, t, (g * row_words + begin) * 4, stream, words * 4, err);
        for (uint64_t i = 0; i < count && s == KERF_OK; i++) {
            /* begin is a multiple of a code only where it is one of three words */
            const uint64_t bit = (first + i) * f->bits - begin * 32;
            const unsigned low = stream[bit / 8] | (unsigned)stream[bit / 8 + 1] << 8;
            p->at[KF_PART_ZEROS][i * f->across + g] =
                (unsigned char)(((low >> bit % 8) + f->less) & ((1u << f->bits) - 1));
        }
    }
    free(stream);
    return s;
}

/* Which group each column is of. KERF_E_DATA: one that is not there. */
static kerf_status read_groups(const kerf_reader *r, const kf_foreign_parts *f, uint32_t **out,
                               kerf_error *err)
{
    KF_TRY(kf_allocate(out, f->cols + 1, sizeof **out, err));
    KF_TRY(kerf_reader_read(r, f->part[KF_PART_GROUPS], 0, *out, f->cols * sizeof **out, err));
    for (uint64_t c = 0; c < f->cols; c++)
        if ((*out)[c] >= f->across)
            return kf_fail(err, KERF_E_DATA, c,
                           "tensor \"%.*s\": column %" PRIu64 " is of group %" PRIu32
                           " of %" PRIu64,
                           KF_NAME(f->part[KF_PART_GROUPS]->name), c, (*out)[c], f->across);
    return KERF_OK;
}

static kerf_status read_piece(const kerf_reader *r, const kf_foreign_parts *f, uint64_t first,
                              uint64_t count, piece *p, kerf_error *err)
{
    const uint64_t above = first / f->tile_rows;
    const uint64_t tall = (first + count - 1) / f->tile_rows - above + 1;
    KF_TRY(read_rows(r, f, KF_PART_CODES, first, count, p, err));
    KF_TRY(read_rows(r, f, KF_PART_SCALES, above, tall, p, err));
    if (f->is_stream)
        KF_TRY(read_zero_stream(r, f, above, tall, p, err));
    else if (f->part[KF_PART_ZEROS])
        KF_TRY(read_rows(r, f, KF_PART_ZEROS, above, tall, p, err));
    const kerf_dtype type = f->part[KF_PART_SCALES]->dtype;
    const uint64_t n = tall * f->across;
    KF_TRY(kf_allocate(&p->scale, n, sizeof *p->scale, err));
    KF_TRY(widen_scales(type, p->at[KF_PART_SCALES], n, p->scale, err));
    if (f->is_biased) {
        KF_TRY(kf_allocate(&p->bias, n, sizeof *p->bias, err));
        KF_TRY(widen_scales(type, p->at[KF_PART_ZEROS], n, p->bias, err));
    }
    return f->part[KF_PART_GROUPS] ? read_groups(r, f, &p->group, err) : KERF_OK;
}

/* Rows [first, first + count) into `out`. */
static kerf_status decode_rows(const kerf_reader *r, const kf_foreign_parts *f, uint64_t first,
                               uint64_t count, float *out, kerf_error *err)
{
    piece p = {{NULL}, NULL, NULL, NULL};
    kerf_status s = read_piece(r, f, first, count, &p, err);
    if (s == KERF_OK) s = read_codes(f, &p, count, out, err);
    for (uint64_t i = 0; s == KERF_OK && i < count; i++)
        scale_row(f, &p, (first + i) / f->tile_rows - first / f->tile_rows, out + i * f->cols);
    for (int i = 0; i <= KF_PART_ZEROS; i++) free(p.at[i]);
    free(p.scale);
    free(p.bias);
    free(p.group);
    return s;
}

static kerf_status read_decoded(const kerf_reader *r, const kerf_tensor *t, uint64_t offset,
                                unsigned char *dst, size_t n, kerf_error *err)
{
    const kf_foreign_parts *f = t->view->ctx;
    const uint64_t end = (offset + n) / sizeof(float);
    const uint64_t most = f->cols < MOST_ELEMENTS ? MOST_ELEMENTS / f->cols : 1;
    float *rows = NULL;
    kerf_status s = KERF_OK;
    for (uint64_t at = offset / sizeof(float); s == KERF_OK && at < end;) {
        const uint64_t row = at / f->cols, skip = at % f->cols;
        const uint64_t count = kf_min_u64(most, (end - 1) / f->cols - row + 1);
        const uint64_t take = kf_min_u64(end - at, count * f->cols - skip);
        if (!rows) s = kf_allocate(&rows, count * f->cols, sizeof *rows, err);
        if (s == KERF_OK) s = decode_rows(r, f, row, count, rows, err);
        if (s != KERF_OK) break;
        memcpy(dst, rows + skip, (size_t)take * sizeof *rows);
        dst += take * sizeof *rows;
        at += take;
    }
    free(rows);
    return s;
}

/* --- one weight ----------------------------------------------------------------------------- */

/* "int8-g32-asym", "fp8-e4m3-64x64". */
static void name_form(kf_foreign_parts *f)
{
    const char *element = f->is_unsigned || f->element == KERF_ELEM_S8 ? "int"
                          : f->element == KERF_ELEM_E4M3               ? "fp8-e4m3"
                                                                       : "fp8-e5m2";
    char bits[4] = "", scales[32] = "-tensor";
    if (element[0] == 'i') snprintf(bits, sizeof bits, "%u", f->bits % 100);
    if (f->is_sorted)
        snprintf(scales, sizeof scales, "-sorted");
    else if (f->tile_cols < f->cols && f->tile_rows == 1)
        snprintf(scales, sizeof scales, "-g%" PRIu64, f->tile_cols);
    else if (f->tile_cols < f->cols || (f->tile_rows > 1 && f->tile_rows < f->rows))
        snprintf(scales, sizeof scales, "-%" PRIu64 "x%" PRIu64, f->tile_rows, f->tile_cols);
    else if (f->tile_rows < f->rows)
        snprintf(scales, sizeof scales, "-row");
    const kerf_dtype scale = f->part[KF_PART_SCALES]->dtype;
    snprintf(f->form, sizeof f->form, "%s%s%s%s%s", element, bits, scales,
             f->is_biased                                 ? "-biased"
             : f->part[KF_PART_ZEROS] && !f->is_symmetric ? "-asym"
                                                          : "",
             !f->is_unsigned     ? ""
             : scale == KERF_F16 ? "-f16"
             : scale == KERF_F32 ? "-f32"
                                 : "");
}

/* Whether all groups that columns name are there, and in order where config.json says so. */
static kerf_status check_groups(const kerf_reader *r, const kf_foreign *folder, kf_foreign_parts *f,
                                int *agree, kerf_error *err)
{
    kerf_error why = {.text = ""};
    uint32_t *groups = NULL;
    if (!f->part[KF_PART_GROUPS]) return KERF_OK;
    const kerf_status s = read_groups(r, f, &groups, &why);
    for (uint64_t c = 0; s == KERF_OK && c < f->cols; c++)
        f->is_sorted |= groups[c] != c / f->tile_cols;
    free(groups);
    *agree = s == KERF_OK && !(f->is_sorted && folder->in_order);
    if (s == KERF_OK || s == KERF_E_DATA) return KERF_OK;
    if (err) *err = why;
    return s;
}

static kerf_status make(kf_weights_builder *b, const kf_foreign_parts *found, const char *name,
                        kerf_weight *w, int *made)
{
    uint64_t bytes;
    *made = 0;
    if (!kf_mul_ok(found->rows, found->cols, &bytes) || !kf_mul_ok(bytes, sizeof(float), &bytes))
        return KERF_OK;
    for (int i = 0; i < KF_PARTS; i++)
        if (found->part[i] && b->role[found->part[i] - b->first] != KF_ROLE_DENSE) return KERF_OK;
    kf_foreign_parts *f = kf_weights_own(b->out, 1, sizeof *f);
    if (!f) return kf_fail(b->err, KERF_E_NOMEM, KF_NOWHERE, "no memory for weights");
    *f = *found;
    name_form(f);
    *w = (kerf_weight){.shape = {2, {f->rows, f->cols}}, .dtype = KERF_F32};
    if (f->shape.rank) w->shape = f->shape;
    KF_TRY(kf_weights_keep_name(b->out, name, f->part[KF_PART_CODES], &w->name, b->err));
    f->view = (kerf_view){.size = sizeof(float), .read = read_decoded, .ctx = f};
    f->tensor = (kerf_tensor){.name = w->name,
                              .dtype = KERF_F32,
                              .shape = w->shape,
                              .bytes = bytes,
                              .shard = f->part[KF_PART_CODES]->shard,
                              .view = &f->view};
    w->plane[KERF_PLANE_CODES] = &f->tensor;
    for (int i = 0; i < KF_PARTS; i++)
        if (f->part[i]) f->view.stored_bytes += f->part[i]->bytes;
    for (int i = 0; i < KF_PARTS; i++)
        if (f->part[i]) b->role[f->part[i] - b->first] = i ? KF_ROLE_OTHER : KF_ROLE_CODES;
    *made = 1;
    return KERF_OK;
}

kerf_status kf_foreign_recognize(kf_weights_builder *b, kf_foreign *folder,
                                 const kerf_tensor *codes, kerf_weight *w, int *found)
{
    kf_foreign_parts f;
    char name[KF_NAME_ROOM];
    *found = 0;
    if (strlen(codes->name) > KERF_MAX_NAME_BYTES) return KERF_OK;
    KF_TRY(kf_foreign_find(b->r, folder, codes, &f, name, found, b->err));
    if (*found) KF_TRY(check_groups(b->r, folder, &f, found, b->err));
    return *found ? make(b, &f, name, w, found) : KERF_OK;
}

/* --- what others ask ------------------------------------------------------------------------ */

static const kf_foreign_parts *parts_of(const kerf_weight *w)
{
    const kerf_view *v = w->codec.format || !w->plane[0] ? NULL : w->plane[0]->view;
    while (v && v->of) v = v->of->view;
    return v && v->read == read_decoded ? v->ctx : NULL;
}

const char *kf_foreign_form(const kerf_weight *w)
{
    const kf_foreign_parts *f = parts_of(w);
    return f ? f->form : NULL;
}

const kerf_tensor *kf_foreign_part(const kerf_weight *w, size_t i)
{
    const kf_foreign_parts *f = parts_of(w);
    for (int p = 0; f && p < KF_PARTS; p++)
        if (f->part[p] && i-- == 0) return f->part[p];
    return NULL;
}

kerf_status kf_foreign_scales(const kerf_reader *r, const kerf_weight *w, uint64_t *count,
                              uint64_t *ruined, kerf_error *err)
{
    enum { ROOM = 1024 };
    const kerf_tensor *t = parts_of(w)->part[KF_PART_SCALES];
    const uint64_t size = kerf_dtype_bits(t->dtype) / 8;
    unsigned char bytes[ROOM * sizeof(float)];
    float scale[ROOM];
    *count = t->bytes / size;
    *ruined = 0;
    for (uint64_t at = 0; at < *count; at += ROOM) {
        const uint64_t n = kf_min_u64(ROOM, *count - at);
        KF_TRY(kerf_reader_read(r, t, at * size, bytes, (size_t)(n * size), err));
        KF_TRY(widen_scales(t->dtype, bytes, n, scale, err));
        for (uint64_t i = 0; i < n; i++) *ruined += scale[i] - scale[i] != 0;
    }
    return KERF_OK;
}
