/* kerf.h - all of libkerf: codecs and files, products, advice. The headers below may be included
 * one by one as well; each stands alone. */
#ifndef KERF_KERF_H
#define KERF_KERF_H

#include <kerf/checkpoint.h>
#include <kerf/checksums.h>
#include <kerf/codec.h>
#include <kerf/cuda.h>
#include <kerf/encode_matrix.h>
#include <kerf/feedback.h>
#include <kerf/file.h>
#include <kerf/importance.h>
#include <kerf/inspect.h>
#include <kerf/job.h>
#include <kerf/layouts.h>
#include <kerf/loss.h>
#include <kerf/parts.h>
#include <kerf/quantize.h>
#include <kerf/ranks.h>
#include <kerf/roles.h>
#include <kerf/rounding.h>
#include <kerf/selftest.h>
#include <kerf/words.h>
#include <kerf/forward.h>
#include <kerf/gemm.h>
#include <kerf/gemv.h>
#include <kerf/gemv_experts.h>
#include <kerf/gemv_nvfp4.h>
#include <kerf/gemv_time.h>
#include <kerf/gemv_tune.h>
#include <kerf/advise.h>
#include <kerf/advisor.h>
#include <kerf/calibrate.h>
#include <kerf/choose.h>
#include <kerf/eval.h>
#include <kerf/hardware.h>
#include <kerf/measure.h>
#include <kerf/model.h>
#include <kerf/monitor.h>
#include <kerf/predict.h>
#include <kerf/predictions.h>
#include <kerf/recipe.h>
#include <kerf/runtimes.h>
#include <kerf/score.h>
#include <kerf/tokens.h>
#include <kerf/typical.h>
#include <kerf/verify.h>

#endif
