/* oracle.h - a slow, independent second opinion on every block: what does the docstring of a
 * format's header in codecs/block/ say these bytes must be? Shares nothing with the library but
 * the format table: numbers are doubles, "rounded to fp32" is a conversion of the exact double
 * result (correct for + - * / by the 2p + 2 rule), an element is found by searching the sorted
 * values of all codes, and a logarithm is libm's.
 *
 * oracle.c holds the table of rules; the rules stand in oracle_{float,mx,nvfp4,nf4,int,affine,
 * ggml}.c, one file per family. */
#ifndef KERF_ORACLE_H
#define KERF_ORACLE_H

#include <kerf/codec.h>

#include <stdint.h>

enum { ORACLE_GROUP = 256 }; /* most elements of a group */

/* The elements of one group. */
typedef struct oracle_group {
    const float *x;
    unsigned n;
    int whole;         /* 0: the short last block of a tensor or row */
    double amax;       /* of the matrix */
    kerf_dtype source; /* the type that x was widened from */
} oracle_group;

/* What must be stored for a group. Scales as numbers; zero points and codes as bits. */
typedef struct oracle_answer {
    double scale;
    uint32_t zero;
    uint32_t code[ORACLE_GROUP];
} oracle_answer;

/* What else holds for every input of an encoder (tests/property/ checks it), and what the tests
 * must know of it. */
enum {
    /* decode(encode(y)) = y for every y that was decoded. Formats whose fp32 scale is found again
     * by a division may move by an ulp of it, so their codes stay but for a minus of zero. */
    ORACLE_IDEMPOTENT = 1,
    ORACLE_SYMMETRIC = 2, /* encode(-x) is -encode(x) */
    ORACLE_SCALES = 4,    /* 2^k x has the codes of x and 2^k times its scales */
    ORACLE_NEAREST = 8,   /* no code would be nearer, given the stored scale: see oracle_slack */
    ORACLE_PADS = 16,     /* a tail is encoded as if padded with zeros */
    ORACLE_LAWS = 31,

    ORACLE_TYPED = 32,    /* rounds to the type of the source on its way */
    ORACLE_UNSTORED = 64, /* rounds elements with the scale as it was before it was stored */
    ORACLE_HALF = 128,    /* takes every source through fp16 */
    ORACLE_SPREAD = 256,  /* the range of a group has a least width */
    ORACLE_OUTSIDE = 512, /* zero points may be no code: stored as the nearest code */
    ORACLE_SHIFTED = 1024 /* the zero point is added before the sum is rounded to a type */
};

typedef struct oracle_rule {
    kerf_family family;
    const char *format; /* NULL: every format of the family that has no row of its own */
    const char *encoder;
    unsigned traits;
    double slack; /* relative to |x|: what fp32 roundings on the way to a code may cost */
    void (*answer)(const kerf_format *f, int variant, const oracle_group *g, oracle_answer *out);
    int variant;
} oracle_rule;

/* Call once, before threads start. */
void oracle_init(void);

/* NULL: an encoder that nobody has stated a rule for. */
const oracle_rule *oracle_find(kerf_codec c);

/* How much farther than the nearest code an element may lie: `relative` to the numbers at hand,
 * and an `absolute` rest where a type has no smaller numbers. */
typedef struct oracle_bound {
    double relative, absolute;
} oracle_bound;
oracle_bound oracle_slack(const oracle_rule *rule, const kerf_format *f, kerf_dtype source);

/* fp32 second-level scale of a matrix with this amax, and the error of a block of NVFP4 with this
 * stored scale in the encoder's own metric. */
double oracle_second(int variant, double amax, kerf_dtype source);
double oracle_nvfp4_error(int variant, const oracle_group *g, double scale);
double oracle_nvfp4_scale_six(int variant, const oracle_group *g);

/* The number that a code and its stored scale, zero point and second-level values stand for. */
double oracle_decode(const kerf_format *f, uint32_t code, uint32_t scale_bits, uint32_t zero,
                     double second, double offset);
double oracle_scale_value(const kerf_format *f, uint32_t bits);
double oracle_map(uint32_t code); /* signed dynamic map, as it decodes */

/* Nested scales of nf4-dq: the mean as stored, then one run of at most 256 absmax. */
double oracle_mean(const double *absmax, size_t n);
double oracle_nest(const double *absmax, size_t n, double offset, uint32_t *codes);

/* Bits of the nearest fp16 or bfloat16 number, ties to even, and the number of such bits. */
uint16_t oracle_bits(kerf_dtype type, double x);
double oracle_number(kerf_dtype type, uint16_t bits);

#endif
