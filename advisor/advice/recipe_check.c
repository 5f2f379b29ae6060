/* recipe_check.c - measures what was written after a recipe, and compares it with its promises. */
#include <kerf/recipe.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <kerf/words.h>

#include "base/globs.h"
#include "base/work.h"
#include "base/plain_numbers.h"
#include "score/compare.h"

/* Sums do not depend on threads or backends; the last digits may on how a file was edited. Where
 * a layout makes fused layers share a scale that they were scored without, errors move a little.
 * One that stores a scale multiplied or inverted (bitsandbytes' SCB, compressed-tensors' scale per
 * matrix) gives it back rounded once more, by 2^-24 at most. */
#define PROMISE_TOLERANCE 1e-9
#define RECODED_TOLERANCE 1e-6
#define SHARED_TOLERANCE 0.05
#define MATRIX_BYTES 4 /* of a scale per matrix */

typedef struct recipe_check {
    const kerf_recipe *recipe;
    kf_globs rules; /* of the recipe */
    const kerf_rule *further;
    size_t furthers;
    kf_compare_job compare;
    const kerf_weights *source, *output;
    kerf_recipe_result *result;
} recipe_check;

static void note_broken(recipe_check *c, const char *tensor, const char *what, double promised,
                        double got)
{
    kerf_recipe_result *r = c->result;
    if (r->broken++) return;
    kf_print(r->first, sizeof r->first, "%.200s: %s was promised as %.10g and is %.10g", tensor,
             what, promised, got);
}

static int is_overruled(const recipe_check *c, const char *name)
{
    for (size_t i = 0; i < c->furthers; i++)
        if (kerf_glob_matches(c->further[i].glob, name)) return 1;
    return 0;
}

/* Whether the rules now give this tensor another codec than the promised one. */
static int is_edited(const recipe_check *c, const kerf_promise *p)
{
    char text[64];
    const size_t i = kf_globs_last(&c->rules, p->tensor, c->recipe->rules);
    if (i == KF_NO_GLOB || is_overruled(c, p->tensor)) return 1;
    const kerf_codec codec = c->recipe->rule[i].codec;
    return !codec.format || strcmp(p->codec, kerf_codec_name(codec, text, sizeof text)) != 0;
}

/* Whether w, which was written, is what the promise speaks of. GGUF files do not say which encoder
 * chose their blocks, and those of two formats are alike there: the rules decide. */
static kerf_status is_promised(const recipe_check *c, const kerf_weight *w, const kerf_promise *p,
                               int *same, kerf_error *err)
{
    char text[64];
    kerf_codec promised;
    kerf_weight planes = *w;
    unsigned foreign;
    *same = w->codec.format && strcmp(p->codec, kerf_weight_format(w, text, sizeof text)) == 0;
    if (*same || !w->codec.format || !w->plane[0]->block_type) return KERF_OK;
    KF_TRY(kerf_codec_find(p->codec, &promised, err));
    KF_TRY(kerf_weight_fit(c->compare.other, kerf_layout_at(0), &planes, &foreign, err));
    *same = promised.format == w->codec.format || promised.format == planes.codec.format;
    *same = *same && !is_edited(c, p);
    return KERF_OK;
}

/* What was measured of one promise: of one tensor, or of all experts that its stack became. */
typedef struct measurement {
    kerf_verify_row row; /* of the last one; its score is that of all */
    size_t parts, equal; /* equal: to the source, byte for byte; they lost nothing */
    int edited, shares, recoded;
} measurement;

static kerf_status measure_part(recipe_check *c, const kerf_promise *p, const kerf_weight *w,
                                measurement *m, kerf_error *err)
{
    int same;
    kerf_verify_row row = {.weight = w, .other = kerf_weights_find(c->output, w->name)};
    if (!row.other) {
        snprintf(m->row.problem, sizeof m->row.problem, "is not there");
        return KERF_OK;
    }
    m->parts++;
    KF_TRY(is_promised(c, row.other, p, &same, err));
    m->edited |= !same;
    if (!same) return KERF_OK;
    kf_work_item(c->compare.progress, w->name, "verify");
    KF_TRY(kf_compare_weights(&c->compare, &row, err));
    if (!row.measured && !row.problem[0]) {
        m->equal++;
        if (kf_is_equal_quantized(&row))
            KF_TRY(kf_score_equal(&c->compare, &row, err));
        else
            row.score.bytes = kerf_weight_bytes(row.other);
    }
    m->shares |= kerf_layout_shares_scale(row.other->layout, row.other->codec.format);
    m->recoded |= row.other->layout != kerf_layout_at(0);
    kerf_score_merge(&m->row.score, &row.score);
    if (row.problem[0]) memcpy(m->row.problem, row.problem, sizeof row.problem);
    return KERF_OK;
}

/* Experts that the output has one by one keep the promise of their stack together. */
static kerf_status measure_promise(recipe_check *c, const kerf_promise *p, measurement *m,
                                   kerf_error *err)
{
    const kerf_weight *w = kerf_weights_find(c->source, p->tensor);
    if (w) return measure_part(c, p, w, m, err);
    for (size_t i = 0; i < kerf_weights_count(c->source); i++) {
        w = kerf_weights_at(c->source, i);
        if (w->whole && strcmp(w->whole, p->tensor) == 0) KF_TRY(measure_part(c, p, w, m, err));
    }
    if (!m->parts) snprintf(m->row.problem, sizeof m->row.problem, "is not there");
    return KERF_OK;
}

static kerf_status check_promise(recipe_check *c, const kerf_promise *p, kerf_error *err)
{
    kerf_recipe_result *r = c->result;
    measurement m = {.parts = 0};
    KF_TRY(measure_promise(c, p, &m, err));
    if (m.edited) {
        r->edited++;
        return KERF_OK;
    }
    const double got = kerf_score_t2(&m.row.score);
    const double tolerance = m.shares    ? SHARED_TOLERANCE
                             : m.recoded ? RECODED_TOLERANCE
                                         : PROMISE_TOLERANCE;
    /* parts have scales of their own where the stack had one for each expert */
    const uint64_t more = m.parts > 1 ? MATRIX_BYTES * m.parts : 0;
    const int lossless = m.equal == m.parts; /* no more than any promise */
    if (m.row.problem[0]) {
        if (r->broken++ == 0)
            snprintf(r->first, sizeof r->first, "%.200s %.150s", p->tensor, m.row.problem);
    } else if (m.row.score.bytes < p->bytes || m.row.score.bytes - p->bytes > more) {
        note_broken(c, p->tensor, "bytes", (double)p->bytes, (double)m.row.score.bytes);
    } else if (!lossless && !(fabs(got - p->t2) <= tolerance * p->t2)) {
        note_broken(c, p->tensor, "t2", p->t2, got);
    } else {
        r->kept++;
    }
    return KERF_OK;
}

static kerf_status check_promises(recipe_check *c, kerf_error *err)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < c->recipe->promises; i++) {
        const kerf_weight *w = kerf_weights_find(c->source, c->recipe->promise[i].tensor);
        if (w) bytes += kerf_weight_bytes(w);
    }
    kf_work_phase(c->compare.progress, "verify", bytes);
    for (size_t i = 0; i < c->recipe->promises; i++) {
        const kerf_promise *p = &c->recipe->promise[i];
        kerf_status s = check_promise(c, p, err);
        if (s != KERF_OK) return s;
    }
    KF_TRY(kerf_reader_check(c->compare.source, err));
    return kerf_reader_check(c->compare.other, err);
}

kerf_status kerf_recipe_check(const kerf_recipe *r, const kerf_rule *further, size_t furthers,
                              const kerf_checkpoint *source, const kerf_checkpoint *output,
                              const kerf_exec *exec, const kerf_job *job, kerf_recipe_result *out,
                              kerf_error *err)
{
    static const kerf_exec all_cores = {0};
    kerf_weights *weights = NULL;
    kf_work work;
    *out = (kerf_recipe_result){0};
    recipe_check c = {.recipe = r,
                      .further = further,
                      .furthers = furthers,
                      .compare = {.source = kerf_checkpoint_reader(source),
                                  .other = kerf_checkpoint_reader(output),
                                  .exec = exec ? exec : &all_cores,
                                  .progress = &work},
                      .output = kerf_checkpoint_weights(output),
                      .result = out};
    KF_TRY(kf_weights_like(c.compare.source, c.output, &weights, err));
    c.source = weights;
    kf_work_open(&work, job);
    kerf_status s = kf_globs_open(&c.rules, r->rule, r->rules, sizeof *r->rule, err);
    if (s == KERF_OK) s = check_promises(&c, err);
    kf_globs_close(&c.rules);
    kf_work_close(&work);
    kerf_weights_close(weights);
    return s;
}
