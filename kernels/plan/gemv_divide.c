/* gemv_divide.c - which kernel takes a product, and which matrices the kernels for tiles take. */
#include "plan/gemv_divide.h"

#include "cpu/matrix.h"
#include "format/format.h"

/* A machine whose blocks may have so much shared memory, if that is less; 0: as it is. */
static kf_gemv_machine limited(const kf_gemv_machine *m, unsigned most_shared)
{
    kf_gemv_machine within = *m;
    if (most_shared && most_shared < m->most_shared) within.most_shared = most_shared;
    return within;
}

/* By the kernel for many columns, or by that for nine and more where it takes less. */
static int divide_more(kf_gemv_launch *l, const kf_gemv_target *on)
{
    const double never = 1e30;
    kf_gemv_launch many = *l;
    const int fits = on->tiling->has_many ? kf_gemv_divide_many(&many, on) : 0;
    if (fits < 0) return fits;
    const int is_free = !fits || l->task.options.always_wide;
    const int is_wide =
        kf_gemv_divide_wide(l, on, is_free ? never : kf_gemv_many_us(&many, on->machine));
    if (is_wide == 0 && fits) *l = many;
    return is_wide ? is_wide : fits;
}

int kf_gemv_divide(kf_gemv_launch *l, const kf_gemv_tiling *t, const kf_gemv_machine *m,
                   kf_gemv_count count, void *ctx)
{
    const kf_gemv_machine within = limited(m, l->task.options.most_shared);
    const kf_gemv_target on = {t, &within, count, ctx};
    l->share = (kf_gemv_share){.tiles = l->task.tiles};
    l->division = (kf_gemv_division){
        .stages = (uint32_t)kf_div_up(l->task.cols, t->stage_codes),
        .slices = (uint32_t)kf_div_up(l->task.cols, t->slice_codes),
    };
    l->grid = (kf_gemv_grid){.most_bytes = m->most_shared, .overlap = l->task.overlap};
    const int is_few = kf_gemv_divide_few(l, &on);
    return is_few ? is_few : divide_more(l, &on);
}

/* In the kernels of slices all scales of a slice have one second-level scale, of which there is one
 * for 256 scales: slices of a row must begin at multiples of one. */
static int fits_slices(const kerf_format *f, const kf_gemv_strides *s, const kf_gemv_tiling *t)
{
    return f->second != KERF_SECOND_NESTED || s->row_groups * t->scale % t->slice_copy == 0;
}

/* FLAT formats are one row to their geometry; with whole groups in a row they are like others. The
 * rest have rows of their own, without padding. Rows of GGUF's blocks may begin anywhere. Sixteen
 * rows lie within the 32 bits in which a lane counts its bytes. */
kf_gemv_strides kf_gemv_strides_of(const kerf_format *f, const kerf_geometry *g, uint64_t cols,
                                   const kf_gemv_tiling *t, int *is_tiled)
{
    const kerf_cspan none[KERF_PLANES] = {{NULL, 0}};
    const kf_matrix w = kf_matrix_of(g, none);
    kf_gemv_strides s = {w.row_bytes, w.row_groups, w.zero_bytes}, flat = s;
    int is_flat = f->geometry == KERF_GROUP_FLAT;
    if (is_flat) {
        flat.row_bytes = cols * f->bits / 8;
        flat.row_groups = cols / f->group;
    }
    *is_tiled = t->is_tiled && cols != 0 && !(is_flat && cols % f->group) &&
                (flat.row_bytes % 16 == 0 || t->way == KF_WAY_BLOCKS) &&
                flat.row_bytes <= UINT32_MAX / KF_GEMV_TILE;
    if (t->has_many && !fits_slices(f, &flat, t)) *is_tiled = 0;
    return *is_tiled ? flat : s;
}

kf_gemv_tiling kf_gemv_tiling_for(const kerf_format *f, uint64_t cols)
{
    kf_gemv_tiling t = kf_gemv_tiling_of(kf_spec_of(f));
    const kf_gemv_strides flat = {.row_groups = f->group ? cols / f->group : 0};
    if (!fits_slices(f, &flat, &t)) t.has_many = t.has_wide = 0;
    return t;
}

size_t kf_gemv_lender_of(const kerf_format *f)
{
    const kf_spec s = kf_spec_of(f);
    for (size_t i = 0; i < kerf_format_count(); i++)
        if (kf_gemv_lends(kf_spec_of(kerf_format_at(i)), s)) return i;
    return kf_format_index(f);
}

int kf_gemv_scales_in_pieces(const kf_gemv_strides *s, const kf_gemv_launch *l,
                             const kf_gemv_tiling *t)
{
    const unsigned copy = l->division.is_few ? t->stage_copy : t->slice_copy;
    return copy == 0 || s->row_groups * t->scale % copy == 0;
}

int kf_gemv_ends_whole(const kf_gemv_strides *s, const kf_gemv_launch *l, const kf_gemv_tiling *t)
{
    const unsigned unit = l->division.is_few ? t->stage_codes : t->slice_codes;
    if (t->way == KF_WAY_BLOCKS && s->row_bytes % 16) return 0; /* a piece reaches into two rows */
    return l->task.cols % unit == 0 && kf_gemv_scales_in_pieces(s, l, t);
}

kf_gemv_end kf_gemv_end_of(const kf_gemv_strides *s, const kf_gemv_launch *l,
                           const kf_gemv_tiling *t)
{
    if (s->row_groups * t->scale % 4) return KF_GEMV_END_SCALES;
    return kf_gemv_ends_whole(s, l, t) ? KF_GEMV_END_WHOLE : KF_GEMV_END_X;
}
