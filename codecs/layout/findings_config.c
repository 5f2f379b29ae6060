/* findings_config.c - config.json against the tensors of a folder. Loaders believe the file: what
 * it says of bits, groups and layers decides how the bytes are read. Patterns of a file are a
 * stranger's: nothing here takes longer than their length times that of a name. */
#include <errno.h>
#include "base/base.h"
#include <stdio.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>

#include "layout/findings_config.h"

typedef struct context {
    kerf_found found;
    void *ctx;
    const kerf_reader *reader;
    const kerf_weights *weights;
    const kerf_layout *layout;
    const char *file;
    const json_t *q; /* what it says of quantization */
} context;

static const kerf_weight *weight_at(const context *x, size_t i)
{
    return kerf_weights_at(x->weights, i);
}

static size_t weight_count(const context *x)
{
    return kerf_weights_count(x->weights);
}

static void add_error_at(const context *x, const char *name, const char *text)
{
    x->found(x->ctx, &(kerf_finding){KERF_ERROR, name, text});
}

static void add_error(const context *x, const kerf_weight *w, const char *text)
{
    add_error_at(x, w->name, text);
}

static int is_layout(const context *x, const char *name)
{
    return strcmp(x->layout->name, name) == 0;
}

/* Which has two layouts that differ in one word of config.json. */
static int is_compressed_tensors(const context *x)
{
    return strncmp(x->layout->name, "compressed-tensors", strlen("compressed-tensors")) == 0;
}

/* --- numbers of a format ------------------------------------------------------------------- */

static int differs(const json_t *object, const char *key, json_int_t wanted)
{
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) && json_integer_value(value) != wanted;
}

static const json_t *text_of(const json_t *object, const char *key, const char **out)
{
    const json_t *value = json_object_get(object, key);
    *out = json_string_value(value);
    return *out ? value : NULL;
}

/* Whether one group of a compressed-tensors file is of this format. */
static int group_fits(const json_t *group, const kerf_format *f)
{
    const json_t *w = json_object_get(group, "weights");
    const char *type;
    const int is_float = f->element == KERF_ELEM_E2M1 || f->element == KERF_ELEM_E4M3;
    if (!json_is_object(w) || differs(w, "num_bits", (json_int_t)f->bits)) return 0;
    if (text_of(w, "type", &type) && strcmp(type, is_float ? "float" : "int") != 0) return 0;
    if (f->geometry == KERF_GROUP_BLOCK && differs(w, "group_size", (json_int_t)f->group)) return 0;
    const json_t *symmetric = json_object_get(w, "symmetric");
    return !json_is_boolean(symmetric) || json_is_true(symmetric) == (f->zero == KERF_ZERO_NONE);
}

static int groups_fit(const json_t *q, const kerf_format *f)
{
    const char *key;
    json_t *group;
    json_t *groups = json_object_get(q, "config_groups");
    if (!json_is_object(groups)) return 1;
    json_object_foreach(groups, key, group)
    {
        if (group_fits(group, f)) return 1;
    }
    return 0;
}

/* Names in any case, as loaders compare them. The tensors of some schemes are also those of another
 * one, which quantizes activations too. */
static int algorithm_fits(const json_t *q, const char *scheme)
{
    static const struct {
        const char *scheme, *with_inputs;
    } same_tensors[] = {{"W4A16_NVFP4", "NVFP4"}, {"W8A16", "W8A8_SQ_PER_CHANNEL"}};
    const char *name;
    if (!text_of(q, "quant_algo", &name) || strcasecmp(name, "MIXED_PRECISION") == 0) return 1;
    for (size_t i = 0; i < sizeof same_tensors / sizeof *same_tensors; i++)
        if (strcmp(scheme, same_tensors[i].scheme) == 0 &&
            strcasecmp(name, same_tensors[i].with_inputs) == 0)
            return 1;
    return strcasecmp(name, scheme) == 0;
}

/* The key of quantization_config that contradicts a format, or NULL. */
static const char *contradiction(const context *x, const kerf_format *f)
{
    int written;
    const char *scheme = kerf_layout_scheme(x->layout, f, &written);
    const json_t *in_8 = json_object_get(x->q, "load_in_8bit");
    const json_t *sym = json_object_get(x->q, "sym");
    const json_t *sides = json_object_get(x->q, "weight_block_size");
    if (differs(x->q, "bits", (json_int_t)f->bits)) return "bits";
    if (f->geometry == KERF_GROUP_BLOCK && differs(x->q, "group_size", (json_int_t)f->group))
        return "group_size";
    if (f->geometry == KERF_GROUP_ROW && differs(x->q, "group_size", -1)) return "group_size";
    if (json_is_boolean(sym) && json_is_true(sym) != (f->zero == KERF_ZERO_NONE)) return "sym";
    if (json_is_boolean(in_8) && json_is_true(in_8) != (f->element == KERF_ELEM_S8))
        return "load_in_8bit";
    if (is_layout(x, "modelopt") && scheme && !algorithm_fits(x->q, scheme)) return "quant_algo";
    if (is_compressed_tensors(x) && !groups_fit(x->q, f)) return "config_groups";
    if (f->geometry == KERF_GROUP_TILE && json_is_array(sides) &&
        json_integer_value(json_array_get(sides, 0)) != (json_int_t)f->group)
        return "weight_block_size";
    return NULL;
}

static void check_formats(const context *x)
{
    const kerf_format *last = NULL;
    char text[200], format[64];
    for (size_t i = 0; i < weight_count(x); i++) {
        const kerf_weight *w = weight_at(x, i);
        if (!w->codec.format || w->layout != x->layout || w->codec.format == last) continue;
        last = w->codec.format;
        const char *key = contradiction(x, last);
        if (!key) continue;
        snprintf(text, sizeof text,
                 "is %s, but %s in %s says otherwise: loaders will read other numbers",
                 kerf_weight_format(w, format, sizeof format), key, x->file);
        add_error(x, w, text);
        return;
    }
}

/* --- layers that are not quantized --------------------------------------------------------- */

static const json_t *kept_list(const context *x)
{
    static const char *const keys[] = {"ignore", "exclude_modules", "modules_to_not_convert",
                                       "llm_int8_skip_modules", "ignored_layers"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *list = json_object_get(x->q, keys[i]);
        if (json_is_array(list)) return list;
    }
    return NULL;
}

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
        return 1; /* who knows */
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

static void check_kept(const context *x)
{
    const json_t *list = kept_list(x);
    json_t *quantized = json_object(); /* layers, with # for numbers */
    char module[KERF_MAX_NAME_BYTES + 1], layer[KERF_MAX_NAME_BYTES + 1], text[256];
    for (size_t i = 0; list && i < weight_count(x); i++) {
        const kerf_weight *w = weight_at(x, i);
        if (!w->codec.format || !module_of(w, module)) continue;
        generalize(module, layer);
        json_object_set_new(quantized, layer, json_true());
        if (!is_named(list, module)) continue;
        snprintf(text, sizeof text, "is quantized, but %s lists it among the layers that are not",
                 x->file);
        add_error(x, w, text);
        break;
    }
    for (size_t i = 0; list && i < weight_count(x); i++) {
        const kerf_weight *w = weight_at(x, i);
        if (w->codec.format || !module_of(w, module)) continue;
        generalize(module, layer);
        if (!json_object_get(quantized, layer) || is_kept(list, module)) continue;
        snprintf(text, sizeof text,
                 "is not quantized as its like in other layers are, and %s does not list "
                 "it: loaders will look for its codes",
                 x->file);
        add_error(x, w, text);
        break;
    }
    json_decref(quantized);
}

/* --- scales of inputs ---------------------------------------------------------------------- */

/* What the scheme asks for beside each weight, or NULL. */
static const char *input_suffix(const context *x, const char **who)
{
    const char *name, *key;
    json_t *group;
    json_t *groups = json_object_get(x->q, "config_groups");
    *who = "quant_algo";
    if (is_layout(x, "modelopt") && text_of(x->q, "quant_algo", &name))
        return strcasecmp(name, "NVFP4") == 0 || strcasecmp(name, "FP8") == 0 ||
                       strcasecmp(name, "W8A8_SQ_PER_CHANNEL") == 0
                   ? "input_scale"
                   : NULL;
    *who = "input_activations";
    if (!is_compressed_tensors(x) || !json_is_object(groups)) return NULL;
    json_object_foreach(groups, key, group)
    {
        const json_t *inputs = json_object_get(group, "input_activations");
        if (!json_is_object(inputs) || json_is_true(json_object_get(inputs, "dynamic"))) continue;
        return json_is_string(json_object_get(inputs, "dynamic")) ? "input_global_scale"
                                                                  : "input_scale";
    }
    return NULL;
}

static void check_inputs(const context *x)
{
    char name[KERF_MAX_NAME_BYTES + 64], module[KERF_MAX_NAME_BYTES + 1], text[256];
    const char *who, *suffix = input_suffix(x, &who);
    const kerf_weight *first = NULL;
    size_t missing = 0;
    for (size_t i = 0; suffix && i < weight_count(x); i++) {
        const kerf_weight *w = weight_at(x, i);
        if (!w->codec.format || w->layout != x->layout || !module_of(w, module)) continue;
        snprintf(name, sizeof name, "%s.%s", module, suffix);
        if (kerf_weights_find(x->weights, name)) continue;
        if (missing++ == 0) first = w;
    }
    if (missing == 0) return;
    snprintf(text, sizeof text,
             "has no %s, as %zu layer%s: %s in %s asks for one in each, and loaders take "
             "0 or NaN without",
             suffix, missing, missing == 1 ? "" : "s", who, x->file);
    add_error(x, first, text);
}

/* --- all of it ----------------------------------------------------------------------------- */

/* Mixtures that the layout's loaders cannot be told of. */
static void check_mixture(const context *x)
{
    kerf_companion out[KERF_COMPANIONS];
    size_t count = 0;
    kerf_error why = {.text = ""};
    kerf_status s = kerf_layout_companions(x->layout, x->reader, weight_at(x, 0), weight_count(x),
                                           out, &count, &why);
    kerf_companions_free(out, count);
    if (s == KERF_E_NOSUP) add_error_at(x, "config.json", why.text);
}

static const kerf_weight *find_unlike(const context *x)
{
    for (size_t i = 0; i < weight_count(x); i++) {
        const kerf_weight *w = weight_at(x, i);
        if (!w->codec.format || w->layout == x->layout) continue;
        if (x->layout || w->layout != kerf_layout_at(0)) return w;
    }
    return NULL;
}

/* What a file of the folder holds; NULL: it is not there, or is damaged, which is a finding. */
static json_t *load(const context *x, const char *name)
{
    char *text = NULL;
    kerf_error why = {.text = ""};
    const kerf_status s = kerf_config_read(x->reader, name, &text, &why);
    const char *at = strstr(why.text, name); /* without the path */
    if (s != KERF_OK && !(s == KERF_E_IO && why.native == ENOENT))
        add_error_at(x, name, at ? at + strlen(name) + strlen(": ") : why.text);
    json_t *j = text ? json_loads(text, 0, NULL) : NULL;
    free(text);
    return j;
}

/* What one of the two files says of quantization. */
static void check_file(context *x, const char *file, const json_t *q)
{
    x->file = file;
    x->q = q;
    if (!json_is_object(q)) return;
    check_formats(x);
    check_kept(x);
    check_inputs(x);
}

static int has_quantized(const context *x)
{
    for (size_t i = 0; i < weight_count(x); i++) {
        if (weight_at(x, i)->codec.format) return 1;
    }
    return 0;
}

void kf_find_configured(const kerf_reader *r, const kerf_weights *weights, kerf_found found,
                        void *ctx)
{
    static const char *const own = "hf_quant_config.json";
    char text[200];
    context x = {
        .found = found, .ctx = ctx, .reader = r, .weights = weights, .file = "config.json"};
    if (!kerf_reader_is_folder(r)) return;
    json_t *config = load(&x, x.file), *older = load(&x, own);
    x.layout = kerf_layout_configured(r);
    const kerf_weight *unlike = find_unlike(&x);
    if (unlike) {
        snprintf(text, sizeof text,
                 "is in layout %s, but config.json names %s: loaders will refuse it "
                 "or read other numbers",
                 unlike->layout->name, x.layout ? x.layout->name : "none");
        add_error(&x, unlike, text);
    } else if (x.layout && has_quantized(&x)) {
        check_file(&x, x.file, json_object_get(config, "quantization_config"));
        if (is_layout(&x, "modelopt")) check_file(&x, own, json_object_get(older, "quantization"));
        check_mixture(&x);
    }
    json_decref(config);
    json_decref(older);
}
