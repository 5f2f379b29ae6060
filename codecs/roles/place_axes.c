/* place_axes.c - which axes of matrices are inputs, and where experts are stacked.
 *
 * torch.nn.Linear is [out, in]. Two kinds of tensors may not be: the Conv1D matrices of GPT-2, and
 * stacks of experts, which transformers has in both orders. Shapes tell: the axis that is as long
 * as the hidden size is the input of q, gate and up, and the output of o and down; a bias beside a
 * stack is as long as its output; gate_up has two rows for each column of down. Where both axes are
 * alike, other tensors of the same kind tell, at last the row of the family. */
#include <stdlib.h>
#include <string.h>

#include "roles/places.h"
#include "roles/role_names.h"

enum { OUT_LAST = 1, IN_LAST = -1 }; /* a vote: the outputs, or the inputs, are the last axis */

typedef struct model_axes {
    const kf_facts *facts;
    kf_placed *list; /* by name */
    size_t count;
    uint64_t hidden, experts;
    int conv1d, stacks; /* votes of all */
} model_axes;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const kf_placed *)a)->name, ((const kf_placed *)b)->name);
}

static uint64_t dim_from_end(const kerf_shape *s, unsigned i)
{
    return s->rank > i ? s->dim[s->rank - 1 - i] : 1;
}

/* --- sizes that the tensors tell ----------------------------------------------------------- */

static void find_sizes(model_axes *m)
{
    m->hidden = m->facts->hidden;
    m->experts = m->facts->experts;
    for (size_t i = 0; i < m->count; i++) {
        const kerf_place *p = m->list[i].place;
        const kerf_shape *s = m->list[i].shape;
        if (s->rank != 2) continue;
        if (!m->hidden && p->role == KERF_ROLE_EMBEDDING && s->dim[0] > s->dim[1])
            m->hidden = s->dim[1];
        if (!m->experts && p->role == KERF_ROLE_ROUTER && s->dim[0] > 1) m->experts = s->dim[0];
    }
}

/* --- votes --------------------------------------------------------------------------------- */

static int gives_hidden(kerf_piece p)
{
    return p == KERF_PIECE_DOWN || p == KERF_PIECE_O || p == KERF_PIECE_OUT;
}

static int takes_hidden(kerf_piece p)
{
    return p == KERF_PIECE_Q || p == KERF_PIECE_K || p == KERF_PIECE_V || p == KERF_PIECE_QKV ||
           p == KERF_PIECE_GATE || p == KERF_PIECE_UP || p == KERF_PIECE_GATE_UP ||
           p == KERF_PIECE_IN;
}

/* What the hidden size says of a matrix; 0: nothing. */
static int vote_of_hidden(const model_axes *m, const kf_placed *t)
{
    const uint64_t rows = dim_from_end(t->shape, 1), cols = dim_from_end(t->shape, 0);
    const kerf_piece piece = t->place->piece;
    if (!m->hidden || (rows == m->hidden) == (cols == m->hidden)) return 0;
    if (takes_hidden(piece)) return rows == m->hidden ? OUT_LAST : IN_LAST;
    return gives_hidden(piece) ? cols == m->hidden ? OUT_LAST : IN_LAST : 0;
}

/* q, k and v in one matrix have three times as many outputs as inputs, where there are as many of
 * each; the hidden size need not be known. */
static int vote_of_thirds(const kf_placed *t)
{
    const uint64_t rows = dim_from_end(t->shape, 1), cols = dim_from_end(t->shape, 0);
    if (t->place->piece != KERF_PIECE_QKV || rows == cols) return 0;
    return cols % 3 == 0 && cols / 3 == rows   ? OUT_LAST
           : rows % 3 == 0 && rows / 3 == cols ? IN_LAST
                                               : 0;
}

/* --- plain matrices ------------------------------------------------------------------------ */

static int is_linear(const kf_placed *t)
{
    const kerf_place *p = t->place;
    return t->shape->rank == 2 && p->piece != KERF_PIECE_PARAMETER &&
           (p->role == KERF_ROLE_ATTENTION || p->role == KERF_ROLE_MLP);
}

/* Only where Conv1D may be at all are the axes of plain matrices asked for. */
static int may_be_conv1d(const model_axes *m)
{
    const kf_family *f = m->facts->family;
    return f ? (f->flags & KF_FAMILY_CONV1D) != 0 : 1;
}

static void orient_matrices(model_axes *m)
{
    if (!may_be_conv1d(m)) return;
    for (size_t i = 0; i < m->count; i++)
        if (is_linear(&m->list[i])) m->conv1d += vote_of_thirds(&m->list[i]);
    if (m->conv1d == 0 && m->facts->family) m->conv1d = OUT_LAST;
    if (m->conv1d <= 0) return;
    for (size_t i = 0; i < m->count; i++) {
        if (!is_linear(&m->list[i])) continue;
        const int vote = vote_of_hidden(m, &m->list[i]);
        m->list[i].place->orientation = vote == IN_LAST ? KERF_OUT_IN : KERF_IN_OUT;
    }
}

/* --- stacks of experts --------------------------------------------------------------------- */

static int is_matrix_of_stack(const kf_placed *t)
{
    return t->place->stack == KERF_STACK_FIRST && t->place->role != KERF_ROLE_BIAS;
}

static void find_stack(const model_axes *m, kf_placed *t)
{
    const kerf_shape *s = t->shape;
    kerf_place *p = t->place;
    const int may = p->role == KERF_ROLE_MLP || p->role == KERF_ROLE_EXPERT ||
                    p->role == KERF_ROLE_SHARED_EXPERT;
    if (!may || s->rank < 2) return;
    if (s->rank >= 3) {
        const uint64_t last = s->dim[s->rank - 1];
        p->stack = m->experts > 1 && last == m->experts && s->dim[0] != m->experts
                       ? KERF_STACK_LAST
                       : KERF_STACK_FIRST;
        p->experts = p->stack == KERF_STACK_LAST ? last : s->dim[0];
        if (p->role == KERF_ROLE_MLP) p->role = KERF_ROLE_EXPERT;
    } else if (p->stack == KERF_STACK_ROWS) {
        const int fits = m->experts > 1 && s->dim[0] % m->experts == 0 && s->dim[0] > m->experts;
        /* without their number it is not known where one ends, nor whether down is turned */
        const int is_plain = m->hidden && s->dim[0] == m->hidden && s->dim[1] != m->hidden;
        if (m->experts == 0 && p->piece == KERF_PIECE_DOWN && !is_plain)
            p->orientation = KERF_AXES_UNKNOWN;
        p->stack = fits ? KERF_STACK_ROWS : KERF_STACK_NONE;
        p->experts = fits ? m->experts : 0;
    }
}

static const kf_placed *find_named(const model_axes *m, const char *name)
{
    const kf_placed key = {.name = name};
    return bsearch(&key, m->list, m->count, sizeof key, by_name);
}

static const kf_placed *find_bias(const model_axes *m, const kf_placed *t)
{
    static const char *const ends[] = {"_bias", ".bias"};
    char name[1100];
    size_t n = strlen(t->name);
    if (n > 7 && strcmp(t->name + n - 7, ".weight") == 0) n -= 7;
    for (size_t i = 0; i < 2 && n + 6 <= sizeof name; i++) {
        memcpy(name, t->name, n);
        memcpy(name + n, ends[i], 6);
        const kf_placed *bias = find_named(m, name);
        if (bias && bias->shape->rank == 2) return bias;
    }
    return NULL;
}

/* The bias of a stack has its outputs. */
static int vote_of_bias(const model_axes *m, const kf_placed *t)
{
    const kf_placed *bias = find_bias(m, t);
    const uint64_t out = bias ? bias->shape->dim[1] : 0;
    const int rows = dim_from_end(t->shape, 1) == out, cols = dim_from_end(t->shape, 0) == out;
    return !bias || rows == cols ? 0 : cols ? OUT_LAST : IN_LAST;
}

/* gate_up and down of one layer: [2 n, h] and [h, n], or [h, 2 n] and [n, h]. */
static int vote_of_pair(const kf_placed *up, const kf_placed *down)
{
    const uint64_t parts = up->place->piece == KERF_PIECE_GATE_UP ? 2 : 1;
    const uint64_t a = dim_from_end(up->shape, 1), b = dim_from_end(up->shape, 0);
    const uint64_t c = dim_from_end(down->shape, 1), d = dim_from_end(down->shape, 0);
    const int straight = b == c && a % parts == 0 && a / parts == d;
    const int turned = a == d && b % parts == 0 && b / parts == c;
    return turned - straight;
}

static int same_layer(const kf_placed *a, const kf_placed *b)
{
    return strncmp(a->name, b->name, a->place->piece_at) == 0;
}

/* The stacks of one layer are all in one order: what is known of one is known of the others. */
static int vote_of_layer(const model_axes *m, size_t first, size_t end)
{
    int votes = 0;
    for (size_t i = first; i < end; i++) {
        const kf_placed *t = &m->list[i];
        if (!is_matrix_of_stack(t)) continue;
        votes += 2 * vote_of_bias(m, t) + vote_of_hidden(m, t);
        for (size_t k = first; k < end && k < first + 16; k++) {
            const kf_placed *down = &m->list[k];
            if (t->place->piece == KERF_PIECE_DOWN || down->place->piece != KERF_PIECE_DOWN ||
                !is_matrix_of_stack(down))
                continue;
            votes += vote_of_pair(t, down);
        }
    }
    return votes;
}

static kerf_orientation orientation_of(const model_axes *m, int votes)
{
    const kf_family *f = m->facts->family;
    if (votes == 0) votes = m->stacks;
    if (votes != 0) return votes > 0 ? KERF_IN_OUT : KERF_OUT_IN;
    if (f) return f->flags & KF_FAMILY_STACKS_TURNED ? KERF_IN_OUT : KERF_OUT_IN;
    return m->facts->is_described ? KERF_AXES_UNKNOWN : KERF_OUT_IN;
}

/* Calls for each run of stacks of one layer. */
static void for_layers(model_axes *m, void (*call)(model_axes *m, size_t first, size_t end))
{
    for (size_t i = 0, end; i < m->count; i = end) {
        for (end = i + 1; end < m->count && is_matrix_of_stack(&m->list[i]) &&
                          same_layer(&m->list[i], &m->list[end]);)
            end++;
        if (is_matrix_of_stack(&m->list[i])) call(m, i, end);
    }
}

static void count_layer(model_axes *m, size_t first, size_t end)
{
    const int votes = vote_of_layer(m, first, end);
    m->stacks += (votes > 0) - (votes < 0);
}

static void orient_layer(model_axes *m, size_t first, size_t end)
{
    const kf_family *f = m->facts->family;
    const kerf_orientation o = orientation_of(m, vote_of_layer(m, first, end));
    for (size_t i = first; i < end; i++) {
        kf_placed *t = &m->list[i];
        if (!is_matrix_of_stack(t)) continue;
        t->place->orientation = o;
        if (t->place->piece == KERF_PIECE_GATE_UP)
            t->place->alternates =
                f ? (f->flags & KF_FAMILY_ALTERNATES) != 0 : find_bias(m, t) != NULL;
    }
}

/* Of experts that stand one behind the other, only down is ever turned. */
static void orient_rows(const model_axes *m, kf_placed *t)
{
    const kf_family *f = m->facts->family;
    const uint64_t rows = t->shape->dim[0] / m->experts, cols = t->shape->dim[1];
    if (t->place->piece != KERF_PIECE_DOWN) return;
    if (m->hidden && (rows == m->hidden) != (cols == m->hidden))
        t->place->orientation = cols == m->hidden ? KERF_IN_OUT : KERF_OUT_IN;
    else
        t->place->orientation =
            f && f->flags & KF_FAMILY_STACKS_TURNED ? KERF_IN_OUT : KERF_AXES_UNKNOWN;
}

/* --- towers -------------------------------------------------------------------------------- */

static int is_product(const kerf_place *p)
{
    return p->role == KERF_ROLE_ATTENTION || p->role == KERF_ROLE_MLP ||
           p->role == KERF_ROLE_EXPERT || p->role == KERF_ROLE_SHARED_EXPERT ||
           p->role == KERF_ROLE_STATE_SPACE;
}

static int is_of_language(const char *name)
{
    kf_parts n;
    kf_parts_cut(name, &n);
    return kf_parts_around(&n, "language_model|llm") >= 0;
}

/* Layers beside those of a part that is called the language model are another model's, whatever
 * that is: no table knows them. */
static void find_towers(const model_axes *m)
{
    const kf_family *f = m->facts->family;
    int has_language = 0;
    if (f && f->flags & KF_FAMILY_ONE_TOWER) return;
    for (size_t i = 0; i < m->count && !has_language; i++)
        has_language = is_product(m->list[i].place) && is_of_language(m->list[i].name);
    for (size_t i = 0; has_language && i < m->count; i++) {
        kerf_place *p = m->list[i].place;
        if (is_product(p) && !is_of_language(m->list[i].name))
            *p = (kerf_place){.role = KERF_ROLE_OTHER, .layer = p->layer};
    }
}

void kf_places_find(const kf_facts *f, kf_placed *list, size_t count)
{
    model_axes m = {.facts = f, .list = list, .count = count};
    if (count == 0) return;
    for (size_t i = 0; i < count; i++) kf_place_name(f, list[i].name, list[i].shape, list[i].place);
    qsort(list, count, sizeof *list, by_name);
    find_towers(&m);
    find_sizes(&m);
    for (size_t i = 0; i < count; i++) find_stack(&m, &list[i]);
    orient_matrices(&m);
    for_layers(&m, count_layer);
    for_layers(&m, orient_layer);
    for (size_t i = 0; i < count; i++)
        if (list[i].place->stack == KERF_STACK_ROWS) orient_rows(&m, &list[i]);
}
