/* codec.h - few-bit number formats: what they are, how large they are, encode and decode.
 *
 * A tensor is encoded in three steps, so that a caller can stream tensors of any size:
 *
 *   kerf_geometry_init   format x shape -> planes (dtype, shape, bytes) and bands
 *   kerf_measure         pass over the source for formats with a per-matrix scale
 *   kerf_encode          bands of the source -> the same bands of every plane
 *
 * A band is the smallest run of elements that can be encoded alone: a row, 128 rows (TILE
 * formats) or 16,384 elements (FLAT formats). Bands are contiguous in the source and in every
 * plane, so any range of bands is one pointer and one length each.
 *
 * The bytes depend on format, encoder and source alone: never on the thread count, the backend,
 * the compiler, or how the bands were cut into calls.
 *
 * Threads: every function may be called from any thread. Nothing here prints, exits, aborts or
 * reads the environment. Sizes are bytes unless a name says otherwise. All data is little-endian.
 * In all headers: no pointer is NULL unless the text says that it may be, or its span is empty.
 */
#ifndef KERF_CODEC_H
#define KERF_CODEC_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define KERF_API __attribute__((visibility("default")))
#define KERF_CHECK __attribute__((warn_unused_result))
#define KERF_PRINTF(a, b) __attribute__((format(printf, a, b)))
#else
#define KERF_API
#define KERF_CHECK
#define KERF_PRINTF(a, b)
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define KERF_VERSION_MAJOR 0
#define KERF_VERSION_MINOR 1
#define KERF_VERSION_PATCH 0
#define KERF_VERSION_TEXT "0.1.0"

/* --- status ------------------------------------------------------------------------------- */

/* Values are frozen. */
typedef enum kerf_status {
    KERF_OK = 0,
    KERF_E_ARG = -1,     /* the caller broke a documented precondition                        */
    KERF_E_NOMEM = -2,   /* host or device allocation failed                                  */
    KERF_E_DATA = -3,    /* the input is not what it claims to be, or holds NaN or Inf        */
    KERF_E_LIMIT = -4,   /* well formed, but above a documented bound                         */
    KERF_E_RANGE = -5,   /* size arithmetic would overflow                                    */
    KERF_E_BUFFER = -6,  /* a span is too short; nothing was written                          */
    KERF_E_NOSUP = -7,   /* this combination does not exist; the text says what would work    */
    KERF_E_CUDA = -8,    /* native = cudaError_t                                              */
    KERF_E_IO = -9,      /* native = errno                                                    */
    KERF_E_EXISTS = -10, /* the output is already there                                       */
    KERF_E_CANCELED = -11
} kerf_status;

/* Detail of a failure. Owned by the caller, never allocated; pass NULL when only the status
 * matters. Untouched on success. */
typedef struct kerf_error {
    kerf_status status;
    int32_t native;  /* errno or cudaError_t, else 0               */
    uint64_t offset; /* element or byte in the input, or UINT64_MAX */
    char text[512];  /* one line, UTF-8, always terminated         */
} kerf_error;

/* Fills err (which may be NULL) with a status and a text of one line, cut to size, and returns the
 * status. For functions that the library calls back, and for programs that fail in the same way. */
KERF_API kerf_status kerf_fail(kerf_error *err, kerf_status s, const char *fmt, ...)
    KERF_PRINTF(3, 4);

KERF_API uint32_t kerf_version(void); /* 0x00MMmmpp */
KERF_API const char *kerf_status_name(kerf_status s);

/* --- element types of tensors --------------------------------------------------------------
 * The names of safetensors, in its order: writers place wider types first. */
#define KERF_DTYPES(X)                                                                           \
    X(BOOL, 8)                                                                                   \
    X(F4, 4)                                                                                     \
    X(F6_E2M3, 6)                                                                                \
    X(F6_E3M2, 6)                                                                                \
    X(U8, 8)                                                                                     \
    X(I8, 8) X(F8_E5M2, 8) X(F8_E4M3, 8) X(F8_E8M0, 8) X(F8_E4M3FNUZ, 8) X(F8_E5M2FNUZ, 8)       \
        X(I16, 16) X(U16, 16) X(F16, 16) X(BF16, 16) X(I32, 32) X(U32, 32) X(F32, 32) X(C64, 64) \
            X(F64, 64) X(I64, 64) X(U64, 64)

typedef enum kerf_dtype {
    KERF_DTYPE_NONE = 0,
#define X(name, bits) KERF_##name,
    KERF_DTYPES(X)
#undef X
} kerf_dtype;

KERF_API const char *kerf_dtype_name(kerf_dtype t);    /* "BF16"; "?" for no dtype    */
KERF_API unsigned kerf_dtype_bits(kerf_dtype t);       /* per element; 0 for no dtype */
KERF_API kerf_dtype kerf_dtype_find(const char *name); /* KERF_DTYPE_NONE if unknown  */

/* --- formats and encoders ----------------------------------------------------------------- */

typedef enum kerf_family {
    KERF_FAMILY_NONE = 0,
#define KERF_FAMILY(ID, prefix) KERF_FAMILY_##ID,
#include "formats.def"
#undef KERF_FAMILY
} kerf_family;

typedef enum kerf_element {
    KERF_ELEM_F32,
    KERF_ELEM_F16,
    KERF_ELEM_BF16, /* IEEE, bfloat16                  */
    KERF_ELEM_E4M3,
    KERF_ELEM_E5M2, /* OFP8: E4M3 has no Inf           */
    KERF_ELEM_E2M3,
    KERF_ELEM_E3M2,
    KERF_ELEM_E2M1, /* OCP MX: no Inf, no NaN          */
    KERF_ELEM_MXI8, /* two's complement x 2^-6         */
    KERF_ELEM_NF4,  /* index into the NF4 code book    */
    KERF_ELEM_S8,
    KERF_ELEM_S4,
    KERF_ELEM_S2, /* two's complement                */
    KERF_ELEM_U4,
    KERF_ELEM_U2, /* unsigned, minus the zero point  */
    KERF_ELEM_U3,
    KERF_ELEM_U5,
    KERF_ELEM_U6 /* unsigned; also U4 and U2 of geometry SUPER */
} kerf_element;

typedef enum kerf_group_kind {
    KERF_GROUP_NONE,
    KERF_GROUP_TENSOR,
    KERF_GROUP_ROW,
    KERF_GROUP_BLOCK,
    KERF_GROUP_TILE,
    KERF_GROUP_FLAT,
    KERF_GROUP_STRUCT,
    KERF_GROUP_SUPER
} kerf_group_kind;

typedef enum kerf_scale_kind {
    KERF_SCALE_NONE,
    KERF_SCALE_F32,
    KERF_SCALE_F16,
    KERF_SCALE_BF16,
    KERF_SCALE_E8M0,
    KERF_SCALE_E4M3,
    KERF_SCALE_MAP8 /* index into bitsandbytes' signed dynamic map */
} kerf_scale_kind;

typedef enum kerf_second_kind {
    KERF_SECOND_NONE,
    KERF_SECOND_TENSOR,
    KERF_SECOND_NESTED
} kerf_second_kind;
typedef enum kerf_zero_kind { KERF_ZERO_NONE, KERF_ZERO_CODE, KERF_ZERO_F32 } kerf_zero_kind;

typedef enum kerf_format_id {
#define KERF_FORMAT(ID, wire, ...) KERF_FORMAT_##ID = wire,
#include "formats.def"
#undef KERF_FORMAT
    KERF_FORMAT_ID_MAX = 0x7fffffff
} kerf_format_id;

/* One row of formats.def; static storage. */
typedef struct kerf_format {
    kerf_format_id id;
    const char *name; /* "nvfp4"                                 */
    kerf_family family;
    kerf_element element;
    unsigned bits; /* of one code: 2 to 6, 8, 16, 32          */
    kerf_group_kind geometry;
    unsigned group; /* elements (per side, for tiles) or 0     */
    kerf_scale_kind scale;
    kerf_second_kind second;
    kerf_zero_kind zero;
    const char *default_encoder;
    const char *note;
} kerf_format;

typedef enum kerf_encoder_id {
    KERF_ENC_NONE = 0,
#define KERF_ENCODER(family, ID, ...) KERF_ENC_##family##_##ID,
#include "formats.def"
#undef KERF_ENCODER
} kerf_encoder_id;

typedef struct kerf_encoder {
    kerf_encoder_id id;
    kerf_family family;
    const char *name;   /* "4/6"                                   */
    const char *source; /* project, paper or function              */
} kerf_encoder;

/* What `-f FORMAT[:ENCODER]` names. */
typedef struct kerf_codec {
    const kerf_format *format;
    const kerf_encoder *encoder;
} kerf_codec;

KERF_API size_t kerf_format_count(void);
KERF_API const kerf_format *kerf_format_at(size_t i);           /* NULL past the end */
KERF_API const kerf_format *kerf_format_find(const char *name); /* NULL if unknown   */

/* The encoders of one format, its default first. */
KERF_API size_t kerf_encoder_count(const kerf_format *f);
KERF_API const kerf_encoder *kerf_encoder_at(const kerf_format *f, size_t i);

/* What a person means by "NVFP4:4/6" (without case and dashes), or by a name that others have for
 * it. KERF_E_ARG: none, or several; the text says which. KERF_E_NOSUP: it has no such encoder. */
KERF_API KERF_CHECK kerf_status kerf_codec_find(const char *text, kerf_codec *out, kerf_error *err);

/* Writes "nvfp4:4/6" into out (cut to size, always terminated); returns out. */
KERF_API char *kerf_codec_name(kerf_codec c, char *out, size_t size);

/* Codecs that are picked by words; all zeros to begin with. */
typedef struct kerf_codec_list {
    kerf_codec *codec;    /* [count] each once, in the order of the format table       */
    unsigned char *named; /* [count] 1: by its own name, not only through a pattern    */
    size_t count;
    unsigned char *mark; /* what has picked which codec of the table                  */
} kerf_codec_list;

/* Adds what a word picks: FORMAT (its default encoder), FORMAT:ENCODER, a shell pattern over
 * either, or "all". *picked: how many; a pattern may pick none. Errors as of kerf_codec_find. */
KERF_API KERF_CHECK kerf_status kerf_codec_list_add(kerf_codec_list *l, const char *word,
                                                    size_t *picked, kerf_error *err);
KERF_API void kerf_codec_list_free(kerf_codec_list *l); /* all zeros are fine */

/* What a format is, for a person: "E2M1"; "32", "row", "128x128": which elements share a scale;
 * "E4M3 + F32": its scales. KERF_FORMAT_TEXT bytes hold the longest; cut to size. Return out. */
#define KERF_FORMAT_TEXT 48
KERF_API const char *kerf_element_text(kerf_element e);
KERF_API char *kerf_group_text(const kerf_format *f, char *out, size_t size);
KERF_API char *kerf_scale_text(const kerf_format *f, char *out, size_t size);

/* --- shapes, planes, bands ---------------------------------------------------------------- */

#define KERF_MAX_RANK 8

/* Row-major; rank 0 is a scalar, above KERF_MAX_RANK is none; a zero dimension: an empty tensor. */
typedef struct kerf_shape {
    unsigned rank;
    uint64_t dim[KERF_MAX_RANK];
} kerf_shape;

/* 1: same rank and same dimensions. What lies behind the rank does not matter. */
KERF_API int kerf_shape_equal(const kerf_shape *a, const kerf_shape *b);

/* Product of the dimensions; KERF_E_RANGE: that of those above 0 overflows, or rank is too high. */
KERF_API KERF_CHECK kerf_status kerf_shape_count(const kerf_shape *s, uint64_t *out,
                                                 kerf_error *err);

typedef enum kerf_plane_id {
    KERF_PLANE_CODES,  /* packed codes, rows padded to whole bytes with zero bits            */
    KERF_PLANE_SCALES, /* one per group                                                      */
    KERF_PLANE_SECOND, /* second-level scale, F32                                            */
    KERF_PLANE_ZEROS,  /* zero points, or the F32 offset of nf4-dq                           */
    KERF_PLANES
} kerf_plane_id;

/* One contiguous array of an encoded tensor, as it stands in a checkpoint. */
typedef struct kerf_plane {
    kerf_dtype dtype; /* KERF_DTYPE_NONE: this format has no such plane                    */
    kerf_shape shape; /* sub-byte codes are U8 with the bytes of a row as last dimension    */
    uint64_t bytes;
    int per_matrix;      /* holds one value per matrix instead of a part per band             */
    uint64_t band_bytes; /* of a whole band; 0 when per_matrix                                */
} kerf_plane;

/* How a tensor of this shape lies in this format. A tensor of rank 3 and more is a stack of
 * matrices: the last dimension is a row, the one before counts rows, the others count matrices
 * (experts). Rank 1 is one row. FLAT formats see one row of all elements. */
typedef struct kerf_geometry {
    const kerf_format *format;
    kerf_shape shape;
    uint64_t elements;
    uint64_t matrices, rows, cols; /* rows and cols of one matrix; FLAT: 1, 1, elements      */
    uint64_t bands;                /* of the whole tensor                                    */
    uint64_t bands_per_matrix;
    uint64_t band_rows;   /* rows of a whole band; the last of a matrix may be short */
    uint64_t band_cols;   /* elements of a row of a band (FLAT: 16,384)             */
    uint64_t band_groups; /* groups along a row of a band                           */
    kerf_plane plane[KERF_PLANES];
    uint64_t bytes; /* all planes                                             */
} kerf_geometry;

KERF_API KERF_CHECK kerf_status kerf_geometry_init(kerf_geometry *g, const kerf_format *f,
                                                   const kerf_shape *shape, kerf_error *err);

/* Whether a tensor of this shape and source type can be encoded. KERF_E_NOSUP with the reason:
 * another type than F32, F16 and BF16, a short row of byte structs, an encoder for other types. */
KERF_API KERF_CHECK kerf_status kerf_codec_check(kerf_codec c, const kerf_shape *shape,
                                                 kerf_dtype source, kerf_error *err);

/* The numbers that codes or scales of a format stand for, where a plane is indices into a table:
 * NF4's 16 for KERF_PLANE_CODES, the 256 of the map that scales of nf4-dq index for
 * KERF_PLANE_SCALES. Returns how many; 0: it is none, as in all blocks of GGUF. */
KERF_API size_t kerf_codebook(const kerf_format *f, kerf_plane_id p, float out[256]);

/* Numbers that scale a block, or are added to it (is_minimum), and share a byte struct with its
 * codes: each one's byte in a struct of *bytes. Returns how many; 0: its blocks are no structs. */
typedef struct kerf_struct_number {
    unsigned at, is_minimum;
    kerf_dtype dtype; /* F16, F8_E4M3 or F8_E8M0 */
} kerf_struct_number;
KERF_API size_t kerf_struct_numbers(const kerf_format *f, unsigned *bytes,
                                    kerf_struct_number out[4]);

/* Bits per weight with every plane counted; 0 for an empty tensor. */
KERF_API double kerf_geometry_bpw(const kerf_geometry *g);

typedef struct kerf_extent {
    uint64_t offset, count;
} kerf_extent;

/* Elements of bands [b0, b1) in the row-major tensor. */
KERF_API kerf_extent kerf_band_elements(const kerf_geometry *g, uint64_t b0, uint64_t b1);

/* Bytes of bands [b0, b1) in a plane. A plane with one value per matrix is {0, bytes}. */
KERF_API kerf_extent kerf_band_bytes(const kerf_geometry *g, kerf_plane_id p, uint64_t b0,
                                     uint64_t b1);

/* --- encode and decode -------------------------------------------------------------------- */

typedef struct kerf_span {
    void *p;
    size_t n; /* bytes */
} kerf_span;
typedef struct kerf_cspan {
    const void *p;
    size_t n; /* bytes */
} kerf_cspan;

/* What to do with NaN and infinities of the source. */
typedef enum kerf_nan {
    KERF_NAN_ERROR,   /* KERF_E_DATA, kerf_error.offset = first such element; the default      */
    KERF_NAN_ZERO,    /* NaN and Inf become +0                                                */
    KERF_NAN_SATURATE /* NaN becomes +0, Inf the largest finite value of the source type       */
} kerf_nan;

/* A GPU: kerf/cuda.h. */
typedef struct kerf_device kerf_device;

/* What the inputs of a weight are like, for error feedback: kerf/feedback.h. */
struct kerf_feedback;

/* How to run; NULL stands for all zeros. Never changes a byte, save for `nan`, `feedback` and, of
 * encoders that take it, `importance`. */
typedef struct kerf_exec {
    int threads; /* 0: all cores                                   */
    kerf_nan nan;
    const char *backend; /* NULL: the fastest here; "ref": scalar reference */
    kerf_device *device; /* NULL: the processor; else threads and backend are not used, and no
                            other thread may use the device meanwhile */
    /* How much the error of each column counts, from 0 to 1e30, for encoders that ask
     * (kerf_takes_importance): `importances` numbers, one per column, or one per column of each
     * matrix (else KERF_E_ARG). NULL: all count the same. Others do not look at it. */
    const float *importance;
    uint64_t importances;
    /* kerf_encode rounds with error feedback where kerf_feedback_fits: one for all matrices of a
     * tensor, of its columns (else KERF_E_ARG). It is done where the feedback was made: on the
     * processor, whatever `device` says, or on GPUs. NULL: without. */
    const struct kerf_feedback *feedback;
} kerf_exec;

/* What one matrix must know before its bands can be encoded. Start from all zeros. Every field
 * is exact and independent of order, so partial results of bands, threads or fused tensors can
 * be merged. */
typedef struct kerf_stats {
    float amax;      /* largest magnitude                                          */
    float min, max;  /* of the elements and zero                                   */
    uint64_t blocks; /* FLAT formats: blocks seen ...                              */
    uint64_t sum[5]; /* ... and the exact sum of their absmax, in units of 2^-149  */
} kerf_stats;

/* 1 when kerf_encode needs kerf_measure first; else stats may be NULL there. */
KERF_API int kerf_needs_stats(const kerf_geometry *g);

/* 1 when the bytes that the encoder chooses depend on kerf_exec.importance. */
KERF_API int kerf_takes_importance(const kerf_encoder *encoder);

/* Merges what `from` saw into `into`. */
KERF_API void kerf_stats_merge(kerf_stats *into, const kerf_stats *from);

/* Adds bands [b0, b1) to stats[geometry.matrices]. src: the elements of these bands,
 * row-major, of type F32, F16 or BF16 (others: KERF_E_NOSUP), any alignment. */
KERF_API KERF_CHECK kerf_status kerf_measure(const kerf_geometry *g, uint64_t b0, uint64_t b1,
                                             kerf_cspan src, kerf_dtype dtype, kerf_stats *stats,
                                             const kerf_exec *exec, kerf_error *err);

/* Encodes bands [b0, b1). src as for kerf_measure. dst[p] receives kerf_band_bytes of plane p;
 * planes with one value per matrix are given whole in every call, and the call that holds the
 * first band of a matrix writes its value. Planes that the format lacks are ignored. On
 * KERF_E_DATA the content of dst is unspecified. Rounding, saturation, zero groups and -0: see
 * the header of the family in codecs/block/. An empty tensor has no bands; kerf_encode with
 * b0 == b1 == 0 writes its per-matrix values. */
KERF_API KERF_CHECK kerf_status kerf_encode(const kerf_geometry *g, const kerf_encoder *encoder,
                                            const kerf_stats *stats, uint64_t b0, uint64_t b1,
                                            kerf_cspan src, kerf_dtype dtype,
                                            const kerf_span dst[KERF_PLANES], const kerf_exec *exec,
                                            kerf_error *err);

/* Decodes bands [b0, b1) to F32, F16 or BF16: one fp32 product per level of scale, then one
 * rounding to nearest even into dtype. Scale bytes that mean NaN decode to NaN. Every byte
 * pattern is decodable. */
KERF_API KERF_CHECK kerf_status kerf_decode(const kerf_geometry *g, uint64_t b0, uint64_t b1,
                                            const kerf_cspan src[KERF_PLANES], kerf_span dst,
                                            kerf_dtype dtype, const kerf_exec *exec,
                                            kerf_error *err);

/* Counts the elements of bands [b0, b1) whose source lies outside the range that their stored
 * scale can express (the clip share of `kerf score`). planes and src as for decode and encode. */
KERF_API KERF_CHECK kerf_status kerf_count_clipped(const kerf_geometry *g, uint64_t b0, uint64_t b1,
                                                   const kerf_cspan planes[KERF_PLANES],
                                                   kerf_cspan src, kerf_dtype dtype,
                                                   const kerf_exec *exec, uint64_t *clipped,
                                                   kerf_error *err);

/* --- backends ----------------------------------------------------------------------------- */

KERF_API size_t kerf_backend_count(void);
KERF_API const char *kerf_backend_at(size_t i); /* "ref" first; NULL past the end */

/* 64-bit XXH64 (seed 0) of n bytes: plane digests, seek tables. */
KERF_API uint64_t kerf_hash(const void *p, size_t n);

/* --- cuBLASLt's layout of block scales ---------------------------------------------------- */

/* One-byte scales of `matrices` matrices, rows x cols each, from rows as they are in checkpoints to
 * the tiles of 128 x 4 that cuBLASLt's block-scaled products read (VEC16_UE4M3, VEC32_UE8M0), and
 * back. Each matrix is padded by itself, with zero bytes. Buffers have exactly the sizes of both
 * layouts. KERF_E_RANGE: sizes overflow. kerf/cuda.h has the same for device memory. */
KERF_API KERF_CHECK kerf_status kerf_tiled_scale_bytes(uint64_t matrices, uint64_t rows,
                                                       uint64_t cols, uint64_t *out,
                                                       kerf_error *err);
KERF_API KERF_CHECK kerf_status kerf_scales_to_tiles(uint64_t matrices, uint64_t rows,
                                                     uint64_t cols, kerf_cspan plain,
                                                     kerf_span tiled, kerf_error *err);
KERF_API KERF_CHECK kerf_status kerf_scales_from_tiles(uint64_t matrices, uint64_t rows,
                                                       uint64_t cols, kerf_cspan tiled,
                                                       kerf_span plain, kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
