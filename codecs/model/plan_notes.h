/* plan_notes.h - what a plan says besides its decisions. */
#ifndef KERF_MODEL_PLAN_NOTES_H
#define KERF_MODEL_PLAN_NOTES_H

#include "file/json/text.h"
#include "model/decide.h"
#include "model/made_scales.h"
#include "model/manifest.h"

enum { KF_NOTES_MOST = 16 };

typedef struct kf_notes {
    char *note[KF_NOTES_MOST];
    size_t count;
} kf_notes;

kerf_status kf_notes_make(kf_notes *n, const kerf_checkpoint *source, const kf_decisions *d,
                          kerf_error *err);
/* Takes the text of t, also after a failure. */
kerf_status kf_notes_add(kf_notes *n, kf_text *t, kerf_error *err);
/* Rules that decide nothing, and matrices that one leaves. */
kerf_status kf_notes_rules(kf_notes *n, const kf_decisions *d, kerf_error *err);
/* `count` weights, `first` among them, that are encoded without error feedback. */
kerf_status kf_notes_feedback(kf_notes *n, size_t count, const char *first, kerf_error *err);
/* Scales that were made of what `to` says. */
kerf_status kf_notes_made(kf_notes *n, const kf_made_scales *m, const kerf_output *to,
                          kerf_error *err);
/* An imatrix was given, and no encoder takes it. */
kerf_status kf_notes_unused(kf_notes *n, const kf_decisions *d, kerf_error *err);
/* Folders in that of the source which its loaders read and no output has: `to`, its path, or NULL.
 */
kerf_status kf_notes_subfolders(kf_notes *n, const kerf_reader *r, const char *to, kerf_error *err);
/* A layout whose loaders read config.json, which this output, a folder, has none of. */
int kf_is_undeclared(const kf_manifest *m, const kerf_layout *l, const char *to);
kerf_status kf_notes_undeclared(kf_notes *n, const kerf_reader *r, const kf_manifest *m,
                                const kerf_layout *l, const char *to, kerf_error *err);
/* Experts whose names the loaders of the layout do not look for. */
kerf_status kf_notes_renamed(kf_notes *n, const kerf_checkpoint *source, const kerf_layout *l,
                             kerf_error *err);
/* What was seen in numbers: `seen` has KF_SAW_... of each decision; nan: as it was quantized. */
enum {
    KF_SAW_NAN = 1,
    KF_SAW_INF = 2,
    KF_SAW_ZEROS = 4,
    KF_SAW_UNWEIGHTED = 8,
    KF_SAW_OVERFLOW = 16
};
kerf_status kf_notes_seen(kf_notes *n, const kf_decisions *d, const unsigned char *seen,
                          kerf_nan nan, kerf_error *err);
void kf_notes_free(kf_notes *n); /* all zeros are fine */

#endif
