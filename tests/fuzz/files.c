/* files.c - inputs that are several files, and the folder in which they are put. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

size_t fuzz_files_split(const uint8_t *p, size_t n, fuzz_file out[FUZZ_FILES])
{
    size_t count = 0, at = 0;
    while (count < FUZZ_FILES && at < n) {
        const size_t name = p[at];
        if (name == 0 || n - at < 1 + name + 4) break;
        fuzz_file *f = &out[count];
        memcpy(f->name, p + at + 1, name);
        f->name[name] = 0;
        at += 1 + name;
        f->n = (size_t)p[at] | (size_t)p[at + 1] << 8 | (size_t)p[at + 2] << 16 |
               (size_t)p[at + 3] << 24;
        at += 4;
        if (f->n > n - at) f->n = n - at;
        f->p = p + at;
        at += f->n;
        count++;
    }
    return count;
}

fuzz_bytes fuzz_files_join(const fuzz_file *file, size_t count)
{
    fuzz_bytes b = {NULL, 0};
    for (size_t i = 0; i < count; i++) {
        const fuzz_file *f = &file[i];
        const uint8_t name = (uint8_t)strlen(f->name);
        const uint8_t size[4] = {(uint8_t)f->n, (uint8_t)(f->n >> 8), (uint8_t)(f->n >> 16),
                                 (uint8_t)(f->n >> 24)};
        fuzz_add(&b, &name, 1);
        fuzz_add(&b, f->name, name);
        fuzz_add(&b, size, 4);
        fuzz_add(&b, f->p, f->n);
    }
    return b;
}

fuzz_bytes fuzz_change_files(fuzz_random *r, const uint8_t *p, size_t n)
{
    static const char *const names[] = {"config.json",
                                        "hf_quant_config.json",
                                        "model.safetensors",
                                        "model.safetensors.index.json",
                                        "model-00001-of-00002.safetensors",
                                        "model-00002-of-00002.safetensors",
                                        "model.gguf",
                                        "model.safetensors.zst"};
    fuzz_file file[FUZZ_FILES];
    size_t count = fuzz_files_split(p, n, file);
    if (count == 0 || fuzz_below(r, 64) == 0) return fuzz_change_bytes(r, p, n);
    const size_t i = fuzz_below(r, (unsigned)count);
    fuzz_bytes changed = {NULL, 0};
    switch (fuzz_below(r, 24)) {
    case 0: file[i] = file[--count]; break;
    case 1: snprintf(file[i].name, sizeof file[i].name, "%s", names[fuzz_below(r, 8)]); break;
    case 2:
        if (count < FUZZ_FILES) {
            file[count] = file[i];
            snprintf(file[count++].name, sizeof file[i].name, "%s", names[fuzz_below(r, 8)]);
        }
        break;
    default:
        changed = fuzz_change_file(r, file[i].p, file[i].n);
        file[i].p = changed.p;
        file[i].n = changed.n;
    }
    fuzz_bytes b = fuzz_files_join(file, count);
    free(changed.p);
    return b;
}

/* --- the folder ------------------------------------------------------------------------------ */

static char folder[64];

static void remove_tree(const char *path)
{
    DIR *d = unlink(path) == 0 ? NULL : opendir(path);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char inside[1024];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        snprintf(inside, sizeof inside, "%s/%.255s", path, e->d_name);
        remove_tree(inside);
    }
    closedir(d);
    rmdir(path);
}

static void remove_folder(void)
{
    remove_tree(folder);
}

const char *fuzz_folder(void)
{
    if (folder[0]) return folder;
    const char *disk = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(folder, sizeof folder, "%s/kerf-fuzz-XXXXXX", disk);
    if (!mkdtemp(folder)) abort();
    atexit(remove_folder);
    return folder;
}

static void path_of(const char *name, char out[1024])
{
    snprintf(out, 1024, "%s/%.700s", fuzz_folder(), name);
}

void fuzz_put(const char *in, const char *name, const void *p, size_t n)
{
    char path[1024];
    if (strchr(name, '/') || name[0] == '.' || name[0] == 0) return;
    path_of(in, path);
    mkdir(path, 0700);
    const size_t k = strlen(path);
    snprintf(path + k, sizeof path - k, "/%.255s", name);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0) return;
    if (write(fd, p, n) != (ssize_t)n) abort();
    close(fd);
}

void fuzz_clear(const char *name)
{
    char path[1024];
    path_of(name, path);
    remove_tree(path);
}

size_t fuzz_count(const char *begins)
{
    size_t count = 0;
    DIR *d = opendir(fuzz_folder());
    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        count += strncmp(e->d_name, begins, strlen(begins)) == 0;
    if (d) closedir(d);
    return count;
}

size_t fuzz_take(fuzz_bytes b, uint8_t *p, size_t room)
{
    const size_t n = b.n < room ? b.n : room;
    if (n > 0) memcpy(p, b.p, n);
    free(b.p);
    return n;
}
