/* specimen.c - pseudo-random and special tensors, made of integers and of exact operations of fp32
 * alone, so that they are the same whatever the compiler, the math library and the machine. */
#include "selftest/specimen.h"
#include "base/pseudo_random.h"

#include <stdlib.h>
#include <string.h>

/* Shapes with whole and partial blocks, tiles and flat runs; stacks, rows, nothing at all. */
static const kerf_shape shapes[] = {
    {2, {16, 128}}, {2, {3, 37}}, {2, {130, 136}}, {3, {2, 5, 96}},
    {1, {1000}},    {2, {0, 16}}, {2, {33, 1}},    {2, {17, 256}},
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* Where the numbers matter, not the shape; TIES_BITS of each sign and exponent. */
enum { TIES_BITS = 32 };
static const kf_specimen large[] = {
    {.shape = {2, {510, 128}}, .dtype = KERF_BF16, .kind = KF_SPECIMEN_ALL},
    {.shape = {2, {510, TIES_BITS}}, .dtype = KERF_F32, .kind = KF_SPECIMEN_TIES},
};
_Static_assert(3 * SHAPES + sizeof large / sizeof *large == KF_SPECIMENS, "specimen.h");

static const kerf_dtype types[] = {KERF_BF16, KERF_F16, KERF_F32};

static uint64_t mix(uint64_t i)
{
    return kf_mix(i + KF_RANDOM_STEP);
}

static float value_at(kf_specimen_kind kind, uint64_t word, uint64_t i)
{
    if (kind == KF_SPECIMEN_ZEROS) return word & 1 ? -0.0f : 0.0f;
    if (kind == KF_SPECIMEN_OUTLIER && i == 5) return 20.0f;
    return kf_bell(word) * 0x1p-21f; /* deviation 0.018 */
}

/* Random bits; those that would be NaN or infinite become zero. */
static void fill_bits(kf_specimen *s, uint64_t seed)
{
    const size_t size = kerf_dtype_bits(s->dtype) / 8;
    const uint32_t exponent = s->dtype == KERF_F32   ? 0x7f800000u
                              : s->dtype == KERF_F16 ? 0x7c00u
                                                     : 0x7f80u;
    for (uint64_t i = 0; i < s->elements; i++) {
        uint32_t bits = (uint32_t)mix(seed + i);
        if ((bits & exponent) == exponent) bits = 0;
        memcpy((unsigned char *)s->bytes.p + i * size, &bits, size);
    }
}

/* By magnitude, + before -, mixed within five binades, so that a block holds numbers that its scale
 * can tell apart and those that it cannot. */
static void fill_all(kf_specimen *s)
{
    enum { FIVE_BINADES = 1280, STRIDE = 787 }; /* coprime */
    for (uint64_t i = 0; i < s->elements; i++) {
        uint64_t rank = i / FIVE_BINADES * FIVE_BINADES + i * STRIDE % FIVE_BINADES;
        uint16_t bits = (uint16_t)(rank >> 1 | (rank & 1) << 15);
        memcpy((unsigned char *)s->bytes.p + i * 2, &bits, 2);
    }
}

/* For each sign and exponent: numbers halfway between two of 1 to 10 mantissa bits, each with the
 * number below and above. */
static void fill_ties(kf_specimen *s, uint64_t seed)
{
    uint32_t *out = s->bytes.p;
    for (uint64_t i = 0; i < s->elements; i++) {
        uint32_t exponent = (uint32_t)(i / TIES_BITS), k = (uint32_t)(i % TIES_BITS);
        uint32_t half = 0x200000u >> k / 3,
                 above = (uint32_t)mix(seed + i) & 0x7fffffu & ~(2 * half - 1);
        uint32_t sign = exponent / 255 << 31;
        out[i] = sign | exponent % 255 << 23 | ((above | half) + k % 3 - 1);
    }
}

/* Narrows fp32 values to the specimen's type with the library's own plain formats. */
static kerf_status fill_values(kf_specimen *s, uint64_t seed, kerf_error *err)
{
    const char *plain = s->dtype == KERF_F32 ? "fp32" : s->dtype == KERF_F16 ? "fp16" : "bf16";
    kerf_codec codec;
    kerf_geometry g;
    float *values = NULL;
    KF_TRY(kerf_codec_find(plain, &codec, err));
    KF_TRY(kerf_geometry_init(&g, codec.format, &s->shape, err));
    KF_TRY(kf_allocate(&values, (size_t)s->elements, sizeof *values, err));
    for (uint64_t i = 0; i < s->elements; i++) values[i] = value_at(s->kind, mix(seed + i), i);
    const kerf_span planes[KERF_PLANES] = {s->bytes};
    kerf_status status = kerf_encode(&g, codec.encoder, NULL, 0, g.bands,
                                     (kerf_cspan){values, (size_t)s->elements * sizeof *values},
                                     KERF_F32, planes, NULL, err);
    free(values);
    return status;
}

kerf_status kf_specimen_make(size_t i, kf_specimen *out, kerf_error *err)
{
    *out = (kf_specimen){
        .shape = shapes[i % SHAPES],
        .dtype = types[i / SHAPES % 3],
        .kind = (kf_specimen_kind)((i + i / SHAPES) % 4),
        .cut = i % SHAPES % 3 == i / SHAPES, /* each shape once */
    };
    if (i >= 3 * SHAPES) *out = large[i - 3 * SHAPES];
    KF_TRY(kerf_shape_count(&out->shape, &out->elements, err));
    out->bytes.n = (size_t)out->elements * (kerf_dtype_bits(out->dtype) / 8);
    KF_TRY(kf_allocate(&out->bytes.p, out->bytes.n, 1, err));
    uint64_t seed = (uint64_t)i << 32;
    if (out->kind == KF_SPECIMEN_ALL)
        fill_all(out);
    else if (out->kind == KF_SPECIMEN_BITS)
        fill_bits(out, seed);
    else if (out->kind == KF_SPECIMEN_TIES)
        fill_ties(out, seed);
    else
        return fill_values(out, seed, err);
    return KERF_OK;
}

void kf_specimen_free(kf_specimen *s)
{
    free(s->bytes.p);
}

void kf_specimen_planes(const kerf_geometry *g, const kerf_span planes[KERF_PLANES])
{
    const unsigned scale_bits = kerf_dtype_bits(g->plane[KERF_PLANE_SCALES].dtype);
    /* Codes of one group; where groups are not contiguous any number will do. */
    const size_t run =
        planes[KERF_PLANE_SCALES].n ? planes[KERF_PLANE_CODES].n / planes[KERF_PLANE_SCALES].n : 1;
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        unsigned char *p = planes[k].p;
        for (size_t i = 0; i < planes[k].n; i++) p[i] = (unsigned char)mix((uint64_t)k << 32 | i);
    }
    if (scale_bits != 8 || run == 0) return;
    unsigned char *codes = planes[KERF_PLANE_CODES].p, *scales = planes[KERF_PLANE_SCALES].p;
    for (size_t i = 0; i < planes[KERF_PLANE_SCALES].n; i++) scales[i] = (unsigned char)i;
    for (size_t i = 0; i < planes[KERF_PLANE_CODES].n; i++)
        codes[i] = (unsigned char)(i / run / 256 * run + i % run);
}
