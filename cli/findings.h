/* findings.h - what is wrong, or odd, in the scales of a checkpoint. */
#ifndef KERF_FINDINGS_H
#define KERF_FINDINGS_H

#include <jansson.h>

#include "checkpoint.h"

typedef struct findings {
    json_t *list;  /* of {"severity", "tensor", "text"} */
    size_t errors; /* those that break the weights      */
} findings;

kerf_status findings_open(findings *f, kerf_error *err);
void findings_close(findings *f);

/* Reads the scale planes of every quantized weight, compares the members of fused groups, names
 * tensors that belong to no weight, and holds config.json against the tensors. */
kerf_status find_all(findings *f, const checkpoint *c, kerf_error *err);

#endif
