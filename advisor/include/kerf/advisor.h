/* advisor.h - all of the advisor: what formats cost, what to choose, and whether it held. */
#ifndef KERF_ADVISOR_H
#define KERF_ADVISOR_H

#include <kerf/advise.h>
#include <kerf/calibrate.h>
#include <kerf/choose.h>
#include <kerf/eval.h>
#include <kerf/recipe.h>
#include <kerf/runtimes.h>
#include <kerf/score.h>
#include <kerf/tokens.h>
#include <kerf/typical.h>
#include <kerf/verify.h>

#endif
