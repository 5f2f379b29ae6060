/* layout_table.h - how each layout stores each format: which tensors hold the planes, what they
 * are called, and how their bytes differ from the planes' own. Pure data; layout.c and
 * stored_bytes.c read it. */
#ifndef KERF_LAYOUT_LAYOUT_TABLE_H
#define KERF_LAYOUT_LAYOUT_TABLE_H

#include <kerf/layouts.h>

typedef enum kf_layout_id {
    KF_LAYOUT_KERF,
    KF_LAYOUT_MODELOPT,
    KF_LAYOUT_COMPRESSED_TENSORS,
    KF_LAYOUT_CT_NAIVE,
    KF_LAYOUT_DEEPSEEK,
    KF_LAYOUT_BITSANDBYTES,
    KF_LAYOUT_GPTQ,
    KF_LAYOUT_GPTQ_V2,
    KF_LAYOUT_AWQ,
    KF_LAYOUT_TORCHAO,
    KF_LAYOUT_GPT_OSS,
    KF_LAYOUT_FP8_STACKS,
    KF_LAYOUT_CT_STACKS,
    KF_LAYOUT_CT_WORDS,
    KF_LAYOUT_GGUF,
    KF_LAYOUTS
} kf_layout_id;

extern const kerf_layout kf_layouts[KF_LAYOUTS];
extern const kerf_experts kf_layout_experts[KF_LAYOUTS]; /* what its loaders want */

/* 1: its loaders look rows up in quantized embeddings; to all others an embedding is no layer. */
extern const unsigned char kf_layout_looks_up[KF_LAYOUTS];

/* Shape of a stored tensor, from the plane [rows, columns] that it holds. */
typedef enum kf_form {
    KF_FORM_PLANE,       /* as it is                                                    */
    KF_FORM_ONE,         /* one value: [1]                                              */
    KF_FORM_MATRICES,    /* one value for each matrix: [matrices]                       */
    KF_FORM_VECTOR,      /* [rows]                                                      */
    KF_FORM_TILES,       /* [rows, 1, columns, 1]                                       */
    KF_FORM_WORDS,       /* codes of a row in 32-bit words: [rows, columns / 4]         */
    KF_FORM_STACK,       /* codes of a column in 32-bit words: [rows / n, codes in a row] */
    KF_FORM_BLOCKS,      /* [matrices, rows, columns / 16, 16]                          */
    KF_FORM_INTERLEAVED, /* all banded planes in ggml's blocks: [.., rows, bytes of a row] */
    /* KF_REORDERED only: the columns of the plane are the rows of the tensor           */
    KF_FORM_TURNED,       /* [columns, rows]                   */
    KF_FORM_TURNED_WORDS, /* [columns / 4, rows]               */
    KF_FORM_TURNED_STACK  /* [codes in a row, rows / n]        */
} kf_form;

/* How the bytes of a stored tensor differ from those of its plane. */
typedef enum kf_coding {
    KF_COPY,
    KF_FLIP,         /* every byte is changed by exclusive or with `flip`                */
    KF_RECIPROCAL,   /* F32: one over the value                                          */
    KF_TIMES_127,    /* F32: the largest magnitude of a row in place of its scale        */
    KF_REORDERED,    /* another order of elements, as the form has it (turned.h)         */
    KF_IN_STATE,     /* no tensor: one number in the JSON of KF_EXTRA_STATE              */
    KF_BLOCK_CODES,  /* in blocks: of each group's codes the first half lies in the low nibbles */
    KF_BLOCK_SCALES, /* in the tensor of the codes: the scales of a block lie before its codes */
    KF_UNLESS_ONE    /* as it is; no tensor where all values are 1                       */
} kf_coding;

typedef struct kf_part {
    const char *suffix; /* in place of the row's tail; NULL: no such part */
    kerf_dtype dtype;
    kf_form form;
    kf_coding coding;
    unsigned char flip; /* after which ...                                          */
    unsigned char less; /* ... so much is taken from each code (stacks only)         */
    const char *order;  /* the row whose code stands n-th in a word; NULL: the n-th  */
} kf_part;

/* A tensor that holds no plane. */
typedef enum kf_extra {
    KF_EXTRA_NONE,
    KF_EXTRA_SHAPE,      /* the dimensions, I64                                               */
    KF_EXTRA_CODE_BOOK,  /* what codes stand for, F32                                         */
    KF_EXTRA_SCALE_BOOK, /* what 8-bit scales stand for, F32                                  */
    KF_EXTRA_STATE,      /* bitsandbytes' JSON: type, block size, dtype, shape, nested offset */
    KF_EXTRA_ROW_MAJOR,  /* bitsandbytes' 0 for plain rows, U8                                */
    KF_EXTRA_MIDDLE,     /* zero points of symmetric codes as part[KERF_PLANE_ZEROS] has them */
    KF_EXTRA_GROUP_INDEX /* the group of each column, I32                                     */
} kf_extra;

extern const struct kf_extra_name {
    const char *suffix; /* in place of the row's tail */
    kerf_dtype dtype;
} kf_extra_table[];

/* Bytes of the JSON as kerf writes it, filled up with spaces: its length must be known before the
 * offset is. */
#define KF_STATE_BYTES 256
#define KF_STATE_SUFFIX ".quant_state.bitsandbytes__nf4"

typedef struct kf_stored {
    kf_layout_id layout;
    kerf_format_id format;
    const char *scheme;  /* what the layout calls this format; gguf: ggml's type      */
    const char *refusal; /* why it is read but never written; NULL: written           */
    const char *tail;    /* how names of such weights end; parts have it replaced      */
    unsigned rank;       /* 2: a matrix, 3: a stack of them                           */
    unsigned rows, cols; /* a matrix must be a multiple of these                      */
    int shares_second;   /* layers that runtimes fuse must have one scale per matrix  */
    kf_part part[KERF_PLANES];
    kf_extra extra[KERF_EXTRAS];
} kf_stored;

/* Formats with the same codes and scales, in byte structs and in planes. foreign_from: the lowest
 * byte of a scale that means another number there; 256: none. */
typedef struct kf_twins {
    kerf_format_id blocks, planes;
    unsigned foreign_from;
} kf_twins;

/* The scale of a layer's inputs: see kerf_layout_input. */
typedef struct kf_input {
    kf_layout_id layout;
    kerf_format_id format;
    const char *name;
    int is_inverse, is_vector;
    double largest; /* input, where the scale is 1: the largest code, times the largest scale of a
                       block where blocks have their own */
} kf_input;

/* What a runtime's own quantizer takes where rows are no multiple of a format's blocks. */
typedef struct kf_fallback {
    kf_layout_id layout;
    kerf_format_id format, instead;
} kf_fallback;

extern const kf_fallback kf_fallback_table[];
extern const size_t kf_fallback_count;

/* NULL: the layout has none beside weights of the format. */
const kf_input *kf_input_find(const kerf_layout *l, const kerf_format *f);
extern const kf_input kf_input_table[];
extern const size_t kf_input_count;

extern const kf_twins kf_twin_table[];
extern const size_t kf_twin_count;

extern const kf_stored kf_stored_table[];
extern const size_t kf_stored_count;

#endif
