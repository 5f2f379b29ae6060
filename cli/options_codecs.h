/* options_codecs.h - the lists of -f: several formats, with or without their encoders. */
#ifndef KERF_OPTIONS_CODECS_H
#define KERF_OPTIONS_CODECS_H

#include "cli.h"

typedef struct codec_list {
    kerf_codec *item;     /* each once, in the order of the format table       */
    unsigned char *named; /* by its own name, not only through a pattern       */
    size_t count;
} codec_list;

/* text: comma-separated; a word is FORMAT (default encoder), FORMAT:ENCODER, a shell pattern over
 * either, or "all". NULL: every format, and every encoder of those that have several to
 * recommend (nvfp4 and the mx formats). */
kerf_status codec_list_parse(codec_list *out, const char *text, kerf_error *err);
void codec_list_free(codec_list *l);

#endif
