/* importance.c - finds the entry of a weight in an imatrix, whichever of three forms that has, and
 * turns its sums into one number per column. */
#include <kerf/importance.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "file/gguf/imatrix_dat.h"
#include "layout/arranging.h"

#define IN_SUM2 ".in_sum2"
#define COUNTS ".counts"
#define COUNT ".count"

/* --- which entry -------------------------------------------------------------------------------
 */

/* The tensors of an entry. means: the values are means already, and the divisor, which may be NULL,
 * is the number of tokens behind each. */
typedef struct entry {
    const kerf_tensor *values, *divisor;
    int means, calls; /* calls: the divisor counts calls, and 0 says that values are means */
    uint64_t singles; /* not 0: of the first of so many experts, each of which has such an entry */
    size_t form;
} entry;

static const struct {
    const char *values, *divisor;
} forms[] = {{"", COUNT}, {IN_SUM2, COUNTS}, {KF_IMATRIX_VALUES, KF_IMATRIX_CALLS}};
#define FORMS (sizeof forms / sizeof *forms)

static int find_named(const kerf_reader *r, const char *name, size_t form, entry *out)
{
    char text[KERF_MAX_NAME_BYTES + 32];
    snprintf(text, sizeof text, "%s%s", name, forms[form].values);
    out->values = kerf_reader_find(r, text);
    if (!out->values) return 0;
    snprintf(text, sizeof text, "%s%s", name, forms[form].divisor);
    out->divisor = kerf_reader_find(r, text);
    out->means = form == 0;
    out->calls = form == 2;
    return out->means || out->divisor != NULL;
}

/* The entry of one of the experts of a stack. */
static int find_single(const kerf_reader *r, const kerf_weight *w, uint64_t expert, size_t form,
                       entry *out)
{
    char name[KERF_MAX_NAME_BYTES + 32];
    kf_stacked_name(w, expert, name, sizeof name);
    return find_named(r, name, form, out);
}

static int find_singles(const kerf_reader *r, const kerf_weight *w, uint64_t count, size_t form,
                        entry *out)
{
    for (uint64_t k = count; k-- > 0;)
        if (!find_single(r, w, k, form, out)) return 0;
    out->singles = count;
    out->form = form;
    return 1;
}

static int first_number(const char *name)
{
    const char *digit = name + strcspn(name, "0123456789");
    return *digit ? (int)strtol(digit, NULL, 10) : -1;
}

/* A piece whose input is that of a merged matrix. */
static kerf_piece part_of(kerf_piece p)
{
    return p == KERF_PIECE_GATE_UP                     ? KERF_PIECE_UP
           : p == KERF_PIECE_QKV || p == KERF_PIECE_KV ? KERF_PIECE_K
                                                       : p;
}

/* Whether an entry of this name is that of the weight. */
static int is_place_of(const char *name, const kerf_weight *w, int exactly)
{
    const kerf_place *a = &w->place;
    kerf_place b;
    const kerf_shape shape = w->shape;
    if (a->layer >= 0 && first_number(name) != a->layer) return 0;
    kerf_place_find(NULL, name, &shape, &b);
    const kerf_piece piece = exactly ? a->piece : part_of(a->piece);
    return a->role == b.role && piece == b.piece && a->layer == b.layer &&
           (a->piece != KERF_PIECE_NONE || a->role == KERF_ROLE_HEAD);
}

static int find_placed(const kerf_reader *r, const kerf_weight *w, int exactly, entry *out)
{
    char name[KERF_MAX_NAME_BYTES + 32];
    for (size_t i = 0; i < kerf_reader_count(r); i++) {
        const kerf_tensor *t = kerf_reader_at(r, i);
        for (size_t form = 1; form < FORMS; form++) {
            if (!kf_has_suffix(t->name, forms[form].values)) continue;
            snprintf(name, sizeof name, "%.*s", (int)(strlen(t->name) - strlen(forms[form].values)),
                     t->name);
            if (kf_has_suffix(name, ".weight") && is_place_of(name, w, exactly))
                return find_named(r, name, form, out);
        }
    }
    return 0;
}

static int find_entry(const kerf_checkpoint *imatrix, const kerf_weight *w, entry *out)
{
    const kerf_reader *r = kerf_checkpoint_reader(imatrix);
    const uint64_t singles = kf_stacked_singles(w);
    *out = (entry){0};
    for (size_t form = 0; form < FORMS; form++) {
        if (find_named(r, w->name, form, out)) return 1;
        if (singles ? find_singles(r, w, singles, form, out)
                    : w->whole && find_named(r, w->whole, form, out))
            return 1;
    }
    if (!kf_has_suffix(w->name, ".weight") && w->place.experts == 0 && !w->whole) return 0;
    return find_placed(r, w, 1, out) || find_placed(r, w, 0, out);
}

int kerf_importance_names(const kerf_checkpoint *imatrix, const kerf_weight *w)
{
    entry e;
    return imatrix && find_entry(imatrix, w, &e);
}

/* --- its numbers -------------------------------------------------------------------------------
 */

/* What an entry has for `experts` matrices of `columns` each. */
typedef struct sums {
    uint64_t columns, experts, divisors;
    float *value, *divisor;
} sums;

static kerf_status fail_shape(const kerf_checkpoint *imatrix, const kerf_weight *w, const sums *s,
                              kerf_error *err)
{
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                   "%.200s: %.200s must be F32 [%llu], one value per column",
                   kerf_checkpoint_path(imatrix), w->name, (unsigned long long)s->columns);
}

/* Errors times what is larger leave the range of F32, and weights become anything. */
#define LARGEST 1e30f

static kerf_status read_floats(const kerf_checkpoint *imatrix, const kerf_tensor *t, float **out,
                               kerf_error *err)
{
    const uint64_t n = t->bytes / 4;
    KF_TRY(kf_allocate(out, (size_t)n, sizeof **out, err));
    KF_TRY(kerf_reader_read(kerf_checkpoint_reader(imatrix), t, 0, *out, (size_t)t->bytes, err));
    if (t->dtype == KERF_I32)
        for (uint64_t i = 0; i < n; i++) {
            int32_t v;
            memcpy(&v, *out + i, sizeof v);
            (*out)[i] = (float)v;
        }
    for (uint64_t i = 0; i < n; i++) {
        if ((*out)[i] >= 0 && (*out)[i] <= LARGEST) continue;
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "%.200s: %.200s: value %llu is negative, not finite, or above 1e30, which "
                       "is no sum of squares of a model",
                       kerf_checkpoint_path(imatrix), t->name, (unsigned long long)i);
    }
    return KERF_OK;
}

static kerf_status read_sums(const kerf_checkpoint *imatrix, const kerf_weight *w, const entry *e,
                             sums *s, kerf_error *err)
{
    const kerf_tensor *t = e->values;
    uint64_t n;
    s->columns = kf_last_dim(&w->shape);
    KF_TRY(kerf_shape_count(&t->shape, &n, err));
    const int other = e->means && (t->shape.rank == 0 || t->shape.rank > 2 ||
                                   t->shape.dim[t->shape.rank - 1] != s->columns);
    if (t->dtype != KERF_F32 || t->block_type || s->columns == 0 || n == 0 || n % s->columns != 0 ||
        other)
        return fail_shape(imatrix, w, s, err);
    s->experts = n / s->columns;
    KF_TRY(read_floats(imatrix, t, &s->value, err));
    if (!e->divisor) return KERF_OK;
    const kerf_dtype type = e->divisor->dtype;
    s->divisors = e->divisor->bytes / 4;
    if ((type != KERF_F32 && type != KERF_I32) || e->divisor->block_type ||
        (s->divisors != 1 && s->divisors != s->experts))
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s: %.200s: not one number per expert",
                       kerf_checkpoint_path(imatrix), e->divisor->name);
    KF_TRY(read_floats(imatrix, e->divisor, &s->divisor, err));
    for (uint64_t i = 0; e->calls && i < s->divisors; i++)
        if (s->divisor[i] == 0) s->divisor[i] = 1;
    for (uint64_t i = 0; e->means && i < n; i++) /* sums, so that experts can be put together */
        s->value[i] *= s->divisor[s->divisors == 1 ? 0 : i / s->columns];
    return KERF_OK;
}

static void free_sums(sums *s)
{
    free(s->value);
    free(s->divisor);
    *s = (sums){0};
}

/* The entries of experts one by one, as one of their stack. */
static kerf_status read_singles(const kerf_checkpoint *imatrix, const kerf_weight *w,
                                const entry *e, sums *s, kerf_error *err)
{
    const uint64_t columns = kf_last_dim(&w->shape);
    uint64_t n;
    if (!kf_mul_ok(e->singles, columns, &n)) return fail_shape(imatrix, w, s, err);
    *s = (sums){.columns = columns, .experts = e->singles, .divisors = e->singles};
    KF_TRY(kf_allocate(&s->value, (size_t)n, sizeof *s->value, err));
    KF_TRY(kf_allocate(&s->divisor, (size_t)e->singles, sizeof *s->divisor, err));
    for (uint64_t k = 0; k < e->singles; k++) {
        sums one = {0};
        entry of = {0};
        (void)find_single(kerf_checkpoint_reader(imatrix), w, k, e->form, &of);
        kerf_status status = read_sums(imatrix, w, &of, &one, err);
        if (status == KERF_OK && one.experts != 1) status = fail_shape(imatrix, w, s, err);
        if (status == KERF_OK) {
            memcpy(s->value + k * columns, one.value, columns * sizeof *one.value);
            s->divisor[k] = one.divisor ? one.divisor[0] : 1;
        }
        free_sums(&one);
        if (status != KERF_OK) return status;
    }
    return KERF_OK;
}

static float divisor_of(const sums *s, uint64_t expert)
{
    return s->divisor ? s->divisor[s->divisors == 1 ? 0 : expert] : 1;
}

/* llama.cpp's rule for what saw no token: all columns count the same. */
static float mean(float sum, float count)
{
    return count > 0 ? sum / count : 1;
}

/* All experts as one. */
static void take_together(const sums *s, float *out)
{
    float count = 0;
    for (uint64_t e = 0; e < s->experts; e++) count += divisor_of(s, e);
    for (uint64_t k = 0; k < s->columns; k++) {
        float sum = 0;
        for (uint64_t e = 0; e < s->experts; e++) sum += s->value[e * s->columns + k];
        out[k] = mean(sum, count);
    }
}

/* What is 0 in every column says nothing, and weights would all become zeros by it: the same rule.
 */
static void fill_unknown(kerf_importance *i, uint64_t columns)
{
    for (uint64_t at = 0; at < i->count; at += columns) {
        uint64_t zeros = 0;
        while (zeros < columns && i->value[at + zeros] == 0) zeros++;
        for (uint64_t k = 0; zeros == columns && k < columns; k++) i->value[at + k] = 1;
    }
}

static kerf_status take_values(const kerf_checkpoint *imatrix, const kerf_weight *w, const sums *s,
                               int together, kerf_importance *out, kerf_error *err)
{
    uint64_t matrices = 1, first = 0, experts = s->experts, expert = 0;
    for (unsigned i = 0; i + 2 < w->shape.rank; i++) matrices *= w->shape.dim[i];
    const int is_one = matrices == 1 && s->experts > 1 && kf_before_expert(w->name, &expert);
    if (is_one && expert < s->experts) {
        first = expert;
        experts = 1;
    } else if (s->experts != 1 && s->experts != matrices) {
        return fail_shape(imatrix, w, s, err);
    }
    const int fold = together && experts > 1;
    out->count = fold ? s->columns : experts * s->columns;
    KF_TRY(kf_allocate(&out->value, (size_t)out->count, sizeof *out->value, err));
    if (fold) take_together(s, out->value);
    for (uint64_t i = 0; !fold && i < out->count; i++) {
        const uint64_t e = first + i / s->columns;
        out->value[i] = mean(s->value[e * s->columns + i % s->columns], divisor_of(s, e));
    }
    fill_unknown(out, s->columns);
    return KERF_OK;
}

kerf_status kerf_importance_read(const kerf_checkpoint *imatrix, const kerf_weight *w, int together,
                                 kerf_importance *out, kerf_error *err)
{
    entry e;
    sums s = {0};
    *out = (kerf_importance){0};
    if (!imatrix || !find_entry(imatrix, w, &e)) return KERF_OK;
    kerf_status status =
        e.singles ? read_singles(imatrix, w, &e, &s, err) : read_sums(imatrix, w, &e, &s, err);
    if (status == KERF_OK) status = take_values(imatrix, w, &s, together, out, err);
    free_sums(&s);
    if (status != KERF_OK) kerf_importance_free(out);
    return status;
}

void kerf_moments_again(kerf_moments *m)
{
    m->again = 1;
    m->contents ^= 0x6161676169616e73; /* any number but 0 */
    if (m->contents == 0) m->contents = 1;
}

void kerf_importance_free(kerf_importance *i)
{
    free(i->value);
    *i = (kerf_importance){0};
}
