/* made_scales.h - scales that an output has and its source has not, of what a calibration has seen:
 * of the inputs of quantized layers, and of the KV cache. Each is a tensor of one F32, and a weight
 * of the output like those that a source brings along (layout/input_scales.h). */
#ifndef KERF_MODEL_MADE_SCALES_H
#define KERF_MODEL_MADE_SCALES_H

#include "layout/input_scales.h"
#include "model/decide.h"

typedef struct kf_made_scale {
    kerf_weight weight;    /* dense, of one number */
    kf_input_scale *scale; /* owned: its tensor    */
    float value;           /* as the layout has it */
} kf_made_scale;

typedef struct kf_made_scales {
    kf_made_scale *item;
    size_t count;
    size_t inputs; /* of them: those of inputs, which come first                                  */
    size_t borrowed; /* of experts that nothing came to: they have the largest of their layer's */
} kf_made_scales;

/* What both are made of. */
typedef struct kf_making {
    const kerf_weights *all; /* of the source */
    const kf_decisions *decided;
    kf_made_scales *out;
} kf_making;

/* Of inputs: the number of the largest input of each layer, beside each quantized weight whose
 * layout reads one there. Layers that loaders merge have one input, and get the largest of what is
 * known of them. from->largest NULL: none. KERF_E_ARG: none of the weights has such a scale in this
 * layout, or the largest input of one is not known, or is nothing that a scale can be made of, as
 * 0. */
kerf_status kf_make_input_scales(const kf_making *m, const kerf_inputs *from, kerf_error *err);

/* Of an FP8 cache: the largest key and the largest value of each layer / 448, two for each. They
 * are made after those of inputs. from->largest NULL: none. KERF_E_ARG: the layout has no words for
 * a cache, no layer's keys and values are known under names that loaders find, a scale is in the
 * source already, or the largest is nothing that one can be made of. */
kerf_status kf_make_cache_scales(const kf_making *m, const kerf_cached *from, kerf_error *err);

void kf_made_scales_close(kf_made_scales *m); /* all zeros are fine */

/* --- for those two ---------------------------------------------------------------------------- */

/* Makes room for so many more. */
kerf_status kf_made_scales_room(kf_made_scales *m, size_t more, kerf_error *err);

/* Takes the scale over. There must be room. */
void kf_made_scales_add(kf_made_scales *m, kf_input_scale *scale, float value);

/* Whether the output has a tensor of this name from its source. A scale that went with what is
 * decoded now does not: it was of other codes. */
int kf_is_brought(const kf_making *m, const char *name);

/* The scale of what was at most `largest`, which codes up to `reach` must hold; 0: there is none.
 */
float kf_scale_of(float largest, double reach);

#endif
