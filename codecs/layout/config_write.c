/* config_write.c - the small files beside quantized weights, from config_table.c. All of
 * config.json but its quantization_config stays as it is, even its white space. What says so in an
 * object of it, of all or of one modality, speaks of the weights as they were: it goes, too. */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "file/disk/io.h"
#include "file/json/json_read.h"
#include "file/json/json_walk.h"
#include "file/json/text.h"
#include "layout/config_cache.h"
#include "layout/config_table.h"
#include "layout/experts.h"

#define SPACE " \t\r\n"
#define KEY "\"quantization_config\""
#define MLX_KEY "\"quantization\"" /* of codes that no output has */

static const kf_json_rules config_rules = {.max_depth = 64};

/* --- what stands around the object of the layout -------------------------------------------- */

static int is_key(kf_json key, const char *text)
{
    return key.n == strlen(text) && memcmp(key.text, text, key.n) == 0;
}

/* Whether the text of a value holds the key; in a string, too, which changes nothing. */
static int holds_key(kf_json value)
{
    const size_t n = strlen(KEY);
    for (size_t i = 0; i + n <= value.n; i++)
        if (value.text[i] == '"' && memcmp(value.text + i, KEY, n) == 0) return 1;
    return 0;
}

typedef struct patching {
    kf_text text;
    int is_mlx;  /* the numbers of MLX stand at the top */
    int changed; /* something was left out              */
    kerf_error *err;
} patching;

/* "{" and the members of an object but for what says how weights are quantized. *kept: how many
 * these are, *tail: what follows the last one. depth: objects around this one. */
static kerf_status add_members(patching *p, kf_json object, unsigned depth, size_t *kept,
                               const char **tail)
{
    kf_json_walk walk;
    kf_member m;
    int more;
    *kept = 0;
    *tail = strchr(object.text, '{') + 1;
    kf_text_add(&p->text, "{");
    kf_json_walk_init(&walk, object);
    for (;;) {
        KF_TRY(kf_json_walk_next(&walk, &m, &more, p->err));
        if (!more) return KERF_OK;
        const char *from = m.key.text, *to = m.value.text + m.value.n;
        while (strchr(SPACE, from[-1])) from--; /* with its indentation */
        while (strchr(SPACE, to[-1])) to--;
        *tail = to;
        if (is_key(m.key, KEY) || (depth == 0 && p->is_mlx && is_key(m.key, MLX_KEY))) {
            p->changed = 1;
            continue;
        }
        if ((*kept)++ > 0) kf_text_add(&p->text, ",");
        if (to[-1] == '}' && holds_key(m.value)) {
            size_t inside;
            const char *last;
            kf_text_add_bytes(&p->text, from, (size_t)(strchr(m.value.text, '{') - from));
            KF_TRY(add_members(p, m.value, depth + 1, &inside, &last));
            from = last;
        }
        kf_text_add_bytes(&p->text, from, (size_t)(to - from));
    }
}

static kerf_status find_mlx(kf_json config, int *is_mlx, kerf_error *err)
{
    json_t *whole;
    KF_TRY(kf_json_parse(config.what, config.text, config.n, KF_JSON_PYTHON, &whole, err));
    const json_t *sizes = json_object_get(json_object_get(whole, "quantization"), "group_size");
    *is_mlx = json_is_integer(sizes);
    json_decref(whole);
    return KERF_OK;
}

/* The members of config but for its quantization_config, then the new one as the last; NULL when
 * nothing changes. */
static kerf_status patch(kf_json config, const char *quantization, char **out, kerf_error *err)
{
    patching p = {.changed = quantization != NULL, .err = err};
    size_t kept;
    uint64_t members;
    const char *tail;
    KF_TRY(kf_json_check(config, &config_rules, &members, err));
    KF_TRY(find_mlx(config, &p.is_mlx, err));
    const kerf_status s = add_members(&p, config, 0, &kept, &tail);
    if (s != KERF_OK) {
        free(p.text.p);
        return s;
    }
    if (quantization) {
        kf_text_add(&p.text, kept ? ",\n  " KEY ": " : "\n  " KEY ": ");
        for (const char *c = quantization; *c; c++) /* one level deeper */
            kf_text_add(&p.text, *c == '\n' ? "\n  " : "%c", *c);
    }
    kf_text_add_bytes(&p.text, tail, (size_t)(config.text + config.n - tail));
    if (p.text.failed) {
        free(p.text.p);
        return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", config.what);
    }
    if (!p.changed) free(p.text.p);
    *out = p.changed ? p.text.p : NULL;
    return KERF_OK;
}

int kerf_layout_mixes(const kerf_layout *l)
{
    return kf_config_table[l - kf_layouts].mixes;
}

int kerf_layout_mixes_format(const kerf_layout *l, const kerf_format *f)
{
    const kf_config_rules *rules = &kf_config_table[l - kf_layouts];
    return rules->mixes && (!rules->mixed || rules->mixed(f));
}

/* --- what config.json has no words for ------------------------------------------------------ */

static kerf_status collect(kf_configured *q, kerf_error *err)
{
    for (size_t i = 0; i < q->count; i++) {
        const kerf_format *f = q->weights[i].codec.format;
        size_t k = 0;
        int written;
        if (f && !kerf_layout_scheme(q->layout, f, &written))
            return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE, "layout %s has no %s", q->layout->name,
                           f->name);
        while (f && k < q->formats && q->format[k] != f) k++;
        if (f && k == q->formats && k < sizeof q->format / sizeof *q->format)
            q->format[q->formats++] = f;
    }
    size_t alone = 0;
    while (alone < q->formats && kerf_layout_mixes_format(q->layout, q->format[alone])) alone++;
    if (q->formats < 2 || alone == q->formats) return KERF_OK;
    if (kf_config_table[q->layout - kf_layouts].mixes)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "layout %s has %s for a whole checkpoint alone, here is %s too; layout "
                       "compressed-tensors can mix them",
                       q->layout->name, q->format[alone]->name, q->format[alone == 0]->name);
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "layout %s names one format for a whole checkpoint, here are %s and %s; layout "
                   "compressed-tensors can mix them",
                   q->layout->name, q->format[0]->name, q->format[1]->name);
}

/* Schemes that have no name without inputs, and inputs that have another name in this layout: a
 * loader would stumble over theirs. */
static kerf_status check_inputs(const kf_configured *q, kerf_error *err)
{
    for (size_t i = 0; i < q->formats; i++) {
        const kerf_format *f = q->format[i];
        int is_inverse, is_vector;
        const char *name = kerf_layout_input(q->layout, f, &is_inverse, &is_vector);
        const char *other =
            name && strcmp(name, "input_scale") == 0 ? "input_global_scale" : "input_scale";
        if (name && !kf_config_has_scale(q, f, name) && kf_config_has_scale(q, f, other))
            return kf_fail(
                err, KERF_E_NOSUP, KF_NOWHERE,
                "layout %s calls the scale of inputs X.%s, the source has X.%s: quantize "
                "to layout %s and convert that",
                q->layout->name, name, other, is_inverse ? "modelopt" : "compressed-tensors");
        const kf_stored *s = kf_stored_find(q->layout, f);
        if (q->layout != &kf_layouts[KF_LAYOUT_MODELOPT] || !s ||
            !kf_modelopt_needs_inputs(s->scheme) || kf_config_has_inputs(q, f))
            continue;
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "layout %s: loaders of scheme %s need an input scale for each layer, which "
                       "weights alone do not give: kerf calibrate finds them for kerf quantize "
                       "--calibration CAL --input-scales, or the source has them as X.input_scale; "
                       "fp8-e4m3-row needs none",
                       q->layout->name, s->scheme);
    }
    return KERF_OK;
}

static kerf_status patch_file(const char *path, const char *quantization, char **out,
                              kerf_error *err)
{
    char *text = NULL;
    size_t n;
    KF_TRY(kf_read_whole(path, KF_JSON_MAX_CONFIG_BYTES, &text, &n, err));
    kf_json config = {path, text, n};
    kerf_status s = patch(config, quantization, out, err);
    free(text);
    return s;
}

/* --- files ---------------------------------------------------------------------------------- */

/* What a file says of the weights, as text; NULL: nothing. */
static kerf_status make_text(const kf_config_file *file, const kf_configured *q, char **out,
                             kerf_error *err)
{
    *out = NULL;
    if (!file->key || file->is_read_only || q->formats == 0) return KERF_OK;
    json_t *j = kf_config_object(file->key, q, q->format[0]);
    const int is_older = file != &kf_config_table[q->layout - kf_layouts].file[0];
    if (j && is_older && file->member) /* modelopt's */
        j = json_pack("{s:o, s:o}", "producer", kf_modelopt_producer(), file->member, j);
    kf_text t = {0};
    kf_text_add_json(&t, j, JSON_INDENT(2));
    json_decref(j);
    if (t.failed)
        free(t.p);
    else
        *out = t.p;
    return *out ? KERF_OK : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for %s", file->name);
}

/* config.json of the source with another quantization_config; *out NULL: it is not there, or has
 * nothing to change. */
static kerf_status make_config(const kerf_reader *r, const kf_config_file *file,
                               const kf_configured *q, char **out, int *is_there, kerf_error *err)
{
    kerf_error own = {.status = KERF_OK}; /* which tells whether the file is there */
    char *path = kf_path_join(kerf_reader_folder(r), "config.json"), *text = NULL;
    *out = NULL;
    if (!path) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for config.json");
    kerf_status s = make_text(file, q, &text, &own);
    if (s == KERF_OK) s = patch_file(path, text, out, &own);
    *is_there = !kf_json_is_absent(path, s, &own);
    free(text);
    free(path);
    if (s != KERF_OK && *is_there && err) *err = own;
    return *is_there ? s : KERF_OK;
}

static kerf_status make_files(const kerf_reader *r, const kf_configured *q,
                              kerf_companion out[KERF_COMPANIONS], size_t *count, kerf_error *err)
{
    const kf_config_file *file = kf_config_table[q->layout - kf_layouts].file;
    int is_there;
    char *text;
    KF_TRY(make_config(r, &file[0], q, &text, &is_there, err));
    if (!text) return KERF_OK;
    out[(*count)++] = (kerf_companion){"config.json", text};
    kerf_status s = make_text(&file[1], q, &text, err);
    if (s == KERF_OK && text) out[(*count)++] = (kerf_companion){file[1].name, text};
    if (s == KERF_OK) return KERF_OK;
    kerf_companions_free(out, *count);
    *count = 0;
    return s;
}

kerf_status kerf_layout_companions(const kerf_layout *l, const kerf_reader *r,
                                   const kerf_weight *weights, size_t weight_count,
                                   kerf_companion out[KERF_COMPANIONS], size_t *count,
                                   kerf_error *err)
{
    kf_configured q = {.layout = l, .weights = weights, .count = weight_count};
    kf_cache cache;
    *count = 0;
    KF_TRY(collect(&q, err));
    KF_TRY(kf_experts_check(l, weights, weight_count, err));
    KF_TRY(check_inputs(&q, err));
    if (!kerf_reader_is_folder(r)) return KERF_OK;
    KF_TRY(kf_cache_open(r, l, weights, weight_count, &cache, err));
    q.cache = &cache;
    const kerf_status s = make_files(r, &q, out, count, err);
    kf_cache_close(&cache);
    return s;
}

void kerf_companions_free(kerf_companion *c, size_t count)
{
    for (size_t i = 0; i < count; i++) free(c[i].text);
}
