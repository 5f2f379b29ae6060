/* forward_attend.c - the attention of a panel: for some queries of all heads at once, scores are
 * one product, the softmax a kernel, and what they make of the values a few more. Heads are laid
 * one behind the other first, so that all of them are one batch, also where some share their keys.
 */
#if __has_include(<cublasLt.h>)
#include "cuda/forward/forward_pass.h"

#define QUERIES UINT64_C(512)             /* at a time, at most */
#define SCORE_BYTES (UINT64_C(512) << 20) /* so that their scores are no more than this */
#define FEWEST UINT64_C(32)

typedef struct attending {
    const kf_attention *a;
    kf_gpu_pass *p;
    int pairs, query_term[KF_MOST_PAIRS], key_term[KF_MOST_PAIRS];
    uint64_t queries, stride; /* of a block; from one query's scores to the next's, at most */
    kf_bf16 *q, *k, *v;       /* q, k: [rows][heads][length][pairs][dim]; v: [terms][...]   */
    float *score;             /* [heads][queries][stride]                                   */
    kf_bf16 *share;           /* [terms][heads][queries][stride]                            */
    const float *sinks;
} attending;

/* The products of terms that count, the smallest first. */
static void find_pairs(attending *w)
{
    for (int both = w->p->terms - 1; both >= 0; both--)
        for (int i = both; i >= 0; i--) {
            w->query_term[w->pairs] = i;
            w->key_term[w->pairs++] = both - i;
        }
}

static kerf_status lay_out(const attending *w, kf_rows x, kf_bf16 *out, uint64_t heads,
                           uint64_t dim, const int *term, int pairs, kerf_error *err)
{
    kf_heads h = {.x = x.p,
                  .out = out,
                  .rows = w->a->rows,
                  .length = w->a->length,
                  .heads = w->a->heads,
                  .group = w->a->heads / heads,
                  .dim = dim,
                  .x_stride = x.stride,
                  .pairs = pairs};
    for (int i = 0; i < pairs; i++) h.term[i] = term[i];
    KF_CUDA(kf_heads_run(&h, w->p->stream), "laying out heads");
    return KERF_OK;
}

static kerf_status lay_out_all(const attending *w, kerf_error *err)
{
    const kf_attention *a = w->a;
    const uint64_t one = a->rows * a->heads * a->length * a->value;
    KF_TRY(lay_out(w, a->q, w->q, a->heads, a->dim, w->query_term, w->pairs, err));
    KF_TRY(lay_out(w, a->k, w->k, a->kv_heads, a->dim, w->key_term, w->pairs, err));
    for (int i = 0; i < w->p->terms; i++)
        KF_TRY(lay_out(w, a->v, w->v + (uint64_t)i * one, a->kv_heads, a->value, &i, 1, err));
    return KERF_OK;
}

/* Queries [q0, q0 + n) of all heads of a row. */
static kerf_status attend_block(const attending *w, uint64_t row, uint64_t q0, uint64_t n,
                                kerf_error *err)
{
    const kf_attention *a = w->a;
    kf_gpu_pass *p = w->p;
    const uint64_t deep = (uint64_t)w->pairs * a->dim, head = row * a->heads * a->length;
    uint64_t k0 = a->window && q0 + 1 > a->window ? q0 + 1 - a->window : 0;
    k0 -= k0 % 8;
    const uint64_t keys = q0 + n - k0, stride = kf_div_up(keys, 8) * 8;
    const kf_lt_shape scores = {.m = keys,
                                .n = n,
                                .k = deep,
                                .lda = deep,
                                .ldb = deep,
                                .ldc = stride,
                                .step_a = (int64_t)(a->length * deep),
                                .step_b = (int64_t)(a->length * deep),
                                .step_c = (int64_t)(n * stride),
                                .batch = (int32_t)a->heads,
                                .turn_a = 1};
    KF_TRY(kf_pass_multiply(p, scores, w->k + (head + k0) * deep, w->q + (head + q0) * deep,
                            w->score, 0, err));
    const kf_soften soften = {.score = w->score,
                              .sinks = w->sinks,
                              .out = w->share,
                              .heads = a->heads,
                              .q0 = q0,
                              .queries = n,
                              .k0 = k0,
                              .keys = keys,
                              .stride = stride,
                              .window = a->window,
                              .scale = a->scale,
                              .cap = a->cap,
                              .terms = p->terms};
    KF_CUDA(kf_soften_run(&soften, p->stream), "starting a softmax");
    const kf_lt_shape mix = {.m = a->value,
                             .n = n,
                             .k = keys,
                             .lda = a->value,
                             .ldb = stride,
                             .ldc = a->mixed.stride,
                             .step_a = (int64_t)(a->length * a->value),
                             .step_b = (int64_t)(n * stride),
                             .step_c = (int64_t)a->value,
                             .batch = (int32_t)a->heads};
    const uint64_t v_term = a->rows * a->heads * a->length * a->value;
    float *to = a->mixed.p + (row * a->length + q0) * a->mixed.stride;
    for (int i = 0; i < w->pairs; i++)
        KF_TRY(kf_pass_multiply(
            p, mix, w->v + (uint64_t)w->key_term[i] * v_term + (head + k0) * a->value,
            w->share + (uint64_t)w->query_term[i] * a->heads * n * stride, to, i > 0, err));
    return KERF_OK;
}

static kerf_status attend_all(attending *w, kerf_error *err)
{
    const kf_attention *a = w->a;
    KF_TRY(lay_out_all(w, err));
    for (uint64_t row = 0; row < a->rows; row++)
        for (uint64_t q0 = 0; q0 < a->length; q0 += w->queries)
            KF_TRY(attend_block(w, row, q0, kf_min_u64(w->queries, a->length - q0), err));
    return KERF_OK;
}

/* Queries of a block: whole tiles, and no more scores than there is room for. */
static uint64_t choose_queries(const kf_attention *a)
{
    uint64_t n = SCORE_BYTES / sizeof(float) / a->heads / a->length / FEWEST * FEWEST;
    n = n < FEWEST ? FEWEST : n;
    n = n > QUERIES ? QUERIES : n;
    return kf_min_u64(n, a->length);
}

kerf_status kf_gpu_attend(kf_stepper *s, const kf_attention *a, kerf_error *err)
{
    attending w = {.a = a, .p = s->gpu};
    unsigned char *memory = NULL;
    const uint64_t terms = (uint64_t)s->gpu->terms, tokens = a->rows * a->length * a->heads;
    find_pairs(&w);
    w.queries = choose_queries(a);
    w.stride = kf_div_up(a->length + 8, 8) * 8;
    const uint64_t scores = a->heads * w.queries * w.stride;
    const uint64_t heads = kf_div_up(tokens * a->dim * (uint64_t)w.pairs * sizeof(kf_bf16), 256);
    const uint64_t values = kf_div_up(tokens * a->value * terms * sizeof(kf_bf16), 256);
    KF_TRY(kf_pass_vector(s->gpu, a->sinks, &w.sinks, err));
    KF_TRY(kf_pass_allocate(
        s->gpu, 256 * (2 * heads + values) + scores * (sizeof(float) + terms * sizeof(kf_bf16)),
        &memory, err));
    w.q = (kf_bf16 *)memory;
    w.k = (kf_bf16 *)(memory + 256 * heads);
    w.v = (kf_bf16 *)(memory + 256 * 2 * heads);
    w.score = (float *)(memory + 256 * (2 * heads + values));
    w.share = (kf_bf16 *)(w.score + scores);
    const kerf_status status = attend_all(&w, err);
    (void)cudaFreeAsync(memory, s->gpu->stream);
    kf_pass_wrote(s->gpu, a->mixed);
    return status;
}
#endif
