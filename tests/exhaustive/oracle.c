/* oracle.c - see oracle.h: which rule each encoder follows, and what stored bytes mean. */
#include "exhaustive/oracle_book.h"
#include "exhaustive/oracle_rules.h"

#include <string.h>

/* --- decode ----------------------------------------------------------------------------------- */

double oracle_scale_value(const kerf_format *f, uint32_t bits)
{
    const int ggml = f->geometry == KERF_GROUP_STRUCT;
    switch (f->scale) {
    case KERF_SCALE_F32: return oracle_element(KERF_ELEM_F32, bits);
    case KERF_SCALE_F16: return oracle_element(KERF_ELEM_F16, bits);
    case KERF_SCALE_BF16: return oracle_element(KERF_ELEM_BF16, bits);
    case KERF_SCALE_E8M0: /* ggml has no NaN */
        return bits == 0xff && !ggml ? (double)NAN : ldexp(1, (int)bits - 127);
    case KERF_SCALE_E4M3: /* ggml has no sign, 0x7F is a second zero, and 0xFF no NaN */
        if (ggml && (bits & 0x7f) == 0x7f) return bits == 0xff ? 480 : 0;
        if (ggml) return oracle_element(KERF_ELEM_E4M3, bits & 0x7f);
        return oracle_element(KERF_ELEM_E4M3, bits);
    case KERF_SCALE_MAP8: return oracle_map(bits);
    default: return 1;
    }
}

double oracle_decode(const kerf_format *f, uint32_t code, uint32_t scale_bits, uint32_t zero,
                     double second, double offset)
{
    double v = oracle_element(f->element, code), scale = oracle_scale_value(f, scale_bits);
    if (f->scale == KERF_SCALE_NONE) return v;
    if (f->zero == KERF_ZERO_CODE && f->bits == 8)
        v = (double)(code ^ 0x80) - (double)(zero ^ 0x80);
    else if (f->zero == KERF_ZERO_CODE)
        v = (double)code - (double)zero;
    else if (f->element == KERF_ELEM_U4) /* Q4_0 */
        v = (double)code - 8;
    else if (f->geometry == KERF_GROUP_STRUCT && v == 0) /* ggml has no -0 */
        v = 0;
    if (f->second == KERF_SECOND_TENSOR) scale = f32(scale * second);
    if (f->second == KERF_SECOND_NESTED) scale = f32(f32(scale * second) + offset);
    return f32(v * scale);
}

/* --- the table -------------------------------------------------------------------------------- */

/* Whoever adds an encoder adds a line. Traits that are missing, and why:
 *
 * IDEMPOTENT  ct, torchao and gptq of int map amax between two codes, so what they decode to has
 *             another amax; a search may clip the largest number; 4/6 and sweep compare errors of
 *             the input, which a second pass no longer has; the rounded zero point of a range moves
 *             its ends; ct doubles the scale of a block of mxfp8 whose amax became 448 * 2^e.
 * SYMMETRIC   ct, torchao and gptq use the code -Q - 1, which has no positive partner, and so does
 *             the search when it clips; levels from 0 and the code book of NF4 are lopsided.
 * SCALES      none is missing. A group narrower than hqq's and awq's least range, a matrix whose
 *             divisor leaves fp16 in ct, and blocks that leave the E4M3 of ggml-nvfp4, which has no
 *             scale above it, are beyond the law: see scaling() in tests/property/laws.c.
 * NEAREST     none is missing. hqq's zero point may be no code; it is stored as the nearest code,
 *             so the law holds for groups whose range holds zero. */
#define SLACK 0x1p-20
enum {
    LINEAR = ORACLE_SCALES | ORACLE_NEAREST | ORACLE_PADS,
    MIRRORED = LINEAR | ORACLE_SYMMETRIC,
    ALL = MIRRORED | ORACLE_IDEMPOTENT,
    TYPED = ORACLE_TYPED,
    UNSTORED = ORACLE_UNSTORED
};

/* clang-format off */
#define CAST   KERF_FAMILY_CAST,   NULL
#define FP8    KERF_FAMILY_FP8,    NULL
#define MX     KERF_FAMILY_MX,     NULL
#define NVFP4  KERF_FAMILY_NVFP4,  NULL
#define NF4    KERF_FAMILY_NF4,    NULL
#define INT    KERF_FAMILY_INT,    NULL
#define AFFINE KERF_FAMILY_AFFINE, NULL

static const oracle_rule rules[] = {
    {CAST,   "rne",             ALL,                0,     oracle_cast,   0},

    {FP8,    "amax",            ALL,                SLACK, oracle_fp8,    FP8_AMAX},
    {FP8,    "modelopt",        ALL | TYPED,        SLACK, oracle_fp8,    FP8_MODELOPT},
    {FP8,    "ct",              ALL | TYPED,        SLACK, oracle_fp8,    FP8_CT},
    {FP8,    "torchao",         ALL | TYPED,        SLACK, oracle_fp8,    FP8_TORCHAO},
    {FP8,    "deepseek",        ALL,                SLACK, oracle_fp8,    FP8_DEEPSEEK},

    {MX,     "floor",           ALL,                0,     oracle_mx,     MX_FLOOR},
    {MX,     "rceil",           ALL,                0,     oracle_mx,     MX_RCEIL},
    {MX,     "even",            ALL,                0,     oracle_mx,     MX_EVEN},
    {MX,     "ceil",            ALL,                0,     oracle_mx,     MX_CEIL},
    {MX,     "search",          ALL,                0,     oracle_mx,     MX_SEARCH},
    {MX,     "torchao",         ALL,                0,     oracle_mx,     MX_TORCHAO},
    {KERF_FAMILY_MX, "mxfp8-e4m3", "ct", MIRRORED | TYPED, 0, oracle_mx,  MX_CT},
    {MX,     "ct",              ALL | TYPED,        0,     oracle_mx,     MX_CT},
    {MX,     "modelopt",        ALL,                0,     oracle_mx,     MX_MODELOPT},
    {MX,     "microxcaling",    ALL,                SLACK, oracle_mx,     MX_MICROXCALING},
    {MX,     "ggml",            ALL,                SLACK, oracle_mx,     MX_GGML},

    {NVFP4,  "amax",            ALL,                SLACK, oracle_nvfp4,  NV_AMAX | NV_448},
    {NVFP4,  "4/6",             MIRRORED,           SLACK, oracle_nvfp4,  NV_MSE},
    {NVFP4,  "4/6-mae",         MIRRORED,           SLACK, oracle_nvfp4,  NV_MAE},
    {NVFP4,  "4/6-absmax",      MIRRORED,           SLACK, oracle_nvfp4,  NV_ABSMAX},
    {NVFP4,  "4/6-448",         MIRRORED,           SLACK, oracle_nvfp4,  NV_MSE | NV_448},
    {NVFP4,  "4/6-mae-448",     MIRRORED,           SLACK, oracle_nvfp4,  NV_MAE | NV_448},
    {NVFP4,  "4/6-absmax-448",  MIRRORED,           SLACK, oracle_nvfp4,  NV_ABSMAX | NV_448},
    {NVFP4,  "sweep",           MIRRORED,           SLACK, oracle_nvfp4,  NV_SWEEP},
    {NVFP4,  "te",              ALL,                SLACK, oracle_nvfp4,  NV_TE},
    {NVFP4,  "modelopt",        ALL,                SLACK, oracle_nvfp4,  NV_MODELOPT},
    {NVFP4,  "modelopt-static", ALL,                SLACK, oracle_nvfp4,  NV_MODELOPT_STATIC},
    {NVFP4,  "ct",              ALL | TYPED,        SLACK, oracle_nvfp4,  NV_CT},
    {NVFP4,  "ct-fp32",         ALL,                SLACK, oracle_nvfp4,  NV_CT_FP32},
    {NVFP4,  "torchao",         ALL,                SLACK, oracle_nvfp4,  NV_TORCHAO},
    {NVFP4,  "static_6",        ALL,                SLACK, oracle_nvfp4,  NV_STATIC_6},
    {NVFP4,  "static_4",        ALL,                SLACK, oracle_nvfp4,  NV_STATIC_4},
    {NVFP4,  "autoround",       ALL,                SLACK, oracle_nvfp4,  NV_AUTOROUND},

    {NF4,    "bnb-cpu",         LINEAR | ORACLE_IDEMPOTENT, SLACK, oracle_nf4, 0},

    {INT,    "amax",            ALL,                SLACK, oracle_int,    INT_AMAX},
    {INT,    "search",          LINEAR,             SLACK, oracle_int,    INT_SEARCH},
    {INT,    "ct",              LINEAR | TYPED,     SLACK, oracle_int,    INT_CT},
    {INT,    "torchao",         LINEAR | TYPED,     SLACK, oracle_int,    INT_TORCHAO},
    {INT,    "modelopt",        ALL | UNSTORED,     SLACK, oracle_int,    INT_MODELOPT},
    {INT,    "gptq",            LINEAR | UNSTORED,  SLACK, oracle_int,    INT_GPTQ},
    {INT,    "bnb",             ALL | ORACLE_HALF,  SLACK, oracle_int,    INT_BNB},

    {AFFINE, "minmax",          LINEAR,             SLACK, oracle_affine, INT_AMAX},
    {AFFINE, "search",          LINEAR,             SLACK, oracle_affine, INT_SEARCH},
    {AFFINE, "ct",              LINEAR | TYPED | ORACLE_SHIFTED, SLACK, oracle_affine, INT_CT},
    {AFFINE, "torchao",         LINEAR | TYPED,     SLACK, oracle_affine, INT_TORCHAO},
    {AFFINE, "gptq",            LINEAR | UNSTORED,  SLACK, oracle_affine, INT_GPTQ},
    {AFFINE, "awq",             LINEAR | TYPED | ORACLE_SPREAD, SLACK, oracle_affine, INT_AWQ},
    {AFFINE, "hqq",             LINEAR | UNSTORED | ORACLE_SPREAD | ORACLE_OUTSIDE, SLACK,
                                                           oracle_affine, INT_HQQ},

    {KERF_FAMILY_GGML, "ggml-q8_0",  "ggml", ALL | UNSTORED, SLACK, oracle_ggml_q8,    0},
    {KERF_FAMILY_GGML, "ggml-q4_0",  "ggml", ALL | UNSTORED, SLACK, oracle_ggml_q4,    0},
    {KERF_FAMILY_GGML, "ggml-mxfp4", "ggml", ALL,            SLACK, oracle_ggml_mxfp4, 0},
    {KERF_FAMILY_GGML, "ggml-nvfp4", "ggml", ALL,            SLACK, oracle_ggml_nvfp4, 0},
};
/* clang-format on */

const oracle_rule *oracle_find(kerf_codec c)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].family == c.encoder->family &&
            (!rules[i].format || strcmp(rules[i].format, c.format->name) == 0) &&
            strcmp(rules[i].encoder, c.encoder->name) == 0)
            return &rules[i];
    return NULL;
}

/* An element is nearest to a number a few rounding errors away from it, and each side of the
 * comparison may be off by that much. */
oracle_bound oracle_slack(const oracle_rule *rule, const kerf_format *f, kerf_dtype source)
{
    oracle_bound b = {rule->slack, 0};
    const double codes = ldexp(1, (int)f->bits);
    const int half_scale = f->scale == KERF_SCALE_F16;
    if (rule->traits & ORACLE_TYPED && source != KERF_F32) b.relative += 2 * oracle_eps(source);
    if (rule->traits & ORACLE_UNSTORED && (half_scale || f->scale == KERF_SCALE_BF16))
        b.relative += 2 * oracle_eps(half_scale ? KERF_F16 : KERF_BF16);
    if (rule->traits & ORACLE_UNSTORED && half_scale) b.absolute = codes * 0x1p-24;
    if (rule->traits & ORACLE_HALF) {
        b.relative += 2 * oracle_eps(KERF_F16);
        b.absolute = 0x1p-24;
    }
    return b;
}
