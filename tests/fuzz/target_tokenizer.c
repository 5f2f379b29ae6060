/* target_tokenizer.c - a tokenizer.json, or a GGUF file with a tokenizer in it, and a text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kerf/tokens.h>

#include "fuzz.h"

/* The first file is the tokenizer, all that follow are texts. Tokens are always below the
 * vocabulary, or unknown ones that the file names. */
static void encode(const kerf_tokenizer *t, const fuzz_file *f)
{
    const kerf_tokenize_options opt = {.template_tokens = f->n % 2 != 0};
    kerf_token_list a, b;
    kerf_error e = {.text = ""};
    const kerf_status s = kerf_tokenizer_encode(t, (const char *)f->p, f->n, &opt, &a, &e);
    if (s != KERF_OK && !e.text[0]) abort();
    if (kerf_tokenizer_encode(t, (const char *)f->p, f->n, &opt, &b, &e) != s) abort();
    if (a.count != b.count) abort();
    for (uint64_t i = 0; i < a.count; i++) {
        if (a.token[i] != b.token[i]) abort();
        (void)kerf_tokenizer_token(t, a.token[i]);
    }
    kerf_token_list_free(&a);
    kerf_token_list_free(&b);
}

void fuzz_input(const uint8_t *p, size_t n)
{
    fuzz_file file[FUZZ_FILES];
    const size_t count = fuzz_files_split(p, n, file);
    char path[1024];
    kerf_tokenizer *t = NULL;
    kerf_error e = {.text = ""};
    if (count == 0) return;
    const char *name = file[0].n > 4 && memcmp(file[0].p, "GGUF", 4) == 0 ? "t.gguf" : "t.json";
    fuzz_put(".", name, file[0].p, file[0].n);
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    const kerf_status s = kerf_tokenizer_open(path, &t, &e);
    if (s != KERF_OK && !e.text[0]) abort();
    for (size_t i = 1; s == KERF_OK && i < count; i++) encode(t, &file[i]);
    kerf_tokenizer_close(t);
    fuzz_clear(name);
}

size_t fuzz_change(uint8_t *p, size_t n, size_t room, unsigned seed)
{
    fuzz_random r = {seed};
    fuzz_bytes b = fuzz_change_files(&r, p, n);
    return fuzz_take(b, p, room);
}
