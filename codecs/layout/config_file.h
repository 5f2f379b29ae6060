/* config_file.h - the JSON files beside a model: config.json and others of its folder. */
#ifndef KERF_LAYOUT_CONFIG_FILE_H
#define KERF_LAYOUT_CONFIG_FILE_H

#include <jansson.h>
#include <kerf/layouts.h>

/* Reads a file of the folder of r as kf_json_read does, with the numbers that Python writes. *out
 * is NULL when it is not there; one that is there and cannot be read is a failure. */
kerf_status kf_config_load(const kerf_reader *r, const char *name, json_t **out, kerf_error *err);

/* The same for questions that a file which is not JSON does not answer: it is not there. */
kerf_status kf_config_load_sound(const kerf_reader *r, const char *name, json_t **out,
                                 kerf_error *err);

/* Fails when a model folder has a config.json that cannot be read or is not JSON: what its weights
 * mean may stand there. */
kerf_status kf_config_check_read(const kerf_reader *r, kerf_error *err);

/* What a config.json says of how its weights are quantized; NULL: nothing. Checkpoints of several
 * modalities may say it beside their language model: vLLM looks at the top and then in text_config,
 * LMDeploy wherever it is. *second (may be NULL): the object of config.json that has another one,
 * which says something else; NULL: none has. */
const json_t *kf_config_quantization(const json_t *config, const char **second);

/* 1: config.json names a method of quantization that no layout has; which one, printable and cut to
 * size, goes to method. */
int kf_config_foreign(const kerf_reader *r, char *method, size_t size);

#endif
