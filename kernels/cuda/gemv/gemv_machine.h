/* gemv_machine.h - what a GPU that is here says of itself, for the division of products. */
#ifndef KERF_GEMV_MACHINE_H
#define KERF_GEMV_MACHINE_H

#include "plan/gemv_tuning.h"

/* Leaves the GPU chosen. */
kerf_status kf_gemv_ask_machine(int ordinal, kf_gemv_machine *out, kerf_error *err);

#endif
