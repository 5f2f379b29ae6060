/* imatrix_dat.h - importance files of llama.cpp before it wrote them as GGUF: imatrix.dat.
 *
 * Little-endian: int32 number of entries; of each int32 length and name, int32 calls, int32 number
 * of values, the values in F32 (a mean square per column, times the calls); then what the file was
 * made from. Each entry becomes two tensors, NAME.values and NAME.calls. Source: llama.cpp,
 * tools/imatrix (save_imatrix_legacy), tools/quantize (load_legacy_imatrix). */
#ifndef KERF_FILE_IMATRIX_DAT_H
#define KERF_FILE_IMATRIX_DAT_H

#include "file/disk/blob.h"
#include "file/table/header.h"

#define KF_IMATRIX_VALUES ".values"
#define KF_IMATRIX_CALLS ".calls"

/* Whether a file may be one, by its first bytes: no safetensors file has a header of such a length.
 */
int kf_imatrix_dat_is(const uint8_t first[8]);

/* Reads and validates all of it but the values. */
kerf_status kf_imatrix_dat_read(const kf_blob *b, kf_header *out, kerf_error *err);

#endif
