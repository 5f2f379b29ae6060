/* weights.h - the table behind kerf_weights, for those who fill it. */
#ifndef KERF_FILE_WEIGHTS_H
#define KERF_FILE_WEIGHTS_H

#include "file/safetensors/safetensors.h"

struct kerf_weights {
    kerf_weight *weight;
    kf_named *by_name;
    size_t count;
    char **name; /* those that no tensor has as its own */
    size_t names;
    void **owned; /* what weights that were arranged anew are made of */
    size_t owned_count;
};

/* Sorts by_name anew. KERF_E_DATA: two have one name. */
kerf_status kf_weights_index(kerf_weights *w, kerf_error *err);

#endif
