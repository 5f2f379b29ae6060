/* oracle_rules.h - the rules that the table in oracle.c names: one function per family, and the
 * variants that tell its encoders apart. */
#ifndef KERF_ORACLE_RULES_H
#define KERF_ORACLE_RULES_H

#include "exhaustive/oracle.h"

#define ORACLE_ANSWER(name) \
    void name(const kerf_format *f, int variant, const oracle_group *g, oracle_answer *out)

ORACLE_ANSWER(oracle_cast);
ORACLE_ANSWER(oracle_fp8);
ORACLE_ANSWER(oracle_mx);
ORACLE_ANSWER(oracle_nvfp4);
ORACLE_ANSWER(oracle_nf4);
ORACLE_ANSWER(oracle_int);
ORACLE_ANSWER(oracle_affine);
ORACLE_ANSWER(oracle_ggml_q8);
ORACLE_ANSWER(oracle_ggml_q4);
ORACLE_ANSWER(oracle_ggml_mxfp4);
ORACLE_ANSWER(oracle_ggml_nvfp4);

enum { FP8_AMAX, FP8_MODELOPT, FP8_CT, FP8_TORCHAO, FP8_DEEPSEEK };
enum {
    MX_FLOOR,
    MX_RCEIL,
    MX_EVEN,
    MX_CEIL,
    MX_SEARCH,
    MX_TORCHAO,
    MX_CT,
    MX_MODELOPT,
    MX_MICROXCALING,
    MX_GGML
};
/* kerf's own: a metric, with or without 448; then the others. */
enum {
    NV_AMAX = 0,
    NV_MSE = 1,
    NV_MAE = 2,
    NV_ABSMAX = 3,
    NV_SWEEP = 4,
    NV_METRIC = 7,
    NV_448 = 8,
    NV_TE = 16,
    NV_MODELOPT,
    NV_MODELOPT_STATIC,
    NV_CT,
    NV_CT_FP32,
    NV_TORCHAO,
    NV_STATIC_6,
    NV_STATIC_4,
    NV_AUTOROUND
};
enum {
    INT_AMAX,
    INT_SEARCH,
    INT_CT,
    INT_TORCHAO,
    INT_MODELOPT,
    INT_GPTQ,
    INT_BNB,
    INT_AWQ,
    INT_HQQ
};

#endif
