/* findings.h - what is wrong, or odd, in a checkpoint. */
#ifndef KERF_FINDINGS_H
#define KERF_FINDINGS_H

#include <jansson.h>

#include "model/checkpoint.h"

typedef struct findings {
    json_t *list;  /* of {"severity", "tensor", "text"} */
    size_t errors; /* those that break the weights      */
} findings;

kerf_status findings_open(findings *f, kerf_error *err);
void findings_close(findings *f);

/* Reads the scale planes of every quantized weight, compares the members of fused groups, names
 * tensors that belong to no weight, and holds config.json against the tensors. */
kerf_status find_all(findings *f, const kerf_checkpoint *c, kerf_error *err);

/* --- its parts -------------------------------------------------------------------------------- */

void findings_add(findings *f, int is_error, const char *tensor, const char *text);

/* A weight whose bytes are well formed but were meant another way: zero points of another version,
 * scales in the order of a kernel, nibbles the wrong way round. */
kerf_status find_misread(findings *f, const kerf_checkpoint *c, const kerf_weight *w,
                         kerf_error *err);

#endif
