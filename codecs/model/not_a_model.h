/* not_a_model.h - files of numbers about a model, which kerf reads beside it: an imatrix, a
 * calibration, kept scores. Their tensors are named as weights are, so that nothing but this tells
 * them apart from a model. */
#ifndef KERF_MODEL_NOT_A_MODEL_H
#define KERF_MODEL_NOT_A_MODEL_H

#include "model/checkpoint_view.h"

/* What it is, and which option or command takes it; NULL: as far as can be seen, a model. */
const char *kf_not_a_model(const kerf_checkpoint *c);

/* For calls that make something of weights: KERF_E_DATA for what is no model, and the errors of
 * kf_config_check_read and kf_refuse_strays. */
kerf_status kf_refuse_source(const kerf_checkpoint *c, kerf_error *err);

#endif
