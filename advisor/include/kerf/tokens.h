/* tokens.h - text as a model sees it: files of tokens, and tokenizers that make tokens of a text.
 *
 *   kerf_tokens_read("eval.u16", 4096, &list, &err)            tokens that somebody has made
 *   kerf_tokenizer_open("model/", &t, &err)                    the tokenizer of a model, which
 *   kerf_tokenizer_encode(t, text, n, NULL, &list, &err)       makes them of a text
 *
 * A token is the number of a row of the embedding. */
#ifndef KERF_TOKENS_H
#define KERF_TOKENS_H

#include <kerf/checkpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kerf_token_list {
    uint32_t *token; /* [count], malloc'd; may be NULL when count is 0                       */
    uint64_t count;
    uint64_t length; /* of a row, where the file has rows (it divides count); 0: one stream */
} kerf_token_list;

KERF_API void kerf_token_list_free(kerf_token_list *l); /* all zeros are fine; leaves all zeros */

/* --- files of tokens ----------------------------------------------------------------------- */

/* Reads a file of tokens; its suffix says what it is:
 *
 *   .u16 .u32       little-endian numbers, nothing else
 *   .npy            NumPy's file of one array, 1-D or 2-D, of integers in C order
 *   .safetensors    the first tensor of integers (16 bits and more), 1-D or 2-D
 *
 * Rows of a 2-D array follow each other in the list. vocabulary: every token must be below it; 0:
 * it is not known, and any 32-bit number is taken. Memory: four bytes a token, and a panel.
 *
 * KERF_E_IO: the file cannot be opened or read; KERF_E_DATA: it is not what its suffix says, holds
 * no token, or one that is negative or not below the vocabulary (err->offset: which one);
 * KERF_E_NOSUP: another suffix, or an array of another type, order or rank; KERF_E_NOMEM. *out is
 * all zeros after a failure. */
KERF_API KERF_CHECK kerf_status kerf_tokens_read(const char *path, uint64_t vocabulary,
                                                 kerf_token_list *out, kerf_error *err);

/* --- tokenizers ---------------------------------------------------------------------------- */

typedef struct kerf_tokenizer kerf_tokenizer;

/* Opens tokenizer.json (the file, or the folder of a model that has one), or the tokenizer inside
 * of a GGUF file. Read are byte-level BPE (GPT-2, Llama 3, Qwen, DeepSeek, gpt-oss),
 * SentencePiece's BPE (Llama 2, Mistral, Gemma) and unigram models, with what the tokenizers
 * package does around them. The same tokens result as from that package; of GGUF files, as from
 * llama.cpp.
 *
 * KERF_E_IO: the file is not there or cannot be read; KERF_E_DATA: it is damaged or contradicts
 * itself; KERF_E_NOSUP: a kind of tokenizer, or a step of it, that is not read (the text names
 * it), or kerf was built without PCRE2; KERF_E_LIMIT: it is larger than is read. */
KERF_API KERF_CHECK kerf_status kerf_tokenizer_open(const char *path, kerf_tokenizer **out,
                                                    kerf_error *err);
/* The same for the model of an open checkpoint, which may be closed afterwards. */
KERF_API KERF_CHECK kerf_status kerf_tokenizer_open_for(const kerf_checkpoint *c,
                                                        kerf_tokenizer **out, kerf_error *err);
KERF_API void kerf_tokenizer_close(kerf_tokenizer *t); /* NULL is fine */

/* What it is, in words ("byte-level BPE"); one more than its largest token; the text of a token as
 * its file has it, NULL where none has that number. They live as long as the tokenizer. */
KERF_API const char *kerf_tokenizer_kind(const kerf_tokenizer *t);
KERF_API uint64_t kerf_tokenizer_vocabulary(const kerf_tokenizer *t);
KERF_API const char *kerf_tokenizer_token(const kerf_tokenizer *t, uint32_t id);

typedef struct kerf_tokenize_options {
    int template_tokens; /* 1: also what the model's template puts around a text (a token that
                            begins it, as a rule); 0: the text alone                          */
} kerf_tokenize_options;

/* Makes tokens of n bytes of text, which need not end in a 0. The text is UTF-8: KERF_E_DATA (with
 * the byte in err->offset) where it is not. options NULL: all zeros. Several threads may use one
 * tokenizer; a call works on one. KERF_E_LIMIT: the pattern that cuts the text gives up on it. */
KERF_API KERF_CHECK kerf_status kerf_tokenizer_encode(const kerf_tokenizer *t, const char *text,
                                                      size_t n,
                                                      const kerf_tokenize_options *options,
                                                      kerf_token_list *out, kerf_error *err);

/* The same for a file of text (at most 4 GiB), which is read whole. */
KERF_API KERF_CHECK kerf_status kerf_tokenizer_encode_file(const kerf_tokenizer *t,
                                                           const char *path,
                                                           const kerf_tokenize_options *options,
                                                           kerf_token_list *out, kerf_error *err);

/* --- for a model --------------------------------------------------------------------------- */

/* What a model of kerf/forward.h is run on: the file `text`, cut by the tokenizer of the model, or
 * the file `tokens` of tokens that it has; one of the two, the other is NULL. *length: how long
 * rows should be, as long as those of the list, else as the context of the model, at most 2048.
 * Free *out also after a failure. */
KERF_API KERF_CHECK kerf_status kerf_tokens_for(const kerf_checkpoint *model, const char *text,
                                                const char *tokens, kerf_token_list *out,
                                                uint64_t *length, kerf_error *err);

/* Makes rows of `length` tokens of a list that has none. Each begins as a text does by the template
 * of the model's tokenizer (with a token such as <bos>), and goes on where the one before it ended;
 * what fills no row is left out. KERF_E_ARG: the list has rows, or fills none; KERF_E_NOSUP: no
 * template puts a token before a text; and as kerf_tokenizer_open. After a failure the list is as
 * it was. */
KERF_API KERF_CHECK kerf_status kerf_tokens_begin_rows(const kerf_checkpoint *model,
                                                       uint64_t length, kerf_token_list *list,
                                                       kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
