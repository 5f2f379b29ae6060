/* roles.h - what a tensor is in its model: its role, which matrix of a layer it is, which of its
 * axes is the input, and whether experts are stacked in it.
 *
 * The answer comes from the architecture: config.json beside the files (model_type, architectures,
 * text_config, vision_config) or the architecture of a GGUF file picks a row of a table of
 * families; names are read from their end, so that no prefix matters (`model.`, `language_model.`,
 * `thinker.`, `backbone.`); and shapes are held against the sizes of the model: hidden size,
 * vocabulary, experts. What remains unknown has KERF_ROLE_OTHER and KERF_EVIDENCE_NONE.
 *
 * kerf_weights_open gives every weight its place; kerf_place_find asks for a single tensor. Nothing
 * here reads the elements of a tensor. */
#ifndef KERF_ROLES_H
#define KERF_ROLES_H

#include <kerf/codec.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a tensor serves as. Everything in a tower or a projector has the role of that, whatever it
 * is inside of it; kerf_place.piece still says which matrix of a layer it is. */
typedef enum kerf_role {
    KERF_ROLE_OTHER, /* nothing that is known says what it is */
    KERF_ROLE_EMBEDDING,
    KERF_ROLE_HEAD, /* the output head, and what classifies or pools behind the layers */
    KERF_ROLE_NORM,
    KERF_ROLE_BIAS,
    KERF_ROLE_ROUTER,
    KERF_ROLE_ATTENTION,
    KERF_ROLE_MLP,
    KERF_ROLE_EXPERT,
    KERF_ROLE_SHARED_EXPERT,
    KERF_ROLE_STATE_SPACE, /* Mamba, linear attention, recurrences */
    KERF_ROLE_CONVOLUTION,
    KERF_ROLE_VISION,
    KERF_ROLE_AUDIO,
    KERF_ROLE_PROJECTOR, /* between a tower and the language model */
    KERF_ROLE_MTP,       /* multi-token prediction, draft heads */
    KERF_ROLE_SCALE,     /* scales of activations or of a quantized weight */
    KERF_ROLES
} kerf_role;

/* Which matrix of its layer: of an attention, an MLP or expert, or a state space. */
typedef enum kerf_piece {
    KERF_PIECE_NONE,
    KERF_PIECE_Q,
    KERF_PIECE_K,
    KERF_PIECE_V,
    KERF_PIECE_O,
    KERF_PIECE_QKV,
    KERF_PIECE_KV,
    KERF_PIECE_Q_A, /* latent attention: to and from the compressed vectors */
    KERF_PIECE_Q_B,
    KERF_PIECE_KV_A,
    KERF_PIECE_KV_B,
    KERF_PIECE_GATE,
    KERF_PIECE_UP,
    KERF_PIECE_DOWN,
    KERF_PIECE_GATE_UP,
    KERF_PIECE_IN, /* of a state space */
    KERF_PIECE_Z,
    KERF_PIECE_OUT,
    KERF_PIECE_PARAMETER, /* small or sensitive: state matrices, gates of heads, relative positions
                           */
    KERF_PIECES
} kerf_piece;

/* Which of the last two axes of a tensor in the files are outputs and inputs. */
typedef enum kerf_orientation {
    KERF_OUT_IN, /* [..., out, in], as torch.nn.Linear has it; also of what is no matrix */
    KERF_IN_OUT, /* [..., in, out]: Conv1D of GPT-2, stacks of Llama-4 and gpt-oss       */
    KERF_AXES_UNKNOWN
} kerf_orientation;

/* Where the experts of a stack are. */
typedef enum kerf_stack {
    KERF_STACK_NONE,  /* one matrix                                  */
    KERF_STACK_FIRST, /* [experts, ., .]                             */
    KERF_STACK_LAST,  /* [., ., experts]                             */
    KERF_STACK_ROWS   /* [experts x rows, .]: one behind the other   */
} kerf_stack;

/* What a place rests on. */
typedef enum kerf_evidence {
    KERF_EVIDENCE_NONE,   /* nothing: the role is KERF_ROLE_OTHER                  */
    KERF_EVIDENCE_SHAPE,  /* the shape and where the tensor stands                 */
    KERF_EVIDENCE_NAMES,  /* names that many families share                        */
    KERF_EVIDENCE_FAMILY, /* the row of the family                                 */
    KERF_EVIDENCE_MATRIX  /* a matrix, and no config.json that says of which model */
} kerf_evidence;

typedef struct kerf_place {
    kerf_role role;
    kerf_piece piece;
    kerf_orientation orientation;
    kerf_stack stack;
    kerf_evidence evidence;
    int layer;         /* the first number in the name; -1: none                        */
    uint64_t experts;  /* of a stack; else 0                                            */
    int alternates;    /* 1: rows of gate and up alternate in a fused matrix, 0: halves */
    unsigned piece_at; /* the bytes of the name that say the piece: "q_proj"; 0, 0: none */
    unsigned piece_bytes;
} kerf_place;

/* "output head"; KERF_ROLES and above: NULL. */
KERF_API const char *kerf_role_name(kerf_role r);
/* "gate_up"; KERF_PIECE_NONE and above KERF_PIECES: "". */
KERF_API const char *kerf_piece_name(kerf_piece p);
/* "attention q", "vision (attention q)" or "norm": the role and the piece; cut to size. Returns
 * out. */
KERF_API char *kerf_place_text(const kerf_place *p, char *out, size_t size);

/* Why such a tensor stays in its source type unless it is asked for by name; NULL: it is a matrix
 * that is worth quantizing. */
KERF_API const char *kerf_place_keeps(const kerf_place *p);

/* The place of a tensor of this name and shape in a model of this family ("llama",
 * "GPT2LMHeadModel", the architecture of a GGUF file); NULL: not known. What needs other tensors or
 * the sizes of the model is not found so: the axes of square matrices, layers of multi-token
 * prediction. */
KERF_API void kerf_place_find(const char *family, const char *name, const kerf_shape *shape,
                              kerf_place *out);

/* 1: a tensor of this name is a scale of inputs, outputs or the cache, which means nothing to
 * weights that are not quantized. */
KERF_API int kerf_is_activation_scale(const char *name);

/* What runtimes call the matrix that they merge this piece into: "qkv_proj" for an attention's q.
 * NULL: it is not merged. */
KERF_API const char *kerf_piece_fused(kerf_piece p);

/* The families, in the order of the table: the names by which config.json may call them, with a
 * blank between two; NULL past the end. */
KERF_API const char *kerf_family_at(size_t i);

#ifdef __cplusplus
}
#endif
#endif
