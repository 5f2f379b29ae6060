/* gguf_keys.h - the keys in the header of a GGUF file, and what they say of the file itself. */
#ifndef KERF_FILE_GGUF_KEYS_H
#define KERF_FILE_GGUF_KEYS_H

#include "file/gguf/gguf_cursor.h"

/* Reads key i of p->out: its record and, into `name`, which has KF_GGUF_MAX_KEY_BYTES + 1 bytes,
 * its name. Alignment and version are taken from the keys that tell them. */
kerf_status kf_gguf_take_key(kf_gguf_cursor *p, size_t i, char *name);

#endif
