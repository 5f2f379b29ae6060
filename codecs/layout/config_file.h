/* config_file.h - the JSON files beside a model: config.json and others of its folder. */
#ifndef KERF_LAYOUT_CONFIG_FILE_H
#define KERF_LAYOUT_CONFIG_FILE_H

#include <jansson.h>
#include <kerf/layouts.h>

/* Reads a file of the folder of r as kf_json_read does, with the numbers that Python writes. */
kerf_status kf_config_load(const kerf_reader *r, const char *name, json_t **out, kerf_error *err);

#endif
