/* gguf_bytes.h - GGUF files from one line of text, for tests: what stands in the line stands in the
 * file, byte by byte, and nothing is derived, so that a line can also say what no writer would.
 *
 *   'text'     these bytes
 *   s'text'    its length in 8 bytes, then these bytes
 *   123:4      a number in so many bytes
 *   *N C       N bytes of value C, as in *64 0
 *   a32        zero bytes up to a multiple of 32
 */
#ifndef KERF_TESTS_GGUF_BYTES_H
#define KERF_TESTS_GGUF_BYTES_H

#include "bytes.h"

/* The beginning of a file, keys, tensors (dimensions as in the file, innermost first). */
#define G_HEAD(tensors, keys) "'GGUF' 3:4 " #tensors ":8 " #keys ":8 "
#define G_STRING(name, value) "s'" name "' 8:4 s'" value "' "
#define G_U32(name, value) "s'" name "' 4:4 " #value ":4 "
#define G_TENSOR1(name, n, type, offset) "s'" name "' 1:4 " #n ":8 " #type ":4 " #offset ":8 "
#define G_TENSOR2(name, n, m, type, offset) \
    "s'" name "' 2:4 " #n ":8 " #m ":8 " #type ":4 " #offset ":8 "

static inline void gguf_text(struct bytes *b, const char **line, int counted)
{
    const char *end = strchr(++*line, '\'');
    if (!end) exit(70);
    if (counted) bytes_number(b, (uint64_t)(end - *line), 8);
    bytes_add(b, *line, (size_t)(end - *line));
    *line = end + 1;
}

static inline void gguf_number(struct bytes *b, const char **line)
{
    char *end;
    uint64_t v = strtoull(*line, &end, 0);
    if (*end != ':') {
        fprintf(stderr, "gguf_bytes: %.40s\n", *line);
        exit(70);
    }
    bytes_number(b, v, (int)strtol(end + 1, &end, 10));
    *line = end;
}

static inline void gguf_bytes(struct bytes *b, const char *line)
{
    while (*line) {
        char *end;
        if (*line == ' ') {
            line++;
        } else if (*line == '\'') {
            gguf_text(b, &line, 0);
        } else if (line[0] == 's' && line[1] == '\'') {
            line++;
            gguf_text(b, &line, 1);
        } else if (*line == 'a') {
            size_t to = strtoul(line + 1, &end, 10);
            while (b->n % to) bytes_zeros(b, 1);
            line = end;
        } else if (*line == '*') {
            size_t n = strtoul(line + 1, &end, 10);
            unsigned char c = (unsigned char)strtoul(end, &end, 10);
            for (size_t i = 0; i < n; i++) bytes_add(b, &c, 1);
            line = end;
        } else {
            gguf_number(b, &line);
        }
    }
}

#endif
