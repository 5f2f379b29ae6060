/* fuzz.h - what a fuzz target gives, and what all of them share.
 *
 * A target is one file target_NAME.c with fuzz_input and fuzz_change. Under libFuzzer (fuzzer.c) or
 * without one (replay.c) these are called with inputs of a corpus and with changed ones. */
#ifndef KERF_TESTS_FUZZ_H
#define KERF_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* --- a target ------------------------------------------------------------------------------ */

/* Gives one input to the code under test, and ends the process (abort) when an answer is wrong. */
void fuzz_input(const uint8_t *p, size_t n);

/* Changes an input in place, within `room` bytes; its new size. */
size_t fuzz_change(uint8_t *p, size_t n, size_t room, unsigned seed);

/* --- change.c, change_json.c, change_file.c: changes that keep an input well formed enough to get
 * past the first check
 * ----------------------------------------------------------------------------- */

/* Numbers for one change; the same for the same seed. */
typedef struct fuzz_random {
    uint64_t state;
} fuzz_random;

unsigned fuzz_below(fuzz_random *r, unsigned n); /* 0 to n - 1; 0 for n = 0 */

/* Bytes that grow; every function below returns new ones, which the caller frees. Nothing here is
 * ever out of memory: it ends the process. */
typedef struct fuzz_bytes {
    uint8_t *p;
    size_t n;
} fuzz_bytes;

fuzz_bytes fuzz_copy(const void *p, size_t n);
void fuzz_add(fuzz_bytes *b, const void *p, size_t n);

/* As a fuzzer without knowledge changes bytes (libFuzzer's own, where it is there). */
fuzz_bytes fuzz_change_bytes(fuzz_random *r, const uint8_t *p, size_t n);

/* One value of a JSON text: replaced, removed, renamed, moved, repeated; also in JSON that is the
 * text of a string. What is no JSON is changed as bytes. */
fuzz_bytes fuzz_change_json(fuzz_random *r, const uint8_t *p, size_t n);

/* A file by what it begins with: safetensors, GGUF, zstd in its seekable format, JSON. */
fuzz_bytes fuzz_change_file(fuzz_random *r, const uint8_t *p, size_t n);
fuzz_bytes fuzz_change_gguf(fuzz_random *r, const uint8_t *p, size_t n);

/* --- files.c: inputs that are several files -------------------------------------------------- */

/* The bytes of an input: for each file the length of its name (a byte), its name, its size (4
 * bytes, little endian), its bytes. What does not fit ends the list. */
typedef struct fuzz_file {
    char name[256];
    const uint8_t *p;
    size_t n;
} fuzz_file;

enum { FUZZ_FILES = 8 };

size_t fuzz_files_split(const uint8_t *p, size_t n, fuzz_file out[FUZZ_FILES]);
fuzz_bytes fuzz_files_join(const fuzz_file *file, size_t count);

/* Changes one of the files; now and then drops, repeats or renames one. */
fuzz_bytes fuzz_change_files(fuzz_random *r, const uint8_t *p, size_t n);

/* Ends a change: b into the fuzzer's room of so many bytes, cut to it; b is released. */
size_t fuzz_take(fuzz_bytes b, uint8_t *p, size_t room);

/* A folder of this process on a memory disk, removed at the end. */
const char *fuzz_folder(void);
/* Puts a file there ("."), or in a folder there. A name that would lead elsewhere is no file. */
void fuzz_put(const char *in, const char *name, const void *p, size_t n);
/* Removes what stands under this name there, a folder with all that is in it. */
void fuzz_clear(const char *name);
/* How many names in it begin so. */
size_t fuzz_count(const char *begins);

/* --- command.c: the command in this process -------------------------------------------------- */

/* Runs kerf with the words of a line, between which is one space and of which @ is the folder; what
 * it prints goes nowhere. Ends the process for an exit code that input cannot give, and when an
 * output is half there: `out` is what it writes, under the folder, or NULL. Returns the code. */
int fuzz_kerf(const char *line, const char *out);

#endif
