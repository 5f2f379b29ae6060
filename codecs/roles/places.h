/* places.h - the places of all tensors of a checkpoint (kerf/roles.h). */
#ifndef KERF_ROLES_PLACES_H
#define KERF_ROLES_PLACES_H

#include "roles/facts.h"

typedef struct kf_placed {
    const char *name;
    const kerf_shape *shape;
    kerf_place *place; /* what is found */
} kf_placed;

/* All of them, each by its name and shape, then their axes and stacks by each other and the sizes
 * of the model. Orders the list by name. */
void kf_places_find(const kf_facts *f, kf_placed *list, size_t count);

/* 1: rows are looked up in it, by token or position: no layer multiplies by it. Embeddings that are
 * layers (of times, of patches) have the same role. */
int kf_place_is_looked_up(const kerf_place *p, const char *name);

/* One of them, but for axes and stacks. */
void kf_place_name(const kf_facts *f, const char *name, const kerf_shape *shape, kerf_place *out);

#endif
