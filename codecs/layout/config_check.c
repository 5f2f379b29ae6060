/* config_check.c - config.json against the tensors of a folder. Loaders trust the file: what it
 * says of bits, groups and layers decides how the bytes are read.
 *
 * Patterns in the file come from anybody: matching one takes no longer than its length times that
 * of a name. */
#include "layout/config_check.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "file/json/json_read.h"
#include "layout/config_file.h"
#include "layout/config_table.h"
#include "layout/layout.h"

typedef struct context {
    const kerf_reader *reader;
    const kerf_weights *weights;
    kf_configured of; /* the same weights, in the layout that config.json names */
    const kf_config_file *file;
    const json_t *q; /* what the file says of quantization */
    void (*found)(void *ctx, const char *where, const char *text);
    void *ctx;
    kerf_error *err;
} context;

static void add(const context *x, const kerf_weight *w, const char *text)
{
    x->found(x->ctx, w->name, text);
}

/* --- numbers of a format ------------------------------------------------------------------- */

static void check_formats(const context *x)
{
    const kerf_format *last = NULL;
    char text[200], format[64];
    for (size_t i = 0; i < x->of.count; i++) {
        const kerf_weight *w = &x->of.weights[i];
        if (!w->codec.format || w->layout != x->of.layout || w->codec.format == last) continue;
        last = w->codec.format;
        const char *key = kf_config_contradiction(x->file->key, x->q, &x->of, last);
        if (!key) continue;
        snprintf(text, sizeof text,
                 "is %s, but %s in %s says otherwise: loaders will read other numbers",
                 kerf_codec_name(w->codec, format, sizeof format), key, x->file->name);
        add(x, w, text);
        return;
    }
}

/* --- layers that are not quantized --------------------------------------------------------- */

/* Counted repetitions multiply what has to be compiled, and references to groups make matching a
 * search: such patterns, and long ones, are not tried. No real one is long or has either. */
static int is_tame(const char *pattern)
{
    size_t i = 0;
    for (; pattern[i]; i++) {
        if (i == 500 || pattern[i] == '{') return 0;
        if (pattern[i] != '\\') continue;
        if (pattern[i + 1] >= '0' && pattern[i + 1] <= '9') return 0;
        i += pattern[i + 1] != 0;
    }
    return 1;
}

static int matches_regex(const char *pattern, const char *name)
{
    regex_t compiled;
    regmatch_t at;
    if (!is_tame(pattern) || regcomp(&compiled, pattern, REG_EXTENDED) != 0)
        return 1; /* so that nothing is reported that may be right */
    int found = regexec(&compiled, name, 1, &at, 0) == 0 && at.rm_so == 0;
    regfree(&compiled);
    return found;
}

/* '*' and '?' as in a shell; the last '*' alone is ever tried again. */
static int matches_glob(const char *pattern, const char *name)
{
    const char *star = NULL, *from = NULL;
    while (*name) {
        if (*pattern == '*') {
            star = ++pattern;
            from = name;
        } else if (*pattern == '?' || *pattern == *name) {
            pattern++;
            name++;
        } else if (star) {
            pattern = star;
            name = ++from;
        } else {
            return 0;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == 0;
}

/* Every way that some loader of these lists has. */
static int is_kept(const json_t *list, const char *module)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        const char *pattern = json_string_value(item), *last = strrchr(module, '.');
        if (!pattern) continue;
        size_t n = strlen(pattern);
        if (strncmp(pattern, "re:", 3) == 0 && matches_regex(pattern + 3, module)) return 1;
        if (strncmp(module, pattern, n) == 0 && (module[n] == 0 || module[n] == '.')) return 1;
        if (matches_glob(pattern, module) || (last && strcmp(last + 1, pattern) == 0)) return 1;
    }
    return 0;
}

static int is_named(const json_t *list, const char *module)
{
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        const char *name = json_string_value(item);
        if (name && strcmp(name, module) == 0) return 1;
    }
    return 0;
}

/* "a.12.b" -> "a.#.b": the same layer anywhere in the model. */
static void generalize(const char *name, char *out)
{
    for (; *name; name++) {
        int digit = *name >= '0' && *name <= '9';
        if (!digit) *out++ = *name;
        if (digit && !(name[1] >= '0' && name[1] <= '9')) *out++ = '#';
    }
    *out = 0;
}

static int module_of(const kerf_weight *w, char *out)
{
    size_t n = strlen(w->name);
    if (!kf_has_suffix(w->name, ".weight") || w->shape.rank != 2 || n > KERF_MAX_NAME_BYTES)
        return 0;
    snprintf(out, KERF_MAX_NAME_BYTES, "%.*s", (int)(n - strlen(".weight")), w->name);
    return 1;
}

static kerf_status check_kept(const context *x)
{
    const json_t *list = kf_config_kept(x->q);
    json_t *quantized = json_object(); /* layers, with # for numbers */
    char module[KERF_MAX_NAME_BYTES + 1], layer[KERF_MAX_NAME_BYTES + 1], text[256];
    int ok = quantized != NULL;
    for (size_t i = 0; ok && list && i < x->of.count; i++) {
        const kerf_weight *w = &x->of.weights[i];
        if (!w->codec.format || !module_of(w, module)) continue;
        generalize(module, layer);
        ok = json_object_set_new(quantized, layer, json_true()) == 0;
        if (!is_named(list, module)) continue;
        snprintf(text, sizeof text, "is quantized, but %s lists it among the layers that are not",
                 x->file->name);
        add(x, w, text);
        break;
    }
    for (size_t i = 0; ok && list && i < x->of.count; i++) {
        const kerf_weight *w = &x->of.weights[i];
        if (w->codec.format || !module_of(w, module)) continue;
        generalize(module, layer);
        if (!json_object_get(quantized, layer) || is_kept(list, module)) continue;
        snprintf(text, sizeof text,
                 "is not quantized as its like in other layers are, and %s does not list "
                 "it: loaders will look for its codes",
                 x->file->name);
        add(x, w, text);
        break;
    }
    json_decref(quantized);
    return ok ? KERF_OK : kf_fail(x->err, KERF_E_NOMEM, KF_NOWHERE, "no memory for layers");
}

/* --- scales of inputs ---------------------------------------------------------------------- */

static void check_inputs(const context *x)
{
    char name[KERF_MAX_NAME_BYTES + 64], module[KERF_MAX_NAME_BYTES + 1], text[256];
    const kf_config_rules *rules = &kf_config_table[x->of.layout - kf_layouts];
    const char *key = NULL, *suffix = NULL;
    const kerf_weight *first = NULL;
    size_t missing = 0;
    for (size_t i = 0; rules->input && i < x->of.count; i++) {
        const kerf_weight *w = &x->of.weights[i];
        if (!w->codec.format || w->layout != x->of.layout || !module_of(w, module)) continue;
        const char *asked = rules->input(x->q, w->codec.format, &key);
        if (!asked) continue;
        snprintf(name, sizeof name, "%s.%s", module, asked);
        if (kerf_weights_find(x->weights, name)) continue;
        if (missing++ > 0) continue;
        first = w;
        suffix = asked;
    }
    if (missing == 0) return;
    snprintf(text, sizeof text,
             "has no %s, as %zu layer%s: %s in %s asks for one in each, and loaders take "
             "0 or NaN without",
             suffix, missing, missing == 1 ? "" : "s", key, x->file->name);
    add(x, first, text);
}

/* --- embeddings ---------------------------------------------------------------------------- */

/* vLLM looks rows up in integers of compressed-tensors where a group says that they are some. */
static int is_told(const context *x, const kerf_weight *w)
{
    char module[KERF_MAX_NAME_BYTES + 1];
    const kf_stored *s = kf_stored_find(w->layout, w->codec.format);
    const char *name;
    const json_t *group;
    if (!s || strcmp(s->scheme, "pack-quantized") != 0 || !module_of(w, module)) return 0;
    json_object_foreach(json_object_get(x->q, "config_groups"), name, group)
    {
        const json_t *targets = json_object_get(group, "targets");
        if (is_named(targets, "Embedding") || is_named(targets, "VocabParallelEmbedding") ||
            is_kept(targets, module))
            return 1;
    }
    return 0;
}

static void check_tables(const context *x)
{
    char text[256];
    for (size_t i = 0; i < x->of.count; i++) {
        const kerf_weight *w = &x->of.weights[i];
        if (!w->codec.format || kf_layout_holds(x->of.layout, w) || is_told(x, w)) continue;
        snprintf(
            text, sizeof text,
            "is a quantized %s, which loaders of layout %s do not look for: the model has none; "
            "kerf dequantize makes a source of it",
            kf_layout_lacks(x->of.layout, w), x->of.layout->name);
        add(x, w, text);
        return;
    }
}

/* --- all of it ----------------------------------------------------------------------------- */

/* Mixtures that config.json has no words for in this layout. */
static kerf_status check_mixture(const context *x)
{
    kerf_companion out[KERF_COMPANIONS];
    size_t count = 0;
    int written;
    kerf_error why = {.text = ""};
    /* stacks, and others that are read beside a layout, may be in formats that it does not have */
    for (size_t i = 0; i < x->of.count; i++)
        if (x->of.weights[i].codec.format &&
            !kerf_layout_scheme(x->of.layout, x->of.weights[i].codec.format, &written))
            return KERF_OK;
    kerf_status s = kerf_layout_companions(x->of.layout, x->reader, x->of.weights, x->of.count, out,
                                           &count, &why);
    kerf_companions_free(out, count);
    if (s == KERF_E_NOSUP) x->found(x->ctx, "config.json", why.text);
    if (s == KERF_E_NOMEM) return kf_fail(x->err, s, KF_NOWHERE, "%s", why.text);
    return KERF_OK; /* what else is wrong has been found before */
}

/* The first quantized weight that is not in the layout that config.json names; NULL: none. */
static const kerf_weight *find_unlike(const context *x)
{
    for (size_t i = 0; i < x->of.count; i++) {
        const kerf_weight *w = &x->of.weights[i];
        if (!w->codec.format || w->layout == x->of.layout) continue;
        /* stacks belong to whichever layout config.json names */
        if (x->of.layout && kf_is_stacks(w->layout)) continue;
        if (x->of.layout == &kf_layouts[KF_LAYOUT_COMPRESSED_TENSORS] &&
            w->layout == &kf_layouts[KF_LAYOUT_CT_WORDS])
            continue;
        if (x->of.layout || w->layout != kerf_layout_at(0)) return w;
    }
    return NULL;
}

/* What a file of the folder holds; *out NULL: it is not there, or is damaged, which is a finding.
 */
static kerf_status load(const context *x, const char *name, json_t **out)
{
    kerf_error why = {.text = ""};
    const kerf_status s = kf_config_load(x->reader, name, out, &why);
    if (s != KERF_E_DATA) {
        if (s != KERF_OK && x->err) *x->err = why;
        return s;
    }
    const char *at = strstr(why.text, name); /* without the path */
    const char *rest = at ? at + strlen(name) : why.text;
    char text[sizeof why.text + 32];
    if (at && rest[0] == ':' && rest[1] != ' ') /* a line */
        snprintf(text, sizeof text, "damaged in line %s", rest + 1);
    else
        snprintf(text, sizeof text, "%s", at ? rest + strlen(": ") : rest);
    x->found(x->ctx, name, text);
    return KERF_OK;
}

/* What one of the files says of quantization. */
static kerf_status check_file(context *x, const kf_config_file *file, const json_t *whole)
{
    x->file = file;
    x->q = strcmp(file->name, "config.json") == 0 ? kf_config_quantization(whole, NULL)
                                                  : json_object_get(whole, file->member);
    if (!json_is_object(x->q)) return KERF_OK;
    if (file->key) check_formats(x);
    if (file == kf_config_table[x->of.layout - kf_layouts].file) check_tables(x);
    KF_TRY(check_kept(x));
    check_inputs(x);
    return KERF_OK;
}

static kerf_status check_files(context *x, const json_t *config, const json_t *older)
{
    const kf_config_file *file = kf_config_table[x->of.layout - kf_layouts].file;
    KF_TRY(check_file(x, &file[0], config));
    if (file[1].name && file[1].member) KF_TRY(check_file(x, &file[1], older));
    return check_mixture(x);
}

/* FP8 in tiles says how large they are. Without that loaders of quant_method "fp8" take one scale
 * for each matrix, under names that other layouts have too. */
static int is_untiled(const context *x, const json_t *config, const kerf_weight *w)
{
    const kerf_group_kind kind = w->codec.format->geometry;
    const json_t *q = kf_config_quantization(config, NULL);
    return x->of.layout == &kf_layouts[KF_LAYOUT_DEEPSEEK] &&
           w->codec.format->element == KERF_ELEM_E4M3 &&
           (kind == KERF_GROUP_TENSOR || kind == KERF_GROUP_ROW) &&
           !json_is_array(json_object_get(q, "weight_block_size"));
}

/* Two that say different things: which one counts is for each loader to choose. */
static void check_single(const context *x, const json_t *config)
{
    char text[256];
    const char *nest;
    kf_config_quantization(config, &nest);
    if (!nest) return;
    snprintf(text, sizeof text,
             "has a second quantization_config in %s, which says something else: loaders take the "
             "one or the other; what kerf convert, quantize and dequantize write has one at most",
             nest);
    x->found(x->ctx, "config.json", text);
}

static kerf_status check_all(context *x, const json_t *config, const json_t *older)
{
    char text[200], method[32];
    const kerf_weight *unlike = find_unlike(x);
    size_t quantized = 0;
    for (size_t i = 0; i < x->of.count; i++) quantized += x->of.weights[i].codec.format != NULL;
    if (!unlike) return x->of.layout && quantized > 0 ? check_files(x, config, older) : KERF_OK;
    if (!x->of.layout && kf_config_foreign(x->reader, method, sizeof method))
        return KERF_OK; /* whose loader has such tensors too */
    if (is_untiled(x, config, unlike))
        return check_file(x, kf_config_table[KF_LAYOUT_DEEPSEEK].file, config);
    snprintf(text, sizeof text,
             "is in layout %s, but config.json names %s: loaders will refuse it "
             "or read other numbers",
             unlike->layout->name, x->of.layout ? x->of.layout->name : "none");
    add(x, unlike, text);
    return KERF_OK;
}

kerf_status kf_config_check(const kerf_reader *r, const kerf_weights *w,
                            void (*found)(void *ctx, const char *where, const char *text),
                            void *ctx, kerf_error *err)
{
    context x = {.reader = r, .weights = w, .found = found, .ctx = ctx, .err = err};
    json_t *config = NULL, *older = NULL;
    if (!kerf_reader_is_folder(r)) return KERF_OK;
    x.of.weights = kerf_weights_at(w, 0);
    x.of.count = kerf_weights_count(w);
    KF_TRY(kerf_layout_configured(r, &x.of.layout, err));
    kerf_status s = load(&x, "config.json", &config);
    if (s == KERF_OK) s = load(&x, "hf_quant_config.json", &older);
    if (s == KERF_OK) check_single(&x, config);
    if (s == KERF_OK) s = check_all(&x, config, older);
    json_decref(config);
    json_decref(older);
    return s;
}
