/* advice.h - what kerf advise works on: groups of tensors, what each candidate would cost them, and
 * the choice. Filled in this order by advice_groups.c, advice_score.c, advice_costs.c and
 * advice_choose.c; shown by advice_text.c, advice_html.c and recipe_write.c. */
#ifndef KERF_ADVICE_H
#define KERF_ADVICE_H

#include <kerf/advisor.h>
#include <kerf/choose.h>
#include <kerf/model.h>

#include "verbs/codec_list.h"
#include "model/select.h"
#include "machine/machine.h"
#include "output.h"

enum { ADVICE_SHAPES = 4, ADVICE_CURVE = 33, ADVICE_NAME = 320 };

/* Products of a group that share their input: one launch. */
typedef struct advice_shape {
    uint64_t n, k;
    double matrices; /* experts, or 1 */
} advice_shape;

/* What one candidate would cost a group. */
typedef struct advice_cost {
    int possible; /* every member can be encoded so */
    double t2;    /* sum of the members' alpha t2, weighted where there is an imatrix */
    double bytes;
    double us; /* 0 without hardware */
} advice_cost;

/* Tensors that share a format: what runtimes fuse, all experts of a layer, or one alone. */
typedef struct advice_group {
    char name[ADVICE_NAME]; /* "model.layers.0.self_attn.qkv_proj"           */
    char glob[ADVICE_NAME]; /* matches the members and nothing else; empty: none does */
    int experts;            /* all those of a layer                       */
    int layer;              /* -1: none                                      */
    size_t *member;         /* indices into advice.tensor                    */
    size_t members;
    double elements;
    advice_shape shape[ADVICE_SHAPES];
    size_t shapes;
    advice_cost *cost; /* [codecs + 1]: the last one is to keep it as it is */
    size_t pick;
    char reason[240];
} advice_group;

typedef struct advice_tensor {
    const kerf_weight *weight;
    size_t group;
    double alpha;
    uint64_t digest;   /* of its elements, shape and type      */
    kerf_score *score; /* [codecs]                             */
} advice_tensor;

/* What was asked for, in the units of the request; INFINITY: not asked. */
typedef struct advice_limits {
    double bits, bytes, us, tokens_per_s, t2;
    kerf_price minimise;
    int nested;
} advice_limits;

typedef struct advice_point {
    double bits, bytes, t2, us;
} advice_point;

typedef struct advice_curve {
    advice_point point[ADVICE_CURVE];
    size_t count;
} advice_curve;

typedef struct advice {
    const args *args;
    kerf_exec exec;
    kerf_checkpoint *source, *imatrix;
    size_t weighted;   /* tensors that the imatrix names */
    kf_selected plan;  /* what formats are chosen for */
    codec_list codecs; /* candidates */
    machine machine;   /* hardware NULL: none was named */
    kerf_model model;
    int has_model;
    double batch, context;
    const char *alpha_source; /* what alpha is, in words */
    advice_tensor *tensor;
    size_t tensors;
    advice_group *group;
    size_t groups;
    double elements;   /* of all groups                        */
    double kept_bytes; /* of tensors that are no candidates    */
    double other_us;   /* of operators that are no candidates  */
    kerf_tier tier;    /* of the least sure time               */
    size_t scored, cached;
    advice_limits limits;
    kerf_choice choice;
    double choose_s;
    advice_curve by_size, by_time; /* the best choices as each grows; by_time: with hardware */
} advice;

/* Name of a candidate; that past the last is "keep". out holds 64 bytes; returns out. */
char *advice_codec_name(const advice *a, size_t candidate, char *out);
/* Total of the choice, or of one candidate for all groups (keeping where it is impossible). */
advice_point advice_total(const advice *a);
advice_point advice_uniform(const advice *a, size_t candidate);
/* Bits per weight of a group under a candidate. */
double advice_bits(const advice_group *g, size_t candidate);

kerf_status advice_find_groups(advice *a, kerf_error *err);
kerf_status advice_score(advice *a, kerf_error *err);
kerf_status advice_find_costs(advice *a, kerf_error *err);
kerf_status advice_parse_limits(advice *a, kerf_error *err);
/* KERF_E_LIMIT with the nearest limits in the text when there is no choice. */
kerf_status advice_choose(advice *a, kerf_error *err);

kerf_status advice_print_text(const advice *a, kerf_error *err);
json_t *advice_json(const advice *a);
kerf_status advice_write_markdown(const advice *a, FILE *to, kerf_error *err);
void advice_write_html(const advice *a, FILE *to);
/* A recipe of the choice; released by the caller. */
json_t *advice_recipe(const advice *a);

#endif
