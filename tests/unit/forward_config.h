/* forward_config.h - what forward passes make of a config.json that a test writes as text. */
#ifndef KERF_TESTS_FORWARD_CONFIG_H
#define KERF_TESTS_FORWARD_CONFIG_H

#include "forward/decoder_config.h"
#include "test_output.h"

#include <jansson.h>

static inline void read_config(const char *text, kf_config *c)
{
    kerf_error err = {0};
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    must(kf_config_read(root, NULL, 1000, c, &err), &err);
    json_decref(root);
}

#endif
