/* layouts.h - quantized tensors in a checkpoint.
 *
 * A quantized matrix consists of planes: codes, scales and so on (see kerf_geometry). A file stores
 * them as tensors, and every program that loads such files expects other names, types and shapes
 * for them. A layout is one such convention: kerf_layout says which there are, kerf_weights finds
 * the quantized weights of an open checkpoint in any of them, kerf_weight_writer stores planes in
 * one, and kerf_layout_companions writes the files (config.json) by which a loader knows what it
 * reads.
 *
 * Nothing here computes numbers from numbers: a layout renames, reorders and repacks what a codec
 * has made. All functions may be called by several threads at once, a kerf_weight_writer by one.
 */
#ifndef KERF_LAYOUTS_H
#define KERF_LAYOUTS_H

#include <kerf/file.h>
#include <kerf/roles.h>
#include <kerf/words.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- layouts: how the planes of a quantized tensor stand in a checkpoint --------------------- */

/* A layout names, types and arranges tensors; it computes nothing. `kerf` takes every format; the
 * others take what the programs that they are named after can load. */
typedef struct kerf_layout {
    const char *name; /* "compressed-tensors"                        */
    const char *note; /* whose it is, and who loads it               */
} kerf_layout;

KERF_API size_t kerf_layout_count(void);
KERF_API const kerf_layout *kerf_layout_at(size_t i); /* `kerf` first; NULL past the end */
KERF_API const kerf_layout *kerf_layout_find(const char *name); /* NULL if unknown       */

/* The layout that a person means by "Compressed_Tensors", "ct" or "bnb": case and dashes do not
 * count, and short names are known. KERF_E_ARG: none; the text lists them, or says which layouts a
 * runtime loads. */
KERF_API KERF_CHECK kerf_status kerf_layout_get(const char *text, const kerf_layout **out,
                                                kerf_error *err);

/* What the layout calls this format ("nvfp4-pack-quantized"), or NULL when it has no place for
 * it. *written: 0 when such tensors are only read. */
KERF_API const char *kerf_layout_scheme(const kerf_layout *l, const kerf_format *f, int *written);

/* Formats with their encoders and the layouts that store them as JSON, schema kerf.formats/1:
 * malloc'd, ends in a 0 that n (may be NULL) does not count, to be freed. f: that one alone; NULL:
 * all. */
KERF_API KERF_CHECK kerf_status kerf_formats_write(const kerf_format *f, char **text, size_t *n,
                                                   kerf_error *err);
/* The same for people, in the form that is asked for (kerf/words.h): a table of all formats, or a
 * page about one. */
KERF_API KERF_CHECK kerf_status kerf_formats_text(const kerf_format *f, const kerf_text_form *form,
                                                  char **text, size_t *n, kerf_error *err);

/* The layout that config.json in the folder of these files names, or hf_quant_config.json where it
 * names none; NULL: none, one that kerf does not know, or a file that is not JSON. KERF_E_IO: a
 * file is there and cannot be read; KERF_E_LIMIT: it is too large. */
KERF_API KERF_CHECK kerf_status kerf_layout_configured(const kerf_reader *r,
                                                       const kerf_layout **out, kerf_error *err);

/* Whether the layout can be written with this format: KERF_E_NOSUP says why not, and which formats
 * it takes. */
KERF_API KERF_CHECK kerf_status kerf_layout_check(const kerf_layout *l, const kerf_format *f,
                                                  kerf_error *err);

/* Whether this tensor can stand in the layout in this format: KERF_E_NOSUP with the reason. */
KERF_API KERF_CHECK kerf_status kerf_layout_check_tensor(const kerf_layout *l, const kerf_format *f,
                                                         const char *name, const kerf_shape *shape,
                                                         kerf_error *err);

/* The same of a weight, whose place counts too: what its model has as [in, out] fits no layout
 * whose loaders read matrices as [out, in], and tables that rows are looked up in only one whose
 * loaders can do so. */
typedef struct kerf_weight kerf_weight;
KERF_API KERF_CHECK kerf_status kerf_layout_check_weight(const kerf_layout *l, const kerf_format *f,
                                                         const kerf_weight *w, kerf_error *err);

/* 1 when its loaders can be told of several formats in one checkpoint. */
KERF_API int kerf_layout_mixes(const kerf_layout *l);
/* 1 when this may be one of several there: Model-Optimizer's loaders take NVFP4, MXFP8 and FP8 of
 * one scale in a mixture (vLLM, modelopt.py), and any other format alone. */
KERF_API int kerf_layout_mixes_format(const kerf_layout *l, const kerf_format *f);

/* 1 when layers that runtimes fuse into one matrix must have the same scale per matrix. */
KERF_API int kerf_layout_shares_scale(const kerf_layout *l, const kerf_format *f);

/* What the scale of a layer's activations is called beside weights of this format ("input_scale"):
 * one F32, of shape [1] where *is_vector, else []. *is_inverse: it divides. NULL: the layout has
 * none. */
KERF_API const char *kerf_layout_input(const kerf_layout *l, const kerf_format *f, int *is_inverse,
                                       int *is_vector);

/* The number to divide by instead of multiplying by x: of those near 1 / x the one whose reciprocal
 * is x, where there is one. */
KERF_API float kerf_inverse_of(float x);

/* --- quantized tensors in a checkpoint ------------------------------------------------------- */

#define KERF_EXTRAS 3 /* the most tensors of a weight that store no plane */

/* A tensor as a model sees it: dense, or quantized and spread over several stored tensors. */
struct kerf_weight {
    const char *name;                      /* owned by the kerf_weights                       */
    kerf_shape shape;                      /* of the dense tensor                             */
    kerf_dtype dtype;                      /* of the dense tensor, or of the source before
                                              it was quantized                                */
    kerf_codec codec;                      /* format NULL: dense; encoder NULL: not recorded  */
    const kerf_layout *layout;             /* when quantized                                  */
    const kerf_tensor *plane[KERF_PLANES]; /* what stores each plane; dense: plane[0] alone    */
    const kerf_tensor *extra[KERF_EXTRAS]; /* tensors that store no plane, in the layout's order */
    int unit_second; /* the second-level scales are 1, and layout gguf does not store them */
    const kerf_tensor *decoded; /* quantized by another program, or F64: its numbers as a tensor of
                                   F32, which kerf_reader_read decodes; else NULL            */
    const char *whole; /* the stack that it was a part of: kerf_weights_arrange; else NULL   */
    kerf_place place;  /* what it is in its model                                            */
    uint64_t feedback; /* rounded with error feedback: a number for the moments of its inputs
                          (kerf_moments.contents); 0: without                                  */
    kerf_shape stored; /* rank above 0: the model has it in this shape, [..., in, out]; `shape` and
                          all planes are [..., out, in], so that blocks run along its inputs */
};

typedef struct kerf_weights kerf_weights;

/* Groups a checkpoint's tensors into weights. What the `kerf` metadata describes must be there
 * exactly as the layout has it; what it does not describe is recognized by the names, types and
 * shapes of its tensors. All others are dense. The reader must outlive the result. */
KERF_API KERF_CHECK kerf_status kerf_weights_open(const kerf_reader *r, kerf_weights **out,
                                                  kerf_error *err);
KERF_API void kerf_weights_close(kerf_weights *w);
KERF_API size_t kerf_weights_count(const kerf_weights *w);
KERF_API const kerf_weight *kerf_weights_at(const kerf_weights *w, size_t i);
KERF_API const kerf_weight *kerf_weights_find(const kerf_weights *w, const char *name);

/* What the model of the checkpoint calls itself (model_type, the architecture of a GGUF file);
 * NULL: nothing says so. *known: 1 when the table of families has it. */
KERF_API const char *kerf_weights_model(const kerf_weights *w, int *known);

/* The tensor that has the numbers of w: its own, or what it decodes to. NULL: kerf itself chose its
 * codes, which are no source of others. */
KERF_API const kerf_tensor *kerf_weight_dense(const kerf_weight *w);

/* What the inputs of a quantized matrix are multiplied by before it (X.pre_quant_scale of
 * Model-Optimizer's AWQ and SmoothQuant): a number for each column, by which columns of its
 * `decoded` are multiplied. NULL: there is none. */
KERF_API const kerf_tensor *kerf_weight_smoothing(const kerf_reader *r, const kerf_weight *w);
/* Whether w is that of a weight of the list, which r has. */
KERF_API int kerf_is_smoothing(const kerf_weights *all, const kerf_reader *r, const kerf_weight *w);

/* How its planes lie: all zeros when it is dense. It follows from format and shape. */
KERF_API kerf_geometry kerf_weight_geometry(const kerf_weight *w);

/* Bytes of all tensors that store the weight. */
KERF_API uint64_t kerf_weight_bytes(const kerf_weight *w);
/* Bytes that it takes in an output of layout l (NULL: kerf) when no format is chosen for it: what
 * another program quantized is decoded there, unless it is in that layout already. */
KERF_API uint64_t kerf_weight_kept_bytes(const kerf_weight *w, const kerf_layout *l);
/* Elements of the dense tensor. */
KERF_API uint64_t kerf_weight_elements(const kerf_weight *w);
/* "BF16", "nvfp4:4/6" or, of a GGUF file, "Q8_0"; cut to `size` bytes, always terminated. Returns
 * out. */
KERF_API char *kerf_weight_format(const kerf_weight *w, char *out, size_t size);
/* 1 for F32, F16 and BF16, the types that can be quantized. */
KERF_API int kerf_dtype_is_float(kerf_dtype t);

/* The experts of a layer: as the files have them, one by one (X.experts.3.gate_proj.weight, a
 * matrix), or stacked with their input features last (X.experts.gate_up_proj, gate and up in turn,
 * as gpt-oss has them). */
typedef enum kerf_experts {
    KERF_EXPERTS_AS_THEY_ARE,
    KERF_EXPERTS_SINGLE,
    KERF_EXPERTS_STACKED
} kerf_experts;

/* What the loaders of a layout want. */
KERF_API kerf_experts kerf_layout_experts(const kerf_layout *l);

/* Arranges the experts of layers of which wanted (NULL: all) says so for their first weight; no
 * byte is read. What cannot be arranged stays: layers with parts that are missing or do not fit
 * each other, stacks in blocks that go across rows. Pointers to weights are invalid afterwards. */
KERF_API KERF_CHECK kerf_status kerf_weights_arrange(kerf_weights *w, kerf_experts how,
                                                     int (*wanted)(void *ctx, const kerf_weight *w),
                                                     void *ctx, kerf_error *err);

/* Renames the weights of a Hugging Face model to what llama.cpp calls them, where kerf knows how
 * (model_type llama, mistral, qwen2, qwen3, qwen3_moe; nothing happens to others and to GGUF
 * files): rows of q and k in llama.cpp's order, vectors and routers in F32, experts in stacks. No
 * byte is read. `whole` is the old name. Pointers to weights are invalid afterwards. KERF_E_NOSUP:
 * a tensor that llama.cpp has no name for, or a quantized one. */
KERF_API KERF_CHECK kerf_status kerf_weights_name_as_gguf(kerf_weights *w, const kerf_reader *r,
                                                          kerf_error *err);

/* Why a tensor that is named and typed like codes of a quantized weight is not part of one: one
 * line into out, cut to size; returns 0 when it is one, or is not named like any. */
KERF_API int kerf_tensor_doubt(const kerf_reader *r, const kerf_tensor *t, char *out, size_t size);

/* Reads n bytes of a plane, as the codec has it, from its byte `offset`, however it is stored.
 * Both are whole elements of the plane's dtype. */
KERF_API KERF_CHECK kerf_status kerf_weight_read(const kerf_reader *r, const kerf_weight *w,
                                                 kerf_plane_id p, uint64_t offset, void *dst,
                                                 size_t n, kerf_error *err);

/* Counts the numbers of w that its planes cannot give back to its own layout exactly: reciprocals
 * that were rounded. */
KERF_API KERF_CHECK kerf_status kerf_weight_inexact(const kerf_reader *r, const kerf_weight *w,
                                                    uint64_t *count, kerf_error *err);

/* The i-th tensor that stores w (name, shape, codec and geometry are read) in a layout: its dtype
 * and shape into *out and its name, cut to size, into `name`, to which out->name points. *plane is
 * the plane that it holds, or KERF_PLANES. Returns 0 past the last. */
KERF_API int kerf_layout_entry(const kerf_layout *l, const kerf_weight *w, size_t i, char *name,
                               size_t size, kerf_entry *out, kerf_plane_id *plane);

/* Turns w into the weight that layout l can store, code for code: where l has no place for its
 * format, into the one that has the same numbers in planes of their own (ggml-nvfp4 -> nvfp4); for
 * layout gguf, scales of 1 per matrix are left out. Whether l takes the result is for
 * kerf_layout_check to say. *foreign_from: the lowest byte of a block scale that the two sides read
 * as different numbers; 256: none. */
KERF_API KERF_CHECK kerf_status kerf_weight_fit(const kerf_reader *r, const kerf_layout *l,
                                                kerf_weight *w, unsigned *foreign_from,
                                                kerf_error *err);

/* The JSON string of the `kerf` metadata key that describes these weights (name, codec, dtype and
 * shape are read; dense ones are skipped). malloc'd, to be freed by the caller; NULL: no memory. */
KERF_API char *kerf_layout_describe(const kerf_layout *l, const kerf_weight *weights, size_t count);

/* Writes the planes of one weight into the entries of its stored tensors, which begin at `first`
 * and are those of kerf_layout_entry. The weight and the writer must outlive it. */
typedef struct kerf_weight_writer kerf_weight_writer;
KERF_API KERF_CHECK kerf_status kerf_weight_writer_open(kerf_writer *w, const kerf_layout *l,
                                                        const kerf_weight *weight, size_t first,
                                                        kerf_weight_writer **out, kerf_error *err);
/* Writes n bytes of a plane from its byte `offset`; whole elements of the plane's dtype. Of planes
 * that share a tensor (layout gguf), codes come first and then the scales of the same bands. */
KERF_API KERF_CHECK kerf_status kerf_weight_writer_write(kerf_weight_writer *w, kerf_plane_id p,
                                                         uint64_t offset, const void *src, size_t n,
                                                         kerf_error *err);
/* Writes what could not be written before all bytes were known. */
KERF_API KERF_CHECK kerf_status kerf_weight_writer_finish(kerf_weight_writer *w, kerf_error *err);
/* Numbers so far that the layout cannot give back exactly: reciprocals that were rounded. */
KERF_API uint64_t kerf_weight_writer_inexact(const kerf_weight_writer *w);
KERF_API void kerf_weight_writer_close(kerf_weight_writer *w); /* NULL is fine */

/* The small files that say to a loader how the folder is quantized: config.json of the source
 * with its quantization_config, and hf_quant_config.json or quantize_config.json where the layout
 * has one. weights: all of the output; those with a codec are quantized, the others are listed as
 * not. At most KERF_COMPANIONS; *count may be 0: the source has no config.json. The texts are
 * malloc'd; release them with kerf_companions_free. KERF_E_NOSUP: config.json has no words for
 * such a mixture, load experts another way, or need input scales that are not there. */
#define KERF_COMPANIONS 2
KERF_API KERF_CHECK kerf_status kerf_layout_companions(const kerf_layout *l, const kerf_reader *r,
                                                       const kerf_weight *weights,
                                                       size_t weight_count,
                                                       kerf_companion out[KERF_COMPANIONS],
                                                       size_t *count, kerf_error *err);
KERF_API void kerf_companions_free(kerf_companion *c, size_t count);

/* --- layers that runtimes merge ------------------------------------------------------------ */

#define KERF_FUSED_MOST 4 /* the most layers of one group */

/* All layers that runtimes merge with w into one matrix (q, k and v; gate and up), w among them, in
 * the order of the merged matrix. 0: w belongs to no group, or no other member is there. */
KERF_API size_t kerf_fused_group(const kerf_weights *all, const kerf_weight *w,
                                 const kerf_weight *out[KERF_FUSED_MOST]);

/* What runtimes call the merged matrix of such a layer: "qkv_proj" for one whose name says
 * "q_proj". NULL: it is not merged with others. */
KERF_API const char *kerf_fused_name(const kerf_weight *w);

#ifdef __cplusplus
}
#endif
#endif
