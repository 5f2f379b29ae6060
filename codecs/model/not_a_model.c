/* not_a_model.c - tells an imatrix, a calibration and kept scores by what every tensor of theirs
 * has in common: a metadata key, or the end of its name, or that a matrix has one row only. */
#include "model/not_a_model.h"

#include <stdio.h>
#include <string.h>

#include <kerf/roles.h>

#include "base/base.h"
#include "file/gguf/imatrix_dat.h"
#include "layout/config_file.h"
#include "model/stray.h"

#define CALIBRATION "kerf.calibration/"

static int is_calibration(const kerf_reader *r)
{
    const char *schema = kerf_reader_metadata(r, 0, "kerf.schema");
    return schema && strncmp(schema, CALIBRATION, strlen(CALIBRATION)) == 0;
}

/* Whether every tensor's name ends in one or the other, and both are there. */
static int are_pairs(const kerf_reader *r, const char *one, const char *other)
{
    int ones = 0, others = 0;
    for (size_t i = 0; i < kerf_reader_count(r); i++) {
        const char *name = kerf_reader_at(r, i)->name;
        const int is_one = kf_has_suffix(name, one);
        if (!is_one && !kf_has_suffix(name, other)) return 0;
        ones |= is_one;
        others |= !is_one;
    }
    return ones && others;
}

/* A mean per column of a weight: it has the weight's name and one row, or one for each expert with
 * their tokens in NAME.count. */
static int is_mean(const kerf_reader *r, const kerf_tensor *t)
{
    char count[KERF_MAX_NAME_BYTES + 8];
    kerf_place place;
    if (t->dtype != KERF_F32 || t->block_type || !kf_has_suffix(t->name, ".weight")) return 0;
    snprintf(count, sizeof count, "%s.count", t->name);
    if (t->shape.rank != 1 && (t->shape.rank != 2 || !kerf_reader_find(r, count))) return 0;
    kerf_place_find(NULL, t->name, &t->shape, &place);
    return place.role != KERF_ROLE_NORM && place.piece != KERF_PIECE_NONE;
}

static int are_means(const kerf_reader *r)
{
    int means = 0;
    for (size_t i = 0; i < kerf_reader_count(r); i++) {
        const kerf_tensor *t = kerf_reader_at(r, i);
        if (kf_has_suffix(t->name, ".count")) continue;
        if (!is_mean(r, t)) return 0;
        means = 1;
    }
    return means;
}

const char *kf_not_a_model(const kerf_checkpoint *c)
{
    const kerf_reader *r = c->reader;
    if (is_calibration(r))
        return "a calibration, which says how much the inputs of weights matter and holds no "
               "weights: give the model, and this with --calibration (kerf quantize, score, "
               "advise)";
    if (are_pairs(r, ".in_sum2", ".counts") || are_pairs(r, KF_IMATRIX_VALUES, KF_IMATRIX_CALLS) ||
        are_means(r))
        return "an imatrix, which says how much the columns of weights matter and holds no "
               "weights: give the model, and this with --imatrix (kerf quantize, score, advise)";
    if (are_pairs(r, ".sums", ".counts"))
        return "scores that were kept, which hold no weights: kerf score prints the folder that "
               "they are in";
    return NULL;
}

kerf_status kf_refuse_source(const kerf_checkpoint *c, kerf_error *err)
{
    const char *what = kf_not_a_model(c);
    KF_TRY(kf_config_check_read(c->reader, err));
    if (what) return kf_fail(err, KERF_E_DATA, KF_NOWHERE, "%.200s: %s", c->path, what);
    return kf_refuse_strays(c, err);
}
