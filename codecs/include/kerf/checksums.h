/* checksums.h - SHA-256 of files, in the form that other programs check. */
#ifndef KERF_CHECKSUMS_H
#define KERF_CHECKSUMS_H

#include <kerf/codec.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "ba7816bf...15ad" and a 0. */
#define KERF_SHA256_TEXT 65

/* SHA-256 (FIPS 180-4) of n bytes as lower-case hexadecimal digits. Returns out. */
KERF_API char *kerf_sha256(const void *p, size_t n, char out[KERF_SHA256_TEXT]);

/* A line for the file `path`, or for each regular file of the folder `path` in the order of their
 * names, as `sha256sum -c` reads it in the folder that holds `path`: digest, two spaces, name. The
 * text is malloc'd and ends in a 0. KERF_E_IO: a file cannot be read. */
KERF_API KERF_CHECK kerf_status kerf_checksums(const char *path, char **text, size_t *n,
                                               kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
