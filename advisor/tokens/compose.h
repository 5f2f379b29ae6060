/* compose.h - canonical normalization of Unicode text: NFC and NFD. */
#ifndef KERF_TOKENS_COMPOSE_H
#define KERF_TOKENS_COMPOSE_H

#include "file/json/text.h"

/* Adds the normal form of n bytes of UTF-8 to out: composed (NFC), or not (NFD). */
void kf_unicode_normalize(const char *text, size_t n, int composed, kf_text *out);

#endif
