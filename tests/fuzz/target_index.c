/* target_index.c - a folder of shards: the index above all, also shards without one. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <kerf/file.h>

#include "fuzz.h"

void fuzz_input(const uint8_t *p, size_t n)
{
    fuzz_file file[FUZZ_FILES];
    const size_t count = fuzz_files_split(p, n, file);
    char path[1024];
    kerf_reader *r = NULL;
    kerf_error e = {.text = ""};
    fuzz_clear("m");
    for (size_t i = 0; i < count; i++) fuzz_put("m", file[i].name, file[i].p, file[i].n);
    snprintf(path, sizeof path, "%s/m", fuzz_folder());
    const kerf_status s = kerf_reader_open(path, &r, &e);
    if (s != KERF_OK && !e.text[0]) abort();
    for (size_t i = 0; s == KERF_OK && i < kerf_reader_count(r); i++)
        if (kerf_reader_find(r, kerf_reader_at(r, i)->name) != kerf_reader_at(r, i)) abort();
    if (s == KERF_OK && kerf_reader_check(r, &e) != KERF_OK) abort(); /* nobody has changed it */
    kerf_reader_close(r);
}

size_t fuzz_change(uint8_t *p, size_t n, size_t room, unsigned seed)
{
    fuzz_random r = {seed};
    fuzz_bytes b = fuzz_change_files(&r, p, n);
    return fuzz_take(b, p, room);
}
