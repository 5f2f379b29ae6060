/* place_name.c - the role of one tensor: the row of its family, then the patterns that families
 * share, then what stands around it, then its shape. */
#include "roles/places.h"

#include <stdio.h>
#include <string.h>

#include "roles/groups.h"
#include "roles/role_names.h"

/* --- names and reasons --------------------------------------------------------------------- */

static const struct {
    const char *name, *keeps; /* why such tensors are kept; NULL: for their piece alone */
} roles[KERF_ROLES] = {
    [KERF_ROLE_OTHER] = {"other", "unknown role"},
    [KERF_ROLE_EMBEDDING] = {"embedding", "embedding"},
    [KERF_ROLE_HEAD] = {"output head", "output head"},
    [KERF_ROLE_NORM] = {"norm", "norm"},
    [KERF_ROLE_BIAS] = {"bias", "bias"},
    [KERF_ROLE_ROUTER] = {"router", "router"},
    [KERF_ROLE_ATTENTION] = {"attention", NULL},
    [KERF_ROLE_MLP] = {"MLP", NULL},
    [KERF_ROLE_EXPERT] = {"expert", NULL},
    [KERF_ROLE_SHARED_EXPERT] = {"shared expert", NULL},
    [KERF_ROLE_STATE_SPACE] = {"state space", NULL},
    [KERF_ROLE_CONVOLUTION] = {"convolution", "convolution"},
    [KERF_ROLE_VISION] = {"vision", "vision tower"},
    [KERF_ROLE_AUDIO] = {"audio", "audio tower"},
    [KERF_ROLE_PROJECTOR] = {"projector", "projector"},
    [KERF_ROLE_MTP] = {"MTP", "multi-token prediction"},
    [KERF_ROLE_SCALE] = {"scale", "scale"},
};

static const char *const pieces[KERF_PIECES] = {
    [KERF_PIECE_NONE] = "",
    [KERF_PIECE_Q] = "q",
    [KERF_PIECE_K] = "k",
    [KERF_PIECE_V] = "v",
    [KERF_PIECE_O] = "o",
    [KERF_PIECE_QKV] = "qkv",
    [KERF_PIECE_KV] = "kv",
    [KERF_PIECE_Q_A] = "q_a",
    [KERF_PIECE_Q_B] = "q_b",
    [KERF_PIECE_KV_A] = "kv_a",
    [KERF_PIECE_KV_B] = "kv_b",
    [KERF_PIECE_GATE] = "gate",
    [KERF_PIECE_UP] = "up",
    [KERF_PIECE_DOWN] = "down",
    [KERF_PIECE_GATE_UP] = "gate_up",
    [KERF_PIECE_IN] = "in",
    [KERF_PIECE_Z] = "z",
    [KERF_PIECE_OUT] = "out",
    [KERF_PIECE_PARAMETER] = "parameter",
};

const char *kerf_role_name(kerf_role r)
{
    return (unsigned)r < KERF_ROLES ? roles[r].name : NULL;
}

const char *kerf_piece_name(kerf_piece p)
{
    return (unsigned)p < KERF_PIECES ? pieces[p] : "";
}

char *kerf_place_text(const kerf_place *p, char *out, size_t size)
{
    const char *piece = kerf_piece_name(p->piece);
    snprintf(out, size, "%s%s%s", kerf_role_name(p->role), *piece ? " " : "", piece);
    return out;
}

const char *kerf_place_keeps(const kerf_place *p)
{
    if (p->piece == KERF_PIECE_PARAMETER)
        return p->role == KERF_ROLE_ATTENTION                       ? "attention parameter"
               : p->role == KERF_ROLE_STATE_SPACE                   ? "state space parameter"
               : roles[p->role].keeps && p->role != KERF_ROLE_OTHER ? roles[p->role].keeps
                                                                    : "parameter";
    if (p->role == KERF_ROLE_OTHER && p->evidence == KERF_EVIDENCE_MATRIX) return NULL;
    if (roles[p->role].keeps) return roles[p->role].keeps;
    if (p->stack == KERF_STACK_LAST)
        return "its experts stand last, where no block can run along them";
    if (p->orientation == KERF_AXES_UNKNOWN) return "which of its axes is the input is not known";
    return NULL;
}

/* --- one tensor ---------------------------------------------------------------------------- */

static int take_pattern(const kf_parts *n, const kf_pattern *rows, size_t count, kerf_place *p)
{
    for (size_t i = 0; i < count && rows[i].names; i++) {
        if (!kf_parts_end_in(n, rows[i].names)) continue;
        p->role = rows[i].role;
        p->piece = rows[i].piece;
        return 1;
    }
    return 0;
}

/* What a module is that a tensor stands in at once, numbers between left aside. */
static int stands_in(const kf_parts *n, const char *modules)
{
    int i = n->count - 2;
    while (i >= 0 && n->part[i].is_number) i--;
    kf_parts outer = *n;
    outer.count = i + 1;
    return i >= 0 && kf_parts_end_in(&outer, modules);
}

static const char attention_modules[] = "att|attn|*_attn|*attention|SelfAttention";
static const char mlp_modules[] =
    "mlp|ffn|ff|*feed_forward|*_mlp|mlp_*|experts|expert|expert_*|DenseReluDense";

/* The last part that a row of groups.def has as a member. */
static int take_member(const kf_parts *n, kerf_place *p)
{
    kerf_piece piece;
    for (int i = n->count - 1; i >= 0 && i >= n->count - 2; i--) {
        const kf_fused_row *g = kf_group_find(n->text + n->part[i].at, n->part[i].bytes, &piece);
        if (!g || (i < n->count - 1 && !n->part[i + 1].is_number)) continue;
        if (g->role == KERF_ROLE_MLP && stands_in(n, attention_modules)) continue;
        p->role = g->role;
        p->piece = piece;
        p->piece_at = n->part[i].at;
        p->piece_bytes = n->part[i].bytes;
        return 1;
    }
    return 0;
}

/* out_proj of an MLP is no output of an attention, and w1 of an attention no part of an MLP. */
static void judge_module(const kf_parts *n, kerf_place *p)
{
    if (p->role == KERF_ROLE_ATTENTION && p->piece == KERF_PIECE_O && stands_in(n, mlp_modules)) {
        p->role = KERF_ROLE_MLP;
        p->piece = KERF_PIECE_DOWN;
    } else if (p->role == KERF_ROLE_MLP && stands_in(n, attention_modules)) {
        *p = (kerf_place){.role = KERF_ROLE_OTHER, .layer = p->layer};
    }
}

static void take_names(const kf_facts *f, const kf_parts *n, kerf_place *p)
{
    const kf_family *own = f->family;
    if (own && take_pattern(n, own->pattern, KF_FAMILY_PATTERNS, p)) {
        p->evidence = KERF_EVIDENCE_FAMILY;
    } else if (take_member(n, p) || take_pattern(n, kf_patterns, kf_pattern_count, p)) {
        p->evidence = own ? KERF_EVIDENCE_FAMILY : KERF_EVIDENCE_NAMES;
        judge_module(n, p);
    }
    if (p->piece != KERF_PIECE_NONE && !p->piece_bytes && n->count) {
        p->piece_at = n->part[n->count - 1].at;
        p->piece_bytes = n->part[n->count - 1].bytes;
    }
}

/* A matrix of an MLP that no name tells has the sizes that config.json names. Where the family is
 * not known its axes may be the other way round, and it is left alone. */
static void judge_sizes(const kf_facts *f, const kf_parts *n, const kerf_shape *s, kerf_place *p)
{
    const uint64_t inners[] = {f->inner, f->expert_inner};
    if (p->evidence != KERF_EVIDENCE_NONE || !f->family || f->family->flags & KF_FAMILY_CONV1D ||
        s->rank != 2 || !f->hidden || n->layer < 0 || !stands_in(n, mlp_modules))
        return;
    for (size_t i = 0; i < 2 && p->piece == KERF_PIECE_NONE; i++) {
        const uint64_t inner = inners[i], rows = s->dim[0], cols = s->dim[1];
        if (!inner || inner == f->hidden || 2 * inner == f->hidden) continue;
        if (cols == f->hidden && rows == inner) p->piece = KERF_PIECE_UP;
        if (cols == f->hidden && rows == 2 * inner) p->piece = KERF_PIECE_GATE_UP;
        if (rows == f->hidden && cols == inner) p->piece = KERF_PIECE_DOWN;
    }
    if (p->piece == KERF_PIECE_NONE) return;
    p->role = KERF_ROLE_MLP;
    p->evidence = KERF_EVIDENCE_SHAPE;
}

static int is_tower(kerf_role r)
{
    return r == KERF_ROLE_VISION || r == KERF_ROLE_AUDIO;
}

static int is_first(const kf_parts *n, const char *word)
{
    return n->part[0].bytes == strlen(word) && memcmp(n->text, word, n->part[0].bytes) == 0;
}

static void look_around(const kf_facts *f, const kf_parts *n, kerf_place *p)
{
    if (f->encodes && is_first(n, "encoder")) {
        p->role = KERF_ROLE_AUDIO;
        if (p->evidence == KERF_EVIDENCE_NONE) p->evidence = KERF_EVIDENCE_FAMILY;
        return;
    }
    const int one_tower = f->family && f->family->flags & KF_FAMILY_ONE_TOWER;
    for (size_t i = 0; i < kf_around_count; i++) {
        const kf_around *a = &kf_arounds[i];
        if (a->of == KF_AROUND_MLP && p->role != KERF_ROLE_MLP) continue;
        if (a->of == KF_AROUND_UNKNOWN && p->evidence != KERF_EVIDENCE_NONE) continue;
        if ((one_tower && is_tower(a->role)) || kf_parts_around(n, a->parts) < 0) continue;
        p->role = a->role;
        if (a->of == KF_AROUND_SMALL) p->piece = KERF_PIECE_PARAMETER;
        if (p->evidence == KERF_EVIDENCE_NONE) p->evidence = KERF_EVIDENCE_NAMES;
        return;
    }
}

static int is_bias(const kf_parts *n)
{
    const char *end = n->text + strlen(n->text);
    return end - n->text >= 4 && strcmp(end - 4, "bias") == 0;
}

/* Gates of whole heads are a row for each, beside which a block of scales is no saving. */
static void judge_head_gate(const kerf_shape *s, kerf_place *p)
{
    if (p->role != KERF_ROLE_ATTENTION || p->piece != KERF_PIECE_GATE || s->rank != 2) return;
    if (s->dim[0] <= s->dim[1] / 8) p->piece = KERF_PIECE_PARAMETER;
}

/* A gate is a router, which has a row for each expert, or one half of an MLP. */
static void judge_gate(const kf_facts *f, const kerf_shape *s, kerf_place *p)
{
    if (p->role != KERF_ROLE_ROUTER || p->piece != KERF_PIECE_GATE) return;
    const int is_wide = s->rank == 2 && f->expert_inner && s->dim[0] == f->expert_inner &&
                        s->dim[0] != f->experts && !f->experts;
    p->piece = is_wide ? KERF_PIECE_GATE : KERF_PIECE_NONE;
    if (is_wide) p->role = KERF_ROLE_MLP;
}

/* What no name tells. In doubt it stays other, which is kept. */
static void judge_shape(const kf_facts *f, const kf_parts *n, const kerf_shape *s, kerf_place *p)
{
    if (p->evidence != KERF_EVIDENCE_NONE) return;
    const uint64_t rows = s->rank > 1 ? s->dim[s->rank - 2] : 1;
    const uint64_t cols = s->rank > 0 ? s->dim[s->rank - 1] : 1;
    p->evidence = KERF_EVIDENCE_SHAPE;
    if (s->rank == 2 && f->vocab && rows == f->vocab && n->layer < 0) {
        p->role = KERF_ROLE_EMBEDDING;
    } else if (s->rank == 2 && f->experts > 1 && rows == f->experts && cols == f->hidden) {
        p->role = KERF_ROLE_ROUTER;
    } else if (s->rank >= 2 && !f->is_described) {
        p->evidence = KERF_EVIDENCE_MATRIX;
    } else {
        p->evidence = KERF_EVIDENCE_NONE;
    }
}

void kf_place_name(const kf_facts *f, const char *name, const kerf_shape *shape, kerf_place *p)
{
    kf_parts n;
    *p = (kerf_place){.role = KERF_ROLE_OTHER};
    kf_parts_cut(name, &n);
    p->layer = n.layer;
    take_names(f, &n, p);
    judge_sizes(f, &n, shape, p);
    judge_gate(f, shape, p);
    judge_head_gate(shape, p);
    if (is_bias(&n) && p->role != KERF_ROLE_ROUTER && p->piece != KERF_PIECE_PARAMETER) {
        p->role = KERF_ROLE_BIAS;
        p->piece = KERF_PIECE_NONE;
        p->evidence = p->evidence ? p->evidence : KERF_EVIDENCE_NAMES;
    }
    look_around(f, &n, p);
    if (f->has_mtp && f->layers && n.layer >= 0 && (uint64_t)n.layer >= f->layers &&
        !is_tower(p->role) && p->role != KERF_ROLE_PROJECTOR)
        p->role = KERF_ROLE_MTP;
    judge_shape(f, &n, shape, p);
    /* to be confirmed by the number of experts: place_axes.c */
    if (p->role == KERF_ROLE_EXPERT && shape->rank == 2 && !n.expert &&
        kf_parts_around(&n, "experts") >= 0)
        p->stack = KERF_STACK_ROWS;
}

int kerf_is_activation_scale(const char *name)
{
    kf_parts n;
    kf_parts_cut(name, &n);
    return kf_parts_end_in(&n, "input_scale|output_scale|input_global_scale|scale_input|scaled_fp8|"
                               "k_scale|v_scale|q_scale|kv_scale|prob_scale|k_zero_point|"
                               "v_zero_point|kv_cache_scaling_factor|*_input_scale|*_output_scale|"
                               /* transformers' FP8, Mistral's own files, FBGEMM, TensorRT-LLM */
                               "activation_scale|*_activation_scale|qscale_act|act_scale|"
                               "input_scale_ub|activation_scaling_factor|input_zero_point|"
                               "output_zero_point|comfy_quant");
}

int kf_place_is_looked_up(const kerf_place *p, const char *name)
{
    kf_parts n;
    if (p->role != KERF_ROLE_EMBEDDING && p->role != KERF_ROLE_MTP && !is_tower(p->role)) return 0;
    kf_parts_cut(name, &n);
    return kf_parts_end_in(&n,
                           "embed_tokens|embed_tokens_per_layer|wte|wpe|tok_embeddings|embed_in|"
                           "word_embeddings|word_embedding|token_embedding|token_emb|^shared|"
                           "token_type_embeddings|token_type_embedding|position_embeddings|"
                           "position_embedding|embed_positions|tokens_embed|positions_embed|"
                           "pos_embed|pos_emb|^embed|embeddings|^embedding|W_E|W_pos|"
                           /* GGUF */
                           "^token_embd|^token_types|^position_embd|^per_layer_token_embd");
}

void kerf_place_find(const char *family, const char *name, const kerf_shape *shape, kerf_place *out)
{
    kf_facts f = {.family = family ? kf_family_find(family) : NULL, .is_described = family != NULL};
    static const kerf_shape none;
    kf_placed one = {
        .name = name, .shape = shape->rank > KERF_MAX_RANK ? &none : shape, .place = out};
    kf_places_find(&f, &one, 1);
}
