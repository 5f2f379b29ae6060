/* spec.h - what block arithmetic knows of a format, and what a family must provide.
 *
 * A spec is a row of formats.def as plain numbers; it is a literal wherever it is used, so that
 * the compiler folds every question about it away.
 *
 * A family with prefix P is one header of codecs/block/ with these functions:
 *
 *   kf_tensor kf_P_tensor(s, encoder, stats, source)  what a matrix must know: second-level scale
 *   kf_scale  kf_P_choose(s, encoder, t, group)  the stored scale (and zero point) of a group
 *   kf_quant  kf_P_quant(s, encoder, t, scale, group)   how its elements become codes
 *   uint32_t  kf_P_code(s, quant, x)             code of one element
 *   kf_dequant kf_P_dequant(s, scale, second, offset)   how codes of a group become numbers
 *   float     kf_P_value(s, dequant, code)       number of one code
 *
 * Formats of geometry SUPER are encoded by whole blocks instead, and read as kf_block_* in all.h say.
 *
 * The same text is compiled by gcc, clang and nvcc. Inputs are finite. */
#ifndef KERF_SPEC_H
#define KERF_SPEC_H

#include "scalar/minifloat.h"

#include <kerf/codec.h>

/* Bits of one code. */
enum {
    KF_BITS_F32 = 32,
    KF_BITS_F16 = 16,
    KF_BITS_BF16 = 16,
    KF_BITS_E4M3 = 8,
    KF_BITS_E5M2 = 8,
    KF_BITS_MXI8 = 8,
    KF_BITS_S8 = 8,
    KF_BITS_E2M3 = 6,
    KF_BITS_E3M2 = 6,
    KF_BITS_E2M1 = 4,
    KF_BITS_NF4 = 4,
    KF_BITS_S4 = 4,
    KF_BITS_U4 = 4,
    KF_BITS_S2 = 2,
    KF_BITS_U2 = 2,
    KF_BITS_U3 = 3,
    KF_BITS_U5 = 5,
    KF_BITS_U6 = 6
};

typedef struct kf_spec {
    kerf_format_id id;
    kerf_family family;
    kerf_element element;
    unsigned bits;
    kerf_group_kind geometry;
    unsigned group;
    kerf_scale_kind scale;
    kerf_second_kind second;
    kerf_zero_kind zero;
} kf_spec;

/* The initializer of a row's spec. */
#define KF_SPEC(ID, family, elem, geometry, group, scale, second, zero)             \
    {                                                                               \
        KERF_FORMAT_##ID, KERF_FAMILY_##family, KERF_ELEM_##elem, KF_BITS_##elem,   \
            KERF_GROUP_##geometry, group, KERF_SCALE_##scale, KERF_SECOND_##second, \
            KERF_ZERO_##zero                                                        \
    }

/* A group of elements that share a scale: rows x cols, rows `ld` apart. `whole` is 0 for the short
 * last block of a row or tensor. Sums over a group run row by row, element by element. */
typedef struct kf_group {
    const float *x;
    size_t rows, cols, ld;
    int whole;
} kf_group;

/* Per matrix. Families use the fields they need. */
typedef struct kf_tensor {
    float amax;       /* of the matrix                                                    */
    float min, max;   /* of its elements and zero                                         */
    float second;     /* second-level scale as stored                                     */
    float encode;     /* what block scales are multiplied by before they are stored       */
    float inv_encode; /* 1 / encode                                                       */
    float range;      /* largest element x largest block scale                            */
    float offset;     /* nf4-dq: mean of the block scales                                 */
    uint32_t bits;    /* TENSOR geometry: the stored scale ...                            */
    uint32_t zero;    /* ... and zero point                                               */
    int source;       /* kerf_dtype of the matrix: some encoders round to it on their way */
} kf_tensor;

/* As stored. A zero point is in the domain of the codes. */
typedef struct kf_scale {
    uint32_t bits;
    uint32_t zero;
} kf_scale;

typedef struct kf_quant {
    float factor; /* multiplies or divides, as the encoder says */
    int zero;
    int dead;    /* the scale is zero: every code is zero      */
    int encoder; /* kerf_encoder_id: how an element is rounded */
    int source;  /* kerf_dtype, as in kf_tensor                */
} kf_quant;

typedef struct kf_dequant {
    float scale;
    int zero;
    float offset; /* added to the product: SUPER */
} kf_dequant;

KF_HD float kf_group_amax(kf_group g)
{
    if (g.rows == 1 && g.cols == 1) return kf_abs(g.x[0]); /* no loop where that is a literal */
#ifndef __CUDA_ARCH__ /* so that compilers for processors make vectors of many groups */
    if (g.rows == 1 && g.cols == 2) return kf_max(kf_abs(g.x[0]), kf_abs(g.x[1]));
#endif
    float amax = 0;
    for (size_t r = 0; r < g.rows; r++)
        for (size_t c = 0; c < g.cols; c++) amax = kf_max(amax, kf_abs(g.x[r * g.ld + c]));
    return amax;
}

#endif
