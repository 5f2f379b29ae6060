/* plan_notes.c - what a plan says besides its decisions: what it could not tell, in one line each.
 */
#include "model/plan_notes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base.h"
#include "file/disk/io.h"
#include "file/json/json_read.h"
#include "file/json/text.h"
#include "file/read/reader.h"
#include "file/write/companions.h"
#include "layout/block_weights.h"
#include "layout/config_file.h"
#include "layout/config_table.h"
#include "layout/foreign.h"
#include "roles/facts.h"

enum { NAMED = 4 }; /* tensors that a note names */

kerf_status kf_notes_add(kf_notes *n, kf_text *t, kerf_error *err)
{
    if (!t->failed && n->count < KF_NOTES_MOST) {
        n->note[n->count++] = t->p;
        return KERF_OK;
    }
    free(t->p);
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for a plan");
}

typedef struct tensor_list {
    size_t count;
    const char *name[NAMED];
} tensor_list;

static void add_name(tensor_list *l, const char *name)
{
    if (l->count < NAMED) l->name[l->count] = name;
    l->count++;
}

static kerf_status add_list(kf_notes *n, const tensor_list *l, const char *what, kerf_error *err)
{
    kf_text t = {0};
    if (l->count == 0) return KERF_OK;
    kf_text_add(&t, "%zu tensor%s %s: ", l->count, l->count == 1 ? "" : "s", what);
    for (size_t i = 0; i < l->count && i < NAMED; i++)
        kf_text_add(&t, "%s%.200s", i ? ", " : "", l->name[i]);
    if (l->count > NAMED) kf_text_add(&t, " and %zu more", l->count - NAMED);
    return kf_notes_add(n, &t, err);
}

static kerf_status note_roles(kf_notes *n, const kf_decisions *d, kerf_error *err)
{
    tensor_list kept = {0}, taken = {0}, blocks = {0};
    for (size_t i = 0; i < d->count; i++) {
        const kerf_weight *w = d->item[i].weight;
        if (kf_undecoded_type(w)) add_name(&blocks, w->name);
        if (w->place.role != KERF_ROLE_OTHER || w->shape.rank < 2) continue;
        if (w->place.piece == KERF_PIECE_PARAMETER || !kerf_dtype_is_float(w->dtype)) continue;
        const int is_matrix = w->place.evidence == KERF_EVIDENCE_MATRIX;
        if (d->item[i].codec.format && is_matrix)
            add_name(&taken, w->name);
        else if (!d->item[i].codec.format && !is_matrix)
            add_name(&kept, w->name);
    }
    KF_TRY(add_list(n, &blocks,
                    "kept in blocks of a type that kerf does not decode (llama-quantize "
                    "--allow-requantize of llama.cpp makes F16 of them)",
                    err));
    KF_TRY(add_list(n, &kept, "of unknown role kept", err));
    return add_list(n, &taken,
                    "of unknown role quantized, for they are matrices and no config.json says of "
                    "which model",
                    err);
}

static int is_alike(const kerf_weight *a, const kerf_weight *b)
{
    const char *x = kf_foreign_form(a), *y = kf_foreign_form(b);
    return x && y ? strcmp(x, y) == 0 : !x && !y && a->codec.format == b->codec.format;
}

/* One line for each format that is decoded on the way in. */
static kerf_status note_decoded(kf_notes *n, const kf_decisions *d, kerf_error *err)
{
    const kerf_weight *first[4] = {NULL};
    size_t count[4] = {0}, kept[4] = {0}, kinds = 0, dropped = 0, smoothing = 0;
    for (size_t i = 0; i < d->count; i++) {
        const kerf_decision *one = &d->item[i];
        const kerf_weight *w = one->weight;
        size_t k = 0;
        if (one->dropped && kf_has_suffix(w->name, ".pre_quant_scale"))
            smoothing++;
        else
            dropped += (size_t)one->dropped;
        const char *form = kf_foreign_form(w);
        if (!form && (!w->decoded || !(one->codec.format || one->decoded))) continue;
        while (k < kinds && !is_alike(first[k], w)) k++;
        if (k == 4) continue;
        if (k == kinds) first[kinds++] = w;
        count[k]++;
        kept[k] += one->decoded && !one->codec.format;
    }
    for (size_t k = 0; k < kinds; k++) {
        const kerf_weight *w = first[k];
        char format[64];
        kf_text t = {0};
        kf_text_add(&t, "%zu tensor%s ", count[k], count[k] == 1 ? " is" : "s are");
        if (!w->codec.format && w->dtype == KERF_F64) {
            kf_text_add(&t, "rounded from F64 to F32 on the way in");
        } else {
            kf_text_add(&t, "decoded on the way in");
            if (w->codec.format ||
                kf_foreign_form(w)) /* else it was renamed for GGUF, and is dense from there on */
                kf_text_add(&t, " from %s", kerf_weight_format(w, format, sizeof format));
            if (w->codec.format && w->layout) kf_text_add(&t, " of layout %s", w->layout->name);
            kf_text_add(&t, ": errors count against the decoded weights");
        }
        if (kept[k]) {
            kf_text_add(&t, "; %zu of them %s kept, in %s", kept[k], kept[k] == 1 ? "is" : "are",
                        kerf_dtype_name(w->dtype));
            if (w->codec.format && kerf_layout_check(d->layout, w->codec.format, NULL) == KERF_OK)
                kf_text_add(&t, ": --tensor 'GLOB=%s' leaves them in that", w->codec.format->name);
        }
        KF_TRY(kf_notes_add(n, &t, err));
    }
    if (smoothing) {
        kf_text t = {0};
        kf_text_add(&t,
                    "%zu scale%s that inputs are multiplied by (pre_quant_scale) %s in the weights "
                    "now, whose columns are multiplied",
                    smoothing, smoothing == 1 ? "" : "s", smoothing == 1 ? "is" : "are");
        KF_TRY(kf_notes_add(n, &t, err));
    }
    if (!dropped) return KERF_OK;
    kf_text t = {0};
    kf_text_add(
        &t, "%zu scale%s of inputs or caches %s left out with the quantization that %s made for",
        dropped, dropped == 1 ? "" : "s", dropped == 1 ? "is" : "are",
        dropped == 1 ? "it was" : "they were");
    return kf_notes_add(n, &t, err);
}

/* What -f asked for and the layout cannot hold. One format is asked for, so that one stands in. */
static kerf_status note_unfit(kf_notes *n, const kf_decisions *d, kerf_error *err)
{
    tensor_list kept = {0}, merged = {0}, other = {0};
    const kerf_decision *last = NULL;
    char what[160];
    for (size_t i = 0; i < d->count; i++) {
        const kerf_decision *one = &d->item[i];
        if (!one->asked) continue;
        const int fits =
            kerf_layout_check_weight(d->layout, one->asked, one->weight, NULL) == KERF_OK;
        add_name(one->codec.format ? &other : fits ? &merged : &kept, one->weight->name);
        if (one->codec.format || !last) last = one;
    }
    if (other.count) {
        snprintf(what, sizeof what,
                 "in %s in place of %s, whose blocks do not fit their rows, as llama.cpp does it",
                 last->codec.format->name, last->asked->name);
        KF_TRY(add_list(n, &other, what, err));
    }
    if (!kept.count) return KERF_OK;
    snprintf(what, sizeof what, "kept, which layout %s cannot hold in %s", d->layout->name,
             last->asked->name);
    KF_TRY(add_list(n, &kept, what, err));
    return add_list(n, &merged, "kept with those, for runtimes make one matrix of them", err);
}

/* Weights can be used without them, so it is no failure. */
static kerf_status note_pointer(kf_notes *n, const kerf_reader *r, kerf_error *err)
{
    char name[128];
    const char *is = NULL;
    kf_text t = {0};
    if (!kerf_reader_is_folder(r)) return KERF_OK;
    KF_TRY(kf_find_pointer(kerf_reader_folder(r), name, sizeof name, &is, err));
    if (!is) return KERF_OK;
    kf_text_add(&t, "%.100s beside the weights is copied, but is %s", name, is);
    return kf_notes_add(n, &t, err);
}

/* Whether config.json says that the output head is the embedding: of all, or of the language model.
 */
static int is_tied(const json_t *config, unsigned depth)
{
    const json_t *tied = json_object_get(config, "tie_word_embeddings");
    int found = json_is_true(tied);
    for (int i = 0; !tied && depth > 0 && kf_language_nests[i]; i++)
        found |= is_tied(json_object_get(config, kf_language_nests[i]), depth - 1);
    return found;
}

/* A quantized head that no loader of the model asks for. */
static kerf_status note_tied(kf_notes *n, const kerf_reader *r, const kf_decisions *d,
                             kerf_error *err)
{
    const kerf_weight *head = NULL;
    json_t *config;
    kf_text t = {0};
    for (size_t i = 0; i < d->count; i++)
        if (d->item[i].codec.format && kf_has_suffix(d->item[i].weight->name, "lm_head.weight"))
            head = d->item[i].weight;
    if (!head || !kerf_reader_is_folder(r)) return KERF_OK;
    KF_TRY(kf_config_load_sound(r, "config.json", &config, err));
    const int found = is_tied(config, 2);
    json_decref(config);
    if (!found) return KERF_OK;
    kf_text_add(&t,
                "%.200s is quantized, but config.json ties it to the embedding: loaders take that "
                "in its place unless tie_word_embeddings is false there",
                head->name);
    return kf_notes_add(n, &t, err);
}

static kerf_status note_left_out(kf_notes *n, const kerf_reader *r, kerf_error *err)
{
    kf_text t = {0};
    if (!r->left_out) return KERF_OK;
    kf_text_add(&t, "%.200s lies beside the model with other tensors, which are not read",
                r->left_out);
    return kf_notes_add(n, &t, err);
}

kerf_status kf_notes_make(kf_notes *n, const kerf_checkpoint *source, const kf_decisions *d,
                          kerf_error *err)
{
    int known;
    const char *model = kerf_weights_model(kerf_checkpoint_weights(source), &known);
    if (model && !known) {
        kf_text t = {0};
        kf_text_add(&t,
                    "the model is a \"%.60s\", which kerf has no row for: roles follow from names "
                    "that many families share, and what those do not tell is kept",
                    model);
        KF_TRY(kf_notes_add(n, &t, err));
    }
    KF_TRY(note_left_out(n, source->reader, err));
    KF_TRY(note_pointer(n, source->reader, err));
    KF_TRY(note_tied(n, source->reader, d, err));
    KF_TRY(kf_notes_rules(n, d, err));
    KF_TRY(note_decoded(n, d, err));
    KF_TRY(note_unfit(n, d, err));
    return note_roles(n, d, err);
}

kerf_status kf_notes_feedback(kf_notes *n, size_t count, const char *first, kerf_error *err)
{
    kf_text t = {0};
    kf_text_add(&t,
                "%zu tensor%s quantized without error feedback, for the calibration has no second "
                "moments of them or their format takes none: %.200s%s",
                count, count == 1 ? " is" : "s are", first, count > 1 ? " and others" : "");
    return kf_notes_add(n, &t, err);
}

/* A folder beside the weights, not one that is reached through others. */
static int is_beside(const kerf_reader *r, const char *name)
{
    struct stat st;
    if (!name || !name[0] || name[0] == '.' || strchr(name, '/')) return 0;
    char *path = kf_path_join(kerf_reader_folder(r), name);
    const int found = path && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    free(path);
    return found;
}

static void add_folder(kf_text *t, size_t *count, const kerf_reader *r, const char *name)
{
    if (!is_beside(r, name) || (*count)++ >= NAMED) return;
    kf_text_add(t, " '%.600s/%.200s'", kerf_reader_folder(r), name);
}

/* What modules.json lists, as {"modules": [...]}; *out NULL: it is not there or says nothing. It is
 * copied as it is, so that what is wrong with it is found there. */
static kerf_status load_modules(const kerf_reader *r, json_t **out, kerf_error *err)
{
    char *path = kf_path_join(kerf_reader_folder(r), "modules.json"), *text = NULL;
    kf_text t = {0};
    size_t n = 0;
    *out = NULL;
    if (!path) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for modules.json");
    kerf_status s = kf_read_whole(path, KF_JSON_MAX_CONFIG_BYTES, &text, &n, NULL);
    if (s == KERF_OK) {
        kf_text_add(&t, "{\"modules\": ");
        kf_text_add_bytes(&t, text, n);
        kf_text_add(&t, "}");
        s = t.failed ? KERF_E_NOMEM
                     : kf_json_parse("modules.json", t.p, t.n, KF_JSON_PYTHON, out, NULL);
    }
    free(t.p);
    free(text);
    free(path);
    return s == KERF_E_NOMEM ? kf_fail(err, s, KF_NOWHERE, "no memory for modules.json") : KERF_OK;
}

static int is_file(const char *to)
{
    return to && (kf_has_suffix(to, ".safetensors") || kf_has_suffix(to, ".gguf") ||
                  kf_has_suffix(to, ".safetensors.zst"));
}

int kf_is_undeclared(const kf_manifest *m, const kerf_layout *l, const char *to)
{
    return !m->companions && kf_config_table[l - kf_layouts].file[0].key && !is_file(to);
}

kerf_status kf_notes_undeclared(kf_notes *n, const kerf_reader *r, const kf_manifest *m,
                                const kerf_layout *l, const char *to, kerf_error *err)
{
    kf_text t = {0};
    const int is_folder = kerf_reader_is_folder(r);
    if (!kf_is_undeclared(m, l, to) || (!to && !is_folder)) return KERF_OK;
    if (is_folder)
        kf_text_add(&t,
                    "%.600s has no config.json, where loaders look for how weights are quantized: "
                    "with that of the model beside the source, the output has one that says it",
                    kerf_reader_folder(r));
    else
        kf_text_add(&t,
                    "the output has no config.json, where loaders look for how weights are "
                    "quantized: with the folder of a model as the source, not one file of it, it "
                    "has one that says it");
    return kf_notes_add(n, &t, err);
}

/* As transformers 5 holds Mixtral: its own files, and save_pretrained, have the other names, which
 * vLLM's and SGLang's mixtral.py look for (make_expert_params_mapping of w1, w2, w3). */
kerf_status kf_notes_renamed(kf_notes *n, const kerf_checkpoint *source, const kerf_layout *l,
                             kerf_error *err)
{
    static const char held[] = ".mlp.experts.";
    kf_text t = {0};
    json_t *config;
    size_t i = 0, count = kerf_weights_count(source->weights);
    if (kerf_layout_experts(l) != KERF_EXPERTS_SINGLE) return KERF_OK;
    while (i < count && !strstr(kerf_weights_at(source->weights, i)->name, held)) i++;
    if (i == count) return KERF_OK;
    KF_TRY(kf_config_load_sound(source->reader, "config.json", &config, err));
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const int is_mixtral = type && strcmp(type, "mixtral") == 0;
    json_decref(config);
    if (!is_mixtral) return KERF_OK;
    kf_text_add(&t,
                "experts are called mlp.experts here, as transformers 5 holds Mixtral: vLLM and "
                "SGLang look for block_sparse_moe.experts.N.w1, w2 and w3 and will not load the "
                "output; the model's release has these names, and so has what save_pretrained "
                "writes");
    return kf_notes_add(n, &t, err);
}

/* Modules of sentence-transformers, and templates beside the one of a tokenizer. */
kerf_status kf_notes_subfolders(kf_notes *n, const kerf_reader *r, const char *to, kerf_error *err)
{
    kf_text list = {0}, t = {0};
    json_t *modules, *module;
    size_t i, count = 0;
    if (is_file(to) || !kerf_reader_is_folder(r)) return KERF_OK;
    KF_TRY(load_modules(r, &modules, err));
    json_array_foreach(json_object_get(modules, "modules"), i, module)
        add_folder(&list, &count, r, json_string_value(json_object_get(module, "path")));
    add_folder(&list, &count, r, "additional_chat_templates");
    json_decref(modules);
    if (!count) return KERF_OK;
    kf_text_add(&t,
                "%zu folder%s beside the weights, which loaders read, %s not copied: cp -r%s%s %s",
                count, count == 1 ? "" : "s", count == 1 ? "is" : "are", list.p ? list.p : "",
                count > NAMED ? " and others" : "", to ? to : "OUT");
    t.failed |= list.failed;
    free(list.p);
    return kf_notes_add(n, &t, err);
}

/* Infinite ones are what masks are made of. */
static int is_odd(const kerf_weight *w, unsigned seen)
{
    const int is_mask =
        w->place.role == KERF_ROLE_ATTENTION && w->place.piece == KERF_PIECE_PARAMETER;
    return (seen & KF_SAW_NAN) || ((seen & KF_SAW_INF) && !is_mask);
}

/* Norms and biases may be zero, and so may what a model adds to others. */
static int is_empty(const kerf_decision *d, unsigned seen)
{
    const kerf_weight *w = d->weight;
    const int is_table = w->place.role == KERF_ROLE_EMBEDDING || w->place.role == KERF_ROLE_HEAD;
    const int is_large = w->shape.rank > 1 && w->shape.dim[0] > 1;
    return (seen & KF_SAW_ZEROS) && (d->codec.format || (is_table && is_large));
}

kerf_status kf_notes_seen(kf_notes *n, const kf_decisions *d, const unsigned char *seen,
                          kerf_nan nan, kerf_error *err)
{
    tensor_list odd = {0}, made_finite = {0}, empty = {0}, unweighted = {0}, overflow = {0};
    for (size_t i = 0; i < d->count; i++) {
        tensor_list *found = d->item[i].codec.format ? &made_finite : &odd;
        if (is_odd(d->item[i].weight, seen[i])) add_name(found, d->item[i].weight->name);
        if (is_empty(&d->item[i], seen[i])) add_name(&empty, d->item[i].weight->name);
        if (seen[i] & KF_SAW_UNWEIGHTED) add_name(&unweighted, d->item[i].weight->name);
        if (seen[i] & KF_SAW_OVERFLOW) add_name(&overflow, d->item[i].weight->name);
    }
    KF_TRY(
        add_list(n, &overflow,
                 "with numbers above the range of their new type, or of its scales, which are Inf "
                 "now (what a model computes from there becomes NaN)",
                 err));
    KF_TRY(add_list(n, &unweighted,
                    "with groups of columns whose importance is 0 throughout, in which no error "
                    "counts and weights may become 0: an imatrix of more text counts them",
                    err));
    KF_TRY(add_list(n, &odd,
                    "kept with NaN or Inf, as the source has it (what a model computes from there "
                    "becomes NaN)",
                    err));
    KF_TRY(add_list(n, &made_finite,
                    nan == KERF_NAN_SATURATE
                        ? "quantized with NaN as 0 and Inf as the largest number of the source's "
                          "type, which formats that round it up have as Inf again (--nan zero has "
                          "none)"
                        : "quantized with NaN and Inf of the source as 0",
                    err));
    return add_list(n, &empty,
                    "of nothing but zeros in the source (a download that broke off leaves such)",
                    err);
}

void kf_notes_free(kf_notes *n)
{
    for (size_t i = 0; i < n->count; i++) free(n->note[i]);
    *n = (kf_notes){0};
}
