/* gguf_weights.c - the weights of a Hugging Face model under llama.cpp's names: tensors that are
 * read from those of the files in another order, or widened, while they are copied or quantized. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "file/gguf/gguf.h"
#include "file/read/view.h"
#include "layout/config_file.h"
#include "layout/decoded.h"
#include "layout/foreign.h"
#include "layout/gguf_names.h"
#include "layout/gguf_rope.h"
#include "layout/weights.h"
#include "roles/facts.h"

/* A tensor that another is read as. */
typedef struct made {
    kerf_tensor tensor;
    kerf_view view;
    const kerf_tensor *from;
    uint64_t half, cols; /* interleaved: rows of half a head, and elements of a row */
} made;

typedef struct renaming {
    kerf_weights *w;
    const kerf_reader *r;
    const kf_gguf_model *model;
    kf_rope rope;
    uint64_t heads, kv_heads, experts;
    kerf_weight *out;
    size_t count;
    kerf_error *err;
} renaming;

static kerf_status no_memory(kerf_error *err)
{
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for weights");
}

/* --- elements ------------------------------------------------------------------------------------
 */

/* `count` whole rows of one head into dst, from row `at` of it on; `head`: where it begins. Of each
 * head Hugging Face has the first halves of all rotary pairs, then the second ones; llama.cpp has
 * pair after pair. */
static kerf_status read_pairs(const kerf_reader *r, const made *m, uint64_t head, uint64_t at,
                              uint64_t count, unsigned char *dst, kerf_error *err)
{
    const size_t n = (size_t)(m->cols * m->view.size);
    for (uint64_t i = 0; i < kf_min_u64(2, count); i++) {
        const uint64_t row = head + (at + i) % 2 * m->half + (at + i) / 2;
        const kf_rows rows = {.tensor = m->from,
                              .offset = row * n,
                              .count = (count - i + 1) / 2,
                              .bytes = n,
                              .step = n,
                              .to_step = 2 * n};
        KF_TRY(kf_rows_read(r, &rows, dst + i * n, err));
    }
    return KERF_OK;
}

static kerf_status read_interleaved(const kerf_reader *r, const kerf_tensor *t, uint64_t offset,
                                    unsigned char *dst, size_t n, kerf_error *err)
{
    const made *m = t->view->ctx;
    const uint64_t row_bytes = m->cols * m->view.size, rows = 2 * m->half;
    while (n > 0) {
        const uint64_t row = offset / row_bytes, in = offset % row_bytes;
        const uint64_t at = row % rows, head = row - at;
        uint64_t take = kf_min_u64(n, row_bytes - in);
        if (in == 0 && n >= row_bytes) {
            const uint64_t count = kf_min_u64(n / row_bytes, rows - at);
            take = count * row_bytes;
            KF_TRY(read_pairs(r, m, head, at, count, dst, err));
        } else {
            const uint64_t from = head + at % 2 * m->half + at / 2;
            KF_TRY(kerf_reader_read(r, m->from, from * row_bytes + in, dst, (size_t)take, err));
        }
        offset += take;
        dst += take;
        n -= (size_t)take;
    }
    return KERF_OK;
}

/* F16 and BF16 as F32. */
static kerf_status read_widened(const kerf_reader *r, const kerf_tensor *t, uint64_t offset,
                                unsigned char *dst, size_t n, kerf_error *err)
{
    enum { RUN = 4096 };
    static const kerf_exec one = {.threads = 1};
    const made *m = t->view->ctx;
    uint16_t half[RUN];
    kerf_codec codec;
    kerf_geometry g;
    KF_TRY(kerf_codec_find(m->from->dtype == KERF_F16 ? "fp16" : "bf16", &codec, err));
    for (uint64_t at = offset / 4, left = n / 4; left > 0;) {
        const uint64_t count = kf_min_u64(left, RUN);
        const kerf_shape shape = {1, {count}};
        const kerf_cspan planes[KERF_PLANES] = {{half, (size_t)count * 2}};
        KF_TRY(kerf_reader_read(r, m->from, at * 2, half, (size_t)count * 2, err));
        KF_TRY(kerf_geometry_init(&g, codec.format, &shape, err));
        KF_TRY(kerf_decode(&g, 0, g.bands, planes, (kerf_span){dst, (size_t)count * 4}, KERF_F32,
                           &one, err));
        at += count;
        left -= count;
        dst += count * 4;
    }
    return KERF_OK;
}

/* --- weights -------------------------------------------------------------------------------------
 */

/* A tensor of the given name in place of w's own. */
static kerf_status make_tensor(renaming *n, kerf_weight *w, const char *name, made **out)
{
    const kerf_tensor *t = w->plane[0];
    made *m = kf_weights_own(n->w, 1, sizeof *m);
    if (!m) return no_memory(n->err);
    w->whole = w->name;
    KF_TRY(kf_weights_keep_name(n->w, name, t, &w->name, n->err));
    w->place.piece_at = w->place.piece_bytes = 0; /* of the old name; llama.cpp merges none */
    m->from = t;
    m->tensor = *t;
    m->tensor.name = w->name;
    m->view = (kerf_view){.size = kerf_dtype_bits(t->dtype) / 8,
                          .ctx = m,
                          .of = t,
                          .stored_bytes = kf_stored_bytes(t)};
    w->plane[0] = &m->tensor;
    *out = m;
    return KERF_OK;
}

static kerf_status interleave(const renaming *n, kerf_weight *w, uint64_t heads, made *m)
{
    if (w->shape.rank < 1 || w->shape.rank > 2 || heads == 0 || w->shape.dim[0] % (2 * heads) != 0)
        return kf_fail(n->err, KERF_E_NOSUP, KF_NOWHERE,
                       "%.200s: its rows are no %llu heads, which config.json names", w->whole,
                       (unsigned long long)heads);
    m->half = w->shape.dim[0] / heads / 2;
    m->cols = w->shape.rank > 1 ? w->shape.dim[1] : 1; /* of a bias */
    m->view.read = read_interleaved;
    m->tensor.view = &m->view;
    return KERF_OK;
}

/* What m reads, widened. */
static kerf_status widen(const renaming *n, kerf_weight *w, made *m)
{
    if (w->dtype != KERF_F16 && w->dtype != KERF_BF16) return KERF_OK;
    if (m->view.read) {
        made *before = kf_weights_own(n->w, 1, sizeof *before);
        if (!before) return no_memory(n->err);
        *before = *m;
        before->view.ctx = before;
        before->tensor.view = &before->view;
        m->from = &before->tensor;
    }
    m->view.size = 4;
    m->view.read = read_widened;
    m->tensor.view = &m->view;
    m->tensor.dtype = w->dtype = KERF_F32;
    m->tensor.bytes *= 2;
    return KERF_OK;
}

/* What another program quantized is decoded, and is F32 from here on. */
static kerf_status make_dense(renaming *n, kerf_weight *w)
{
    const kerf_tensor *t;
    if (!w->decoded) return KERF_OK;
    KF_TRY(kf_weight_decode_alone(n->w, w, &t, n->err));
    *w = (kerf_weight){.name = w->name,
                       .shape = w->shape,
                       .dtype = KERF_F32,
                       .place = w->place,
                       .plane = {t},
                       .decoded = t};
    return KERF_OK;
}

/* All experts of one matrix, from the first. */
static kerf_status stack(renaming *n, kerf_weight *w, made *m)
{
    char name[KERF_MAX_NAME_BYTES + 32];
    const char *at = strstr(w->whole, "experts.0.");
    if (n->experts > n->w->count) /* before there is memory for them */
        return kf_fail(n->err, KERF_E_DATA, KF_NOWHERE,
                       "%.300s: config.json has a num_experts of %llu, more than there are weights",
                       w->whole, (unsigned long long)n->experts);
    const kerf_tensor **from = kf_weights_own(n->w, n->experts, sizeof *from);
    uint64_t stored = 0;
    if (!from) return no_memory(n->err);
    for (uint64_t e = 0; e < n->experts; e++) {
        snprintf(name, sizeof name, "%.*sexperts.%llu.%s", (int)(at - w->whole), w->whole,
                 (unsigned long long)e, at + strlen("experts.0."));
        const kerf_weight *found = kerf_weights_find(n->w, name);
        kerf_weight one = found ? *found : (kerf_weight){.name = NULL};
        KF_TRY(make_dense(n, &one));
        if (!found || one.codec.format || !kerf_shape_equal(&one.shape, &w->shape) ||
            one.dtype != w->dtype)
            return kf_fail(n->err, KERF_E_DATA, KF_NOWHERE,
                           "%.300s is missing or unlike expert 0, and llama.cpp has all experts in "
                           "one tensor",
                           name);
        from[e] = one.plane[0];
        stored += kf_stored_bytes(one.plane[0]);
    }
    w->shape = (kerf_shape){3, {n->experts, w->shape.dim[0], w->shape.dim[1]}};
    w->place.experts = n->experts;
    w->place.stack = KERF_STACK_FIRST;
    m->view.rows = w->shape.dim[1];
    m->view.cols = w->shape.dim[2];
    m->view.parts = 1;
    m->view.stored_bytes = stored;
    m->view.from = from;
    m->tensor.view = &m->view;
    m->tensor.shape = w->shape;
    m->tensor.bytes *= n->experts;
    return KERF_OK;
}

static kerf_status rename_weight(renaming *n, const kerf_weight *from)
{
    char name[KF_GGUF_NAME_ROOM];
    uint64_t expert = 0;
    made *m = NULL;
    const kf_gguf_kind kind = kf_gguf_name_of(from->name, name, &expert);
    const int is_unused = kind == KF_GGUF_NO_USE || kerf_is_activation_scale(from->name) ||
                          kerf_is_smoothing(n->w, n->r, from);
    if (is_unused) return KERF_OK;
    if (kind == KF_GGUF_UNKNOWN)
        return kf_fail(n->err, KERF_E_NOSUP, KF_NOWHERE,
                       "%.200s: llama.cpp's %s has no such tensor", from->name,
                       n->model->architecture);
    if (kind == KF_GGUF_EXPERT && expert >= n->experts)
        return kf_fail(n->err, KERF_E_DATA, KF_NOWHERE,
                       "%.200s: config.json has a num_experts of %llu", from->name,
                       (unsigned long long)n->experts);
    if ((from->codec.format && !from->decoded) || from->stored.rank)
        return kf_fail(n->err, KERF_E_NOSUP, KF_NOWHERE,
                       "%.200s is not dense: kerf dequantize makes a source that can be written as "
                       "GGUF",
                       from->name);
    if (kind == KF_GGUF_EXPERT && expert > 0) return KERF_OK; /* in the stack of the first */
    kerf_weight *w = &n->out[n->count++];
    *w = *from;
    KF_TRY(make_dense(n, w));
    KF_TRY(make_tensor(n, w, name, &m));
    if (w->decoded || kf_foreign_form(from)) w->decoded = &m->tensor; /* so that the plan says it */
    if (kind == KF_GGUF_EXPERT) return stack(n, w, m);
    const int turns = n->model->interleaves && (kind == KF_GGUF_Q || kind == KF_GGUF_K);
    if (turns) KF_TRY(interleave(n, w, kind == KF_GGUF_Q ? n->heads : n->kv_heads, m));
    return w->shape.rank < 2 || w->place.role == KERF_ROLE_ROUTER ? widen(n, w, m) : KERF_OK;
}

/* --- divisors of rotary frequencies -------------------------------------------------------------
 */

static kerf_status read_divisors(const kerf_reader *r, const kerf_tensor *t, uint64_t offset,
                                 unsigned char *dst, size_t n, kerf_error *err)
{
    const kf_rope *rope = t->view->ctx;
    (void)r;
    (void)err;
    for (size_t i = 0; i < n / sizeof(float); i++) {
        const float x = kf_rope_divisor(rope, offset / sizeof x + i);
        memcpy(dst + i * sizeof x, &x, sizeof x);
    }
    return KERF_OK;
}

/* A weight that the source has as numbers of config.json. */
static kerf_status add_divisors(renaming *n)
{
    struct {
        kerf_tensor tensor;
        kerf_view view;
        kf_rope rope;
    } *own = NULL;
    if (n->rope.kind != KF_ROPE_LLAMA3) return KERF_OK;
    own = kf_weights_own(n->w, 1, sizeof *own);
    if (!own) return no_memory(n->err);
    own->rope = n->rope;
    own->view = (kerf_view){.size = sizeof(float), .read = read_divisors, .ctx = &own->rope};
    own->tensor = (kerf_tensor){.name = "rope_freqs.weight",
                                .dtype = KERF_F32,
                                .shape = {1, {n->rope.pairs}},
                                .bytes = n->rope.pairs * sizeof(float),
                                .view = &own->view};
    n->out[n->count++] =
        (kerf_weight){.name = own->tensor.name,
                      .dtype = KERF_F32,
                      .shape = own->tensor.shape,
                      .plane = {&own->tensor},
                      .place = {.role = KERF_ROLE_ATTENTION, .evidence = KERF_EVIDENCE_FAMILY}};
    return KERF_OK;
}

static kerf_status rename_all(renaming *n)
{
    const size_t room = n->w->count + 1;
    n->out = kf_weights_own(n->w, room, sizeof *n->out);
    if (!n->out) return no_memory(n->err);
    for (size_t i = 0; i < n->w->count; i++) KF_TRY(rename_weight(n, &n->w->weight[i]));
    KF_TRY(add_divisors(n));
    kerf_weight *list = realloc(n->w->weight, room * sizeof *list);
    if (!list) return no_memory(n->err);
    n->w->weight = list;
    kf_named *names = realloc(n->w->by_name, room * sizeof *names);
    if (!names) return no_memory(n->err);
    n->w->by_name = names;
    memcpy(n->w->weight, n->out, n->count * sizeof *n->out);
    n->w->count = n->count;
    return kf_weights_index(n->w, n->err);
}

kerf_status kerf_weights_name_as_gguf(kerf_weights *w, const kerf_reader *r, kerf_error *err)
{
    json_t *config = NULL;
    const int is_gguf = kerf_reader_is_gguf(r) || kerf_reader_shard_count(r) == 0;
    if (is_gguf || kerf_reader_metadata(r, 0, KF_GGUF_CARRIED)) return KERF_OK; /* or was */
    KF_TRY(kf_config_load(r, "config.json", &config, err));
    renaming n = {.w = w, .r = r, .model = kf_gguf_model_find(config), .err = err};
    n.heads = kf_fact_number(config, "num_attention_heads");
    n.kv_heads = kf_fact_number(config, "num_key_value_heads");
    if (n.kv_heads == 0) n.kv_heads = n.heads;
    n.experts = kf_fact_number(config, "num_experts|num_local_experts");
    kerf_status s = n.model ? kf_gguf_rope_read(config, &n.rope, err) : KERF_OK;
    if (s == KERF_OK && n.model && n.model->has_experts) /* in whatever arrangement they are */
        s = kerf_weights_arrange(w, KERF_EXPERTS_SINGLE, NULL, NULL, err);
    json_decref(config);
    return s == KERF_OK && n.model && w->count ? rename_all(&n) : s;
}
