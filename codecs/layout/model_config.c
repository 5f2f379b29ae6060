/* model_config.c - what a folder's config.json says of its quantization, in the words of each
 * layout's loaders. Keys are those that every loader of the layout accepts and no more: some of
 * them refuse a file with a key that they do not know. The rest of config.json is not touched, not
 * even its white space.
 *
 * Weights alone are quantized here. Where a scheme also quantizes activations it is one that does
 * so dynamically, so that nothing had to be calibrated; or somebody did, and the scale of each
 * layer's inputs is among the tensors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file/json/config_text.h"
#include "layout/experts.h"
#include "file/disk/io.h"
#include "file/json/json_walk.h"
#include "layout/layout.h"
#include "file/json/text.h"

#define MAX_CONFIG_BYTES (1u << 24)
#define SPACE " \t\r\n"
#define KEY "\"quantization_config\""

static const kf_json_rules config_rules = {.max_depth = 64};

typedef struct quantized {
    const kerf_layout *layout;
    const kerf_weight *weights;
    size_t count;
    const kerf_format *format[64]; /* each once */
    size_t formats;
} quantized;

/* --- modules --- */

/* Stacked experts are parameters of a module, not modules: X.experts has X.experts.down_proj. */
static int is_module(const kerf_weight *w)
{
    return kf_has_suffix(w->name, ".weight") || (w->shape.rank == 3 && strchr(w->name, '.'));
}

static json_t *module_name(const kerf_weight *w)
{
    return json_stringn(w->name, (size_t)(strrchr(w->name, '.') - w->name));
}

static int is_listed(const json_t *list, const json_t *name)
{
    size_t i;
    const json_t *other;
    json_array_foreach(list, i, other)
    {
        if (json_equal(other, name)) return 1;
    }
    return 0;
}

/* Every module with a matrix that was not quantized. The output head is named even when it is not
 * in the files: tied to the embedding, it is a layer all the same. */
static json_t *list_kept(const quantized *q)
{
    json_t *list = json_array();
    int has_head = 0;
    for (size_t i = 0; i < q->count; i++) {
        const kerf_weight *w = &q->weights[i];
        has_head |= strcmp(w->name, "lm_head.weight") == 0;
        if (w->codec.format || !is_module(w) || w->shape.rank < 2) continue;
        json_t *name = module_name(w);
        if (w->shape.rank < 3 || !is_listed(list, name)) json_array_append(list, name);
        json_decref(name);
    }
    if (!has_head) json_array_append_new(list, json_string("lm_head"));
    return list;
}

/* Whether every weight of this format has a scale of this name beside it. */
static int all_have(const quantized *q, const kerf_format *f, const char *name)
{
    char end[64];
    size_t weights = 0, scales = 0;
    snprintf(end, sizeof end, ".%s", name);
    for (size_t i = 0; i < q->count; i++) {
        const kerf_weight *w = &q->weights[i];
        weights += w->codec.format == f;
        scales += !w->codec.format && w->dtype == KERF_F32 && kf_has_suffix(w->name, end);
    }
    return scales >= weights;
}

/* Whether every weight of this format has the scale of its inputs beside it. */
static int has_inputs(const quantized *q, const kerf_format *f)
{
    int is_inverse, is_vector;
    const char *name = kerf_layout_input(q->layout, f, &is_inverse, &is_vector);
    return name && all_have(q, f, name);
}

static json_t *list_modules(const quantized *q, const kerf_format *f)
{
    json_t *list = json_array();
    for (size_t i = 0; i < q->count; i++)
        if (q->weights[i].codec.format == f)
            json_array_append_new(list, module_name(&q->weights[i]));
    return list;
}

/* What both compressed-tensors and Model-Optimizer call the element. */
static const char *number_type(const kerf_format *f)
{
    return f->element == KERF_ELEM_E2M1 || f->element == KERF_ELEM_E4M3 ? "float" : "int";
}

/* --- compressed-tensors --- */

/* num_bits, type, symmetric, strategy and, where they mean something, group_size and shape. */
static json_t *ct_weights(const kerf_format *f)
{
    const char *strategy = f->second == KERF_SECOND_TENSOR    ? "tensor_group"
                           : f->geometry == KERF_GROUP_TENSOR ? "tensor"
                           : f->geometry == KERF_GROUP_ROW    ? "channel"
                           : f->geometry == KERF_GROUP_TILE   ? "block"
                                                              : "group";
    json_t *j =
        json_pack("{s:i, s:s, s:b, s:s, s:b}", "num_bits", (int)f->bits, "type", number_type(f),
                  "symmetric", f->zero == KERF_ZERO_NONE, "strategy", strategy, "dynamic", 0);
    if (f->geometry == KERF_GROUP_BLOCK)
        json_object_set_new(j, "group_size", json_integer(f->group));
    if (f->geometry == KERF_GROUP_TILE)
        json_object_set_new(j, "block_structure", json_pack("[i, i]", f->group, f->group));
    if (f->scale == KERF_SCALE_E8M0)
        json_object_set_new(j, "scale_dtype", json_string("torch.uint8"));
    if (f->scale == KERF_SCALE_E4M3)
        json_object_set_new(j, "scale_dtype", json_string("torch.float8_e4m3fn"));
    return j;
}

/* 8-bit schemes multiply in 8 bits, with activations that are quantized as they come: one scale
 * for each token, or for each block of it that meets one of the weights. Integers in words, 4-bit
 * floats and what is called naive are weights only. */
static json_t *ct_inputs(const quantized *q, const kf_stored *s, const kerf_format *f)
{
    if (has_inputs(q, f)) { /* of NVFP4, the scales of blocks are found as they come */
        json_t *given = ct_weights(f);
        if (f->id == KERF_FORMAT_NVFP4) json_object_set_new(given, "dynamic", json_string("local"));
        return given;
    }
    if (f->bits != 8 || strcmp(s->scheme, "pack-quantized") == 0 ||
        strcmp(s->scheme, "naive-quantized") == 0)
        return json_null();
    json_t *j = ct_weights(f);
    int by_group = f->geometry == KERF_GROUP_TILE || f->geometry == KERF_GROUP_BLOCK;
    json_object_del(j, "block_structure");
    json_object_set_new(j, "dynamic", json_true());
    json_object_set_new(j, "strategy", json_string(by_group ? "group" : "token"));
    if (by_group) json_object_set_new(j, "group_size", json_integer(f->group));
    return j;
}

static json_t *ct_config(const quantized *q)
{
    json_t *groups = json_object();
    const char *format = NULL;
    for (size_t i = 0; i < q->formats; i++) {
        const kerf_format *f = q->format[i];
        const kf_stored *s = kf_stored_find(q->layout, f);
        char name[32];
        json_t *targets = q->formats == 1 ? json_pack("[s]", "Linear") : list_modules(q, f);
        json_t *group =
            json_pack("{s:o, s:o, s:o, s:n}", "targets", targets, "weights", ct_weights(f),
                      "input_activations", ct_inputs(q, s, f), "output_activations");
        if (q->formats > 1) json_object_set_new(group, "format", json_string(s->scheme));
        snprintf(name, sizeof name, "group_%zu", i);
        json_object_set_new(groups, name, group);
        format = !format || strcmp(format, s->scheme) == 0 ? s->scheme : "mixed-precision";
    }
    return json_pack("{s:s, s:s, s:s, s:o, s:o}", "quant_method", "compressed-tensors", "format",
                     format, "quantization_status", "compressed", "config_groups", groups, "ignore",
                     list_kept(q));
}

/* --- modelopt --- */

static json_t *modelopt_producer(void)
{
    return json_pack("{s:s, s:s}", "name", "modelopt", "version", "kerf " KERF_VERSION_TEXT);
}

/* NVFP4 alone is the name with inputs. */
static const char *modelopt_algorithm(const quantized *q)
{
    const kerf_format *f = q->format[0];
    if (f->id == KERF_FORMAT_NVFP4 && has_inputs(q, f)) return "NVFP4";
    return kf_stored_find(q->layout, f)->scheme;
}

static json_t *modelopt_config(const quantized *q)
{
    const kerf_format *f = q->format[0];
    json_t *weights = json_pack("{s:b, s:i, s:s}", "dynamic", 0, "num_bits", (int)f->bits, "type",
                                number_type(f));
    if (f->geometry == KERF_GROUP_BLOCK)
        json_object_set_new(weights, "group_size", json_integer(f->group));
    json_t *group = json_pack("{s:o, s:[s]}", "weights", weights, "targets", "Linear");
    if (has_inputs(q, f)) json_object_set(group, "input_activations", weights);
    json_t *j = json_pack("{s:s, s:s, s:{s:o}, s:o, s:o}", "quant_method", "modelopt", "quant_algo",
                          modelopt_algorithm(q), "config_groups", "group_0", group, "ignore",
                          list_kept(q), "producer", modelopt_producer());
    if (f->geometry == KERF_GROUP_BLOCK)
        json_object_set_new(j, "group_size", json_integer(f->group));
    return j;
}

/* The file that older loaders read instead; they insist on all of these keys and on the name of
 * the producer. */
static json_t *modelopt_file(const quantized *q)
{
    const kerf_format *f = q->format[0];
    json_t *j = json_pack("{s:s, s:n}", "quant_algo", modelopt_algorithm(q), "kv_cache_quant_algo");
    if (f->geometry == KERF_GROUP_BLOCK)
        json_object_set_new(j, "group_size", json_integer(f->group));
    json_object_set_new(j, "exclude_modules", list_kept(q));
    return json_pack("{s:o, s:o}", "producer", modelopt_producer(), "quantization", j);
}

/* --- deepseek --- */

static json_t *deepseek_config(const quantized *q)
{
    return json_pack("{s:s, s:s, s:s, s:[i, i], s:o}", "quant_method", "fp8", "fmt", "e4m3",
                     "activation_scheme", "dynamic", "weight_block_size", 128, 128,
                     "modules_to_not_convert", list_kept(q));
}

/* --- bitsandbytes --- */

static json_t *bitsandbytes_config(const quantized *q)
{
    const kerf_format *f = q->format[0];
    const int is_int8 = f->id == KERF_FORMAT_INT8;
    return json_pack("{s:s, s:b, s:b, s:s, s:b, s:s, s:s, s:f, s:o, s:b, s:b}", "quant_method",
                     "bitsandbytes", "load_in_4bit", !is_int8, "load_in_8bit", is_int8,
                     "bnb_4bit_quant_type", is_int8 ? "fp4" : "nf4", /* fp4: as if not given */
                     "bnb_4bit_use_double_quant", f->second == KERF_SECOND_NESTED,
                     "bnb_4bit_compute_dtype", is_int8 ? "float32" : "bfloat16",
                     "bnb_4bit_quant_storage", "uint8", "llm_int8_threshold", 6.0,
                     "llm_int8_skip_modules", list_kept(q), "llm_int8_has_fp16_weight", 0,
                     "llm_int8_enable_fp32_cpu_offload", 0);
}

/* --- gptq --- */

/* "-:" and a regular expression for the module: not quantized. */
static json_t *gptq_exceptions(const quantized *q)
{
    json_t *all = json_object(), *list = list_kept(q), *name;
    size_t i;
    json_array_foreach(list, i, name)
    {
        kf_text t = {0};
        kf_text_add(&t, "-:^");
        for (const char *c = json_string_value(name); *c; c++)
            kf_text_add(&t, strchr(".^$*+?()[]{}|\\", *c) ? "\\%c" : "%c", *c);
        kf_text_add(&t, "$");
        if (!t.failed) json_object_set_new(all, t.p, json_object());
        free(t.p);
    }
    json_decref(list);
    return all;
}

/* Both in config.json and in a file of its own, which older loaders read. */
static json_t *gptq_config(const quantized *q)
{
    const kerf_format *f = q->format[0];
    const int is_first = q->layout == &kf_layouts[KF_LAYOUT_GPTQ];
    const int group = f->geometry == KERF_GROUP_ROW ? -1 : (int)f->group;
    return json_pack("{s:s, s:s, s:i, s:i, s:b, s:b, s:b, s:s, s:o, s:{s:[s]}}", "quant_method",
                     "gptq", "checkpoint_format", is_first ? "gptq" : "gptq_v2", "bits",
                     (int)f->bits, "group_size", group, "desc_act", 0, "sym",
                     f->zero == KERF_ZERO_NONE, "lm_head", 0, "pack_dtype", "int32", "dynamic",
                     gptq_exceptions(q), "meta", "quantizer", "kerf:" KERF_VERSION_TEXT);
}

/* --- gpt-oss --- */

static json_t *gpt_oss_config(const quantized *q)
{
    return json_pack("{s:s, s:o}", "quant_method", "mxfp4", "modules_to_not_convert", list_kept(q));
}

/* --- config.json --- */

static const struct {
    json_t *(*config)(const quantized *q);
    json_t *(*file)(const quantized *q);
    const char *file_name; /* which older loaders read */
    int mixes;             /* formats                  */
} writers[KF_LAYOUTS] = {
    [KF_LAYOUT_KERF] = {NULL, NULL, NULL, 1},
    [KF_LAYOUT_MODELOPT] = {modelopt_config, modelopt_file, "hf_quant_config.json", 0},
    [KF_LAYOUT_COMPRESSED_TENSORS] = {ct_config, NULL, NULL, 1},
    [KF_LAYOUT_CT_NAIVE] = {ct_config, NULL, NULL, 1},
    [KF_LAYOUT_DEEPSEEK] = {deepseek_config, NULL, NULL, 0},
    [KF_LAYOUT_BITSANDBYTES] = {bitsandbytes_config, NULL, NULL, 0},
    [KF_LAYOUT_GPTQ] = {gptq_config, gptq_config, "quantize_config.json", 0},
    [KF_LAYOUT_GPTQ_V2] = {gptq_config, gptq_config, "quantize_config.json", 0},
    [KF_LAYOUT_GPT_OSS] = {gpt_oss_config, NULL, NULL, 0},
    [KF_LAYOUT_GGUF] = {NULL, NULL, NULL, 1},
};

static char *dump(json_t *j)
{
    char *text = j ? json_dumps(j, JSON_INDENT(2)) : NULL;
    json_decref(j);
    return text;
}

/* The members of config but for its quantization_config, then the new one as the last; NULL when
 * nothing changes. */
static kerf_status patch(kf_json config, const char *quantization, char **out, kerf_error *err)
{
    int changed = quantization != NULL;
    kf_json_walk walk;
    kf_member m;
    int more;
    size_t kept = 0;
    uint64_t members;
    kf_text t = {0};
    KF_TRY(kf_json_check(config, &config_rules, &members, err));
    KF_TRY(kf_config_check(config.what, config.text, config.n, err));
    const char *tail = strchr(config.text, '{') + 1; /* what follows the last member */
    kf_text_add(&t, "{");
    kf_json_walk_init(&walk, config);
    for (;;) {
        kerf_status s = kf_json_walk_next(&walk, &m, &more, err);
        if (s != KERF_OK) {
            free(t.p);
            return s;
        }
        if (!more) break;
        const char *from = m.key.text, *to = m.value.text + m.value.n;
        while (strchr(SPACE, from[-1])) from--; /* with its indentation */
        while (strchr(SPACE, to[-1])) to--;
        tail = to;
        if (m.key.n == sizeof KEY - 1 && memcmp(m.key.text, KEY, m.key.n) == 0) {
            changed = 1;
            continue;
        }
        if (kept++ > 0) kf_text_add(&t, ",");
        kf_text_add_bytes(&t, from, (size_t)(to - from));
    }
    if (quantization) {
        kf_text_add(&t, kept ? ",\n  " KEY ": " : "\n  " KEY ": ");
        for (const char *c = quantization; *c; c++) /* one level deeper */
            kf_text_add(&t, *c == '\n' ? "\n  " : "%c", *c);
    }
    kf_text_add_bytes(&t, tail, (size_t)(config.text + config.n - tail));
    if (t.failed) {
        free(t.p);
        return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", config.what);
    }
    if (!changed) free(t.p);
    *out = changed ? t.p : NULL;
    return KERF_OK;
}

static kerf_status collect(quantized *q, kerf_error *err)
{
    for (size_t i = 0; i < q->count; i++) {
        const kerf_format *f = q->weights[i].codec.format;
        size_t k = 0;
        while (f && k < q->formats && q->format[k] != f) k++;
        if (f && k == q->formats && k < sizeof q->format / sizeof *q->format)
            q->format[q->formats++] = f;
    }
    if (q->formats < 2 || writers[q->layout - kf_layouts].mixes) return KERF_OK;
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "layout %s names one format for a whole checkpoint, here are %s and %s; layout "
                   "compressed-tensors can mix them",
                   q->layout->name, q->format[0]->name, q->format[1]->name);
}

/* Schemes that have no name without inputs, and inputs that have another name in this layout: a
 * loader would stumble over theirs. */
static kerf_status check_inputs(const quantized *q, kerf_error *err)
{
    for (size_t i = 0; i < q->formats; i++) {
        const kerf_format *f = q->format[i];
        int is_inverse, is_vector;
        const char *name = kerf_layout_input(q->layout, f, &is_inverse, &is_vector);
        const char *other =
            name && strcmp(name, "input_scale") == 0 ? "input_global_scale" : "input_scale";
        if (name && !all_have(q, f, name) && all_have(q, f, other))
            return kf_fail(
                err, KERF_E_NOSUP, KF_NOWHERE,
                "layout %s calls the scale of inputs X.%s, the source has X.%s: quantize "
                "to layout %s and convert that",
                q->layout->name, name, other, is_inverse ? "modelopt" : "compressed-tensors");
        if (q->layout != &kf_layouts[KF_LAYOUT_MODELOPT] || f->id != KERF_FORMAT_FP8_E4M3 ||
            has_inputs(q, f))
            continue;
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "layout %s: loaders of scheme %s need an input scale for each layer, which "
                       "weights alone do not give: they must be in the source as X.input_scale; "
                       "fp8-e4m3-row needs none",
                       q->layout->name, kf_stored_find(q->layout, f)->scheme);
    }
    return KERF_OK;
}

static kerf_status patch_file(const char *path, const char *quantization, char **out,
                              kerf_error *err)
{
    char *text = NULL;
    size_t n;
    KF_TRY(kf_read_whole(path, MAX_CONFIG_BYTES, &text, &n, err));
    kf_json config = {path, text, n};
    kerf_status s = patch(config, quantization, out, err);
    free(text);
    return s;
}

static int is_there(const char *path)
{
    int fd = -1;
    uint64_t bytes;
    int found = kf_open_regular(path, &fd, &bytes, NULL) == KERF_OK;
    if (found) close(fd);
    return found;
}

kerf_status kerf_layout_companions(const kerf_layout *l, const kerf_reader *r,
                                   const kerf_weight *weights, size_t weight_count,
                                   kerf_companion out[KERF_COMPANIONS], size_t *count,
                                   kerf_error *err)
{
    quantized q = {.layout = l, .weights = weights, .count = weight_count};
    const size_t id = (size_t)(l - kf_layouts);
    *count = 0;
    KF_TRY(collect(&q, err));
    KF_TRY(kf_experts_check(l, weights, weight_count, err));
    KF_TRY(check_inputs(&q, err));
    char *path = kf_path_join(kerf_reader_folder(r), "config.json");
    if (!path) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for config.json");
    if (!kerf_reader_is_folder(r) || !is_there(path)) {
        free(path);
        return KERF_OK;
    }
    char *quantization = writers[id].config && q.formats ? dump(writers[id].config(&q)) : NULL;
    out[0] = (kerf_companion){"config.json", NULL};
    kerf_status s = patch_file(path, quantization, &out[0].text, err);
    free(quantization);
    free(path);
    if (s != KERF_OK || !out[0].text) return s;
    *count = 1;
    if (!writers[id].file || !q.formats) return KERF_OK;
    out[1] = (kerf_companion){writers[id].file_name, dump(writers[id].file(&q))};
    if (out[1].text) *count = 2;
    if (out[1].text) return KERF_OK;
    kerf_companions_free(out, 1);
    *count = 0;
    return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %s", writers[id].file_name);
}

void kerf_companions_free(kerf_companion *c, size_t count)
{
    for (size_t i = 0; i < count; i++) free(c[i].text);
}
