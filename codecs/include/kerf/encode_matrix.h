/* encode_matrix.h - a whole matrix in memory to the planes of a format and back, each in one call.
 *
 * The geometry says how large everything is, and the caller owns all memory:
 *
 *   kerf_codec_find("nvfp4:4/6", &codec, &err);
 *   kerf_geometry_init(&g, codec.format, &(kerf_shape){2, {rows, cols}}, &err);
 *   for (int p = 0; p < KERF_PLANES; p++)
 *       planes[p] = (kerf_span){malloc(g.plane[p].bytes), g.plane[p].bytes};
 *   kerf_encode_matrix(&g, codec.encoder, source, KERF_BF16, planes, NULL, NULL, &err);
 *
 * A tensor of rank 3 or more is a stack of matrices and is taken whole, too. What does not fit into
 * memory goes through the calls of codec.h, some bands at a time; the bytes are the same.
 */
#ifndef KERF_ENCODE_MATRIX_H
#define KERF_ENCODE_MATRIX_H

#include <kerf/job.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Measures, where the format needs it, and encodes.
 *
 * encoder   NULL: the format's default
 * src       g->elements numbers of type F32, F16 or BF16, row after row without gaps, any alignment
 * dst       g->plane[p].bytes for each plane that the format has; the others are ignored. No plane
 *           may overlap the source
 * exec      NULL: all cores, the fastest backend, and NaN or Inf is an error
 * job       NULL, or who is told (bytes of the source; the phases are "measure" and "encode") and
 *           asked whether to go on
 *
 * Rounding and saturation are the encoder's: see the header of its family in codecs/block/.
 *
 * KERF_E_BUFFER  a span is too short
 * KERF_E_NOSUP   numbers of another type, an encoder that needs a source of another type, no such
 *                backend
 * KERF_E_ARG     the encoder belongs to other formats, or a span is NULL
 *                (after these nothing was written; after the following dst is unspecified)
 * KERF_E_DATA    NaN or Inf under KERF_NAN_ERROR; kerf_error.offset is the first such element
 * KERF_E_CANCELED, KERF_E_NOMEM, KERF_E_CUDA
 */
KERF_API KERF_CHECK kerf_status kerf_encode_matrix(
    const kerf_geometry *g, const kerf_encoder *encoder, kerf_cspan src, kerf_dtype dtype,
    const kerf_span dst[KERF_PLANES], const kerf_exec *exec, const kerf_job *job, kerf_error *err);

/* Decodes to g->elements numbers of type F32, F16 or BF16: one fp32 product per level of scale,
 * then one rounding to nearest even. Every byte pattern is decodable; scale bytes that mean NaN
 * decode to NaN. Arguments and errors as above, without KERF_E_DATA; the phase is "decode", and
 * bytes are those of dst. */
KERF_API KERF_CHECK kerf_status kerf_decode_matrix(const kerf_geometry *g,
                                                   const kerf_cspan src[KERF_PLANES], kerf_span dst,
                                                   kerf_dtype dtype, const kerf_exec *exec,
                                                   const kerf_job *job, kerf_error *err);

/* Writes the values that each matrix has once, and nothing else: what kerf_encode writes for the
 * first band of each. They follow from the statistics alone (which may be NULL where
 * kerf_needs_stats says no), so bands can then be encoded in any order, or by several callers.
 * source: type of the numbers that were measured. */
KERF_API KERF_CHECK kerf_status kerf_encode_matrix_values(
    const kerf_geometry *g, const kerf_encoder *encoder, const kerf_stats *stats, kerf_dtype source,
    const kerf_span dst[KERF_PLANES], kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
