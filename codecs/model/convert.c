/* convert.c - the same codes and scales in another layout. Nothing is quantized again: a plane
 * moves as it is, or by a rule that turns back. Where a number cannot turn back exactly, it is
 * counted. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <kerf/quantize.h>

#include "base/base.h"
#include "layout/config_cache.h"
#include "layout/foreign.h"
#include "layout/input_scales.h"
#include "layout/layout.h"
#include "model/arrange_experts.h"
#include "model/not_a_model.h"
#include "model/plan_notes.h"
#include "model/write_model.h"
#include "stream/copy_tensor.h"
#include "stream/panels.h"

/* What becomes of one weight. */
typedef struct target {
    kerf_weight weight;
    kf_input_scale *input; /* when it is the scale of a layer's inputs; else NULL */
    unsigned foreign_from; /* the lowest byte of its block scales that the two layouts read as
                              different numbers */
} target;

typedef struct converting {
    const kerf_layout *layout;
    kerf_checkpoint *source; /* a view of the caller's, whose experts may be arranged */
    kf_manifest manifest;
    kf_work work;
    target *target; /* per weight of the source */
    size_t count, converted;
    uint64_t bytes_in;
    kerf_share share;
    kerf_losses losses;
    kf_cache cache;
} converting;

static const kerf_weight *weight_at(const converting *c, size_t i)
{
    return kerf_weights_at(c->source->weights, i);
}

/* --- losses -------------------------------------------------------------------------------- */

/* Whether nothing but files changes. Other layouts than kerf's say in config.json which scales
 * count, and that is written anew. */
static int is_only_moved(const converting *c)
{
    size_t i = 0;
    while (i < c->count && !weight_at(c, i)->codec.format) i++;
    return i < c->count && c->layout == kerf_layout_at(0) && weight_at(c, i)->layout == c->layout;
}

/* Scales of activations, which have other names in every layout, but for those of the KV cache. */
static int loses_scale(const converting *c, size_t i)
{
    const kerf_weight *w = weight_at(c, i);
    return !w->codec.format && kerf_is_activation_scale(w->name) && !c->target[i].input &&
           !kf_cache_keeps(&c->cache, c->layout, w->name);
}

/* Whether w begins a group of merged layers that have different scales per matrix. */
static kerf_status group_differs(const converting *c, const kerf_weight *w, int *differs,
                                 kerf_error *err)
{
    const kerf_weight *member[KERF_FUSED_MOST];
    float first = 0;
    *differs = 0;
    size_t n = kerf_fused_group(c->source->weights, w, member);
    const kerf_geometry g = kerf_weight_geometry(w);
    kerf_plane_id p = g.plane[KERF_PLANE_SECOND].per_matrix ? KERF_PLANE_SECOND : KERF_PLANE_SCALES;
    for (size_t i = 0; i < n && member[0] == w; i++) {
        float x = 0;
        if (member[i]->codec.format != w->codec.format) continue;
        KF_TRY(kerf_weight_read(c->source->reader, member[i], p, 0, &x, sizeof x, err));
        if (i > 0 && memcmp(&x, &first, sizeof x) != 0) *differs = 1;
        if (i == 0) first = x;
    }
    return KERF_OK;
}

static kerf_status find_losses(converting *c, const kerf_output *to, kerf_error *err)
{
    const int is_moved = is_only_moved(c);
    c->losses.undeclared = kf_is_undeclared(&c->manifest, c->layout, to->path) != 0;
    c->losses.cache = c->cache.is_there && !c->cache.scheme;
    for (size_t i = 0; i < c->count; i++) {
        const kerf_weight *w = weight_at(c, i);
        int differs = 0;
        c->losses.input_scales += !is_moved && loses_scale(c, i);
        c->losses.smoothed += kf_has_suffix(w->name, ".pre_quant_scale") != 0;
        if (!w->codec.format || !kerf_layout_shares_scale(c->layout, w->codec.format)) continue;
        KF_TRY(group_differs(c, w, &differs, err));
        c->losses.groups += differs != 0;
    }
    return KERF_OK;
}

/* The journal keeps one number of each weight: both counts of it, at most 2^32 - 1 each. */
static uint64_t note_of(uint64_t rounded, uint64_t foreign)
{
    const uint64_t most = UINT32_MAX;
    return kf_min_u64(rounded, most) << 32 | kf_min_u64(foreign, most);
}

static void add_note(void *ctx, uint64_t note)
{
    converting *c = ctx;
    c->losses.rounded += note >> 32;
    c->losses.foreign += note & UINT32_MAX;
}

/* --- plan ---------------------------------------------------------------------------------- */

static kerf_status check_weight(const converting *c, const kerf_weight *w, kerf_error *err)
{
    kerf_status s = kerf_layout_check(c->layout, w->codec.format, err);
    const char *lacks = kf_layout_lacks(c->layout, w);
    if (lacks)
        return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                       "%.200s: loaders of layout %s take no quantized %s: kerf dequantize makes a "
                       "source that kerf quantize --layout %s takes",
                       w->name, c->layout->name, lacks, c->layout->name);
    if (s == KERF_OK) {
        s = kerf_layout_check_weight(c->layout, w->codec.format, w, err);
    }
    return s == KERF_OK ? s : kf_fail_at(err, s, w->name);
}

static kerf_status declare_weight(converting *c, target *t, kerf_error *err)
{
    kerf_weight *w = &t->weight;
    c->converted += w->codec.format != NULL;
    c->bytes_in += kerf_weight_bytes(w);
    KF_TRY(kf_input_scale_open(c->source->weights, c->layout, w, &t->input, err));
    if (t->input) {
        w->plane[0] = &t->input->tensor;
        w->name = w->plane[0]->name;
        w->shape = w->plane[0]->shape;
    }
    KF_TRY(kerf_weight_fit(c->source->reader, c->layout, w, &t->foreign_from, err));
    if (w->codec.format) KF_TRY(check_weight(c, w, err));
    if (w->codec.format && w->layout == c->layout && !c->manifest.is_gguf)
        return kf_manifest_add_stored(&c->manifest, w, err); /* copied, whatever its types are */
    return kf_manifest_add_weight(&c->manifest, c->layout, w, err);
}

/* Folders of other layouts are for loaders, which want a config.json and the names of Hugging Face,
 * and a GGUF file has neither. */
static kerf_status check_folder(const converting *c, const kerf_output *to, kerf_error *err)
{
    const int is_own = c->layout == kerf_layout_find("kerf");
    if (!to->path || c->manifest.is_file || is_own || !kerf_reader_is_gguf(c->source->reader))
        return KERF_OK;
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "%.200s: a GGUF file has no config.json and other names than loaders of layout "
                   "%s take; convert the model that it was made from, or give one file, -o "
                   "NAME.safetensors, or --layout kerf",
                   c->source->path, c->layout->name);
}

static kerf_status declare_output(converting *c, const kerf_output *to, kerf_error *err)
{
    kerf_weight *all = NULL;
    KF_TRY(kf_manifest_open(&c->manifest, to, err));
    KF_TRY(check_folder(c, to, err));
    KF_TRY(kf_allocate(&c->target, c->count, sizeof *c->target, err));
    for (size_t i = 0; i < c->count; i++) {
        c->target[i].weight = *weight_at(c, i);
        KF_TRY(declare_weight(c, &c->target[i], err));
    }
    KF_TRY(kf_allocate(&all, c->count, sizeof *all, err));
    for (size_t i = 0; i < c->count; i++) all[i] = c->target[i].weight;
    kerf_status s = kf_manifest_describe(&c->manifest, c->source->reader, c->source->path,
                                         c->layout, all, c->count, err);
    if (s == KERF_OK)
        s = kf_cache_open(c->source->reader, c->layout, all, c->count, &c->cache, err);
    free(all);
    return s;
}

/* --- write --------------------------------------------------------------------------------- */

typedef struct move {
    converting *converting;
    const kerf_weight *weight;
    const kerf_geometry *geometry; /* of it */
    unsigned foreign_from;
    uint64_t foreign; /* bytes from there on */
    kerf_weight_writer *to;
} move;

static kerf_status move_read(void *ctx, kf_panel *p, kerf_error *err)
{
    const move *m = ctx;
    return kf_read_planes(m->converting->source->reader, m->weight, p, err);
}

static kerf_status move_work(void *ctx, kf_panel *p, kerf_error *err)
{
    move *m = ctx;
    const kerf_span scales = p->plane[KERF_PLANE_SCALES];
    for (size_t i = 0; m->foreign_from < 256 && i < scales.n; i++) {
        m->foreign += ((const unsigned char *)scales.p)[i] >= m->foreign_from;
    }
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        if (m->geometry->plane[k].band_bytes) {
            KF_TRY(kf_work_add(&m->converting->work, p->plane[k].n, err));
        }
    }
    return KERF_OK;
}

/* All planes of a panel, since layouts may put them into one tensor. */
static kerf_status move_write(void *ctx, kf_panel *p, kerf_error *err)
{
    const move *m = ctx;
    const kerf_geometry *g = m->geometry;
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        if (g->plane[k].band_bytes == 0) continue;
        uint64_t offset = kerf_band_bytes(g, k, p->u0, p->u1).offset;
        KF_TRY(kerf_weight_writer_write(m->to, k, offset, p->plane[k].p, p->plane[k].n, err));
    }
    return KERF_OK;
}

static kerf_status move_panels(move *m, kf_stream *s, kerf_error *err)
{
    static const kf_steps steps = {move_read, move_work, move_write, NULL};
    KF_TRY(kf_read_whole_planes(m->converting->source->reader, m->weight, s, err));
    KF_TRY(kf_stream_run(s, &steps, m, err));
    for (kerf_plane_id k = 0; k < KERF_PLANES; k++) {
        const kerf_span whole = kf_stream_whole(s, k);
        if (whole.n) KF_TRY(kerf_weight_writer_write(m->to, k, 0, whole.p, whole.n, err));
    }
    return kerf_weight_writer_finish(m->to, err);
}

static kerf_status convert_weight(converting *c, const target *t, kerf_writer *to, size_t entry,
                                  uint64_t *note, kerf_error *err)
{
    const kerf_weight *w = &t->weight;
    const kerf_geometry g = kerf_weight_geometry(w);
    move m = {.converting = c, .weight = w, .geometry = &g, .foreign_from = t->foreign_from};
    uint64_t rounded = 0;
    kf_stream *panels = NULL;
    KF_TRY(kerf_weight_inexact(c->source->reader, w, &rounded, err));
    KF_TRY(kf_stream_open(&panels, &g, KERF_BF16, err));
    kerf_status s = kerf_weight_writer_open(to, c->layout, w, entry, &m.to, err);
    if (s == KERF_OK) s = move_panels(&m, panels, err);
    kf_stream_close(panels);
    if (s == KERF_OK) {
        uint64_t written = kerf_weight_writer_inexact(m.to);
        *note = note_of(written + (w->layout == c->layout ? 0 : rounded), m.foreign);
    }
    kerf_weight_writer_close(m.to);
    return s;
}

static kerf_status write_weight(void *ctx, kerf_writer *to, size_t i, size_t entry,
                                const kerf_exec *exec, uint64_t *note, kerf_error *err)
{
    converting *c = ctx;
    const target *t = &c->target[i];
    const kerf_weight *w = &t->weight;
    (void)exec;
    if (t->input) {
        uint64_t inexact = 0;
        KF_TRY(kf_input_scale_write(t->input, c->source->reader, weight_at(c, i), to, entry,
                                    &inexact, err));
        *note = note_of(inexact, 0);
        return KERF_OK;
    }
    int same = !w->codec.format || w->layout == c->layout;
    kf_work_item(&c->work, w->name, same ? "copy" : "convert");
    return same ? kf_copy_weight(c->source->reader, w, to, entry, &c->work, err)
                : convert_weight(c, t, to, entry, note, err);
}

static uint64_t work_bytes(const void *ctx, size_t i)
{
    return kerf_weight_bytes(weight_at(ctx, i));
}

static void describe_work(const void *ctx, FILE *to)
{
    fprintf(to, "%s\n", ((const converting *)ctx)->layout->name);
}

/* --- all of it ----------------------------------------------------------------------------- */

/* There must be codes to move, and a place for all of them. for_llama: the new names are those of
 * llama.cpp, and nothing needs codes; what had other names before would become numbers. */
static kerf_status check_source(const converting *c, const kerf_checkpoint *source, int for_llama,
                                kerf_error *err)
{
    const int renamed = for_llama && !kerf_weights_find(source->weights, "token_embd.weight");
    int found = for_llama;
    for (size_t i = 0; i < kerf_weights_count(source->weights); i++) {
        const kerf_weight *w = kerf_weights_at(source->weights, i);
        const char *form = kf_foreign_form(w);
        if (!form && renamed && w->codec.format) form = w->codec.format->name;
        if (form)
            return kf_fail(
                err, KERF_E_NOSUP, KF_NOWHERE,
                "%.*s: %s for codes as these are (%s): kerf quantize and kerf dequantize "
                "read them",
                KF_NAME(w->name),
                renamed ? "under llama.cpp's names is no place" : "no layout has a place", form);
        found |= w->codec.format != NULL;
    }
    if (found) return KERF_OK;
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "%.200s: holds no quantized tensor in a layout that kerf knows; kerf quantize "
                   "makes some",
                   c->source->path);
}

static kerf_status convert(converting *c, const kerf_checkpoint *source, const kerf_output *to,
                           kerf_error *err)
{
    const kf_write out = {
        .what = "convert",
        .to = to,
        .source = source->reader,
        .manifest = &c->manifest,
        .work = &c->work,
        .ctx = c,
        .work_bytes = work_bytes,
        .write = write_weight,
        .noted = add_note,
        .describe = describe_work,
        .share = &c->share,
    };
    KF_TRY(kf_refuse_source(source, err));
    KF_TRY(kf_manifest_layout(source->reader, to, &c->layout, err));
    KF_TRY(kf_checkpoint_view(source, &c->source, err));
    KF_TRY(kf_arrange_experts(c->source, c->layout, NULL, err));
    const int for_llama = c->layout == kerf_layout_find("gguf") &&
                          !kerf_reader_is_gguf(source->reader) &&
                          kerf_weights_find(c->source->weights, "token_embd.weight");
    KF_TRY(check_source(c, source, for_llama, err));
    c->count = kerf_weights_count(c->source->weights);
    KF_TRY(declare_output(c, to, err));
    KF_TRY(find_losses(c, to, err));
    return kf_write_model(&out, err);
}

static const struct {
    size_t count; /* where it is in kerf_losses */
    const char *text;
} kinds[] = {
    {offsetof(kerf_losses, input_scales),
     "scales of activations keep their names, which the new layout does not read"},
    {offsetof(kerf_losses, smoothed), "layers are for inputs that are multiplied by their "
                                      "pre_quant_scale, which the new layout does "
                                      "not read"},
    {offsetof(kerf_losses, groups),
     "groups of layers that runtimes fuse have different tensor scales: they take the largest for "
     "all; quantize the source again with --layout"},
    {offsetof(kerf_losses, rounded),
     "scales are stored as another number, a reciprocal or 127 times as much, that fp32 rounds: "
     "converted back they differ by one unit in the last place"},
    {offsetof(kerf_losses, foreign), "block scales are bytes that one of the layouts reads as "
                                     "another number (NaN, or with a sign); "
                                     "they are kept as they are"},
    {offsetof(kerf_losses, cache),
     "quantization of the KV cache (kv_cache_scheme in config.json), "
     "which the new layout has no words for: runtimes will not do it"},
    {offsetof(kerf_losses, undeclared),
     "config.json that says how the weights are quantized, without which loaders of the new "
     "layout take codes for weights: the source has none; with that of the model beside it, the "
     "output has one that says it"},
};

const char *kerf_losses_at(const kerf_losses *l, size_t i, uint64_t *count)
{
    if (i >= sizeof kinds / sizeof *kinds) return NULL;
    *count = *(const uint64_t *)((const char *)l + kinds[i].count);
    return kinds[i].text;
}

kerf_status kerf_convert(const kerf_checkpoint *source, const kerf_output *out, const kerf_job *job,
                         kerf_result *result, kerf_losses *losses, kerf_error *err)
{
    const double began_s = kf_now_s();
    if (!source || !out)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "kerf_convert: an argument is missing");
    converting c = {.work = {0}};
    kf_work_open(&c.work, job);
    kerf_status s = convert(&c, source, out, err);
    kf_work_close(&c.work);
    if (s == KERF_OK && losses) *losses = c.losses;
    if (s == KERF_OK && result)
        *result = (kerf_result){.changed = c.converted,
                                .kept = c.count - c.converted,
                                .bytes_in = c.bytes_in,
                                .bytes_out = kf_manifest_bytes(&c.manifest),
                                .seconds = kf_now_s() - began_s,
                                .share = c.share};
    for (size_t i = 0; c.target && i < c.count; i++) kf_input_scale_close(c.target[i].input);
    kf_cache_close(&c.cache);
    free(c.target);
    kf_manifest_close(&c.manifest);
    kerf_checkpoint_close(c.source);
    return s;
}
