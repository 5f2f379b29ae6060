/* advise_typical.h - kerf advise for a model without its weights. */
#ifndef KERF_ADVISE_TYPICAL_H
#define KERF_ADVISE_TYPICAL_H

#include "args.h"

/* Whether the operand is a config.json, or a folder with nothing but one. */
int is_config_alone(const char *path);
kerf_status advise_typical(const args *a, kerf_error *err);

#endif
