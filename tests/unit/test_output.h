/* test_output.h - writes checkpoints with known content and reads them back, for the tests of the
 * file room. Every function fails the running test when the library does. */
#ifndef KERF_TESTS_TEST_OUTPUT_H
#define KERF_TESTS_TEST_OUTPUT_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sys/stat.h>

#include <kerf/file.h>

#include "test_folder.h"

static inline void must(kerf_status s, const kerf_error *e)
{
    if (s != KERF_OK) fail_msg("%s: %s", kerf_status_name(s), e->text);
}

static inline const char *in_folder(void **state, const char *name)
{
    static char path[32][4200];
    static int next;
    next = (next + 1) % 32;
    snprintf(path[next], sizeof path[next], "%s/%s", (const char *)*state, name);
    return path[next];
}

static inline size_t entry_bytes(const kerf_entry *e)
{
    uint64_t n;
    kerf_error err;
    must(kerf_shape_count(&e->shape, &n, &err), &err);
    return (size_t)(n * kerf_dtype_bits(e->dtype) / 8);
}

/* Byte k of a tensor depends on its name too, so that swapped tensors are seen. */
static inline unsigned char byte_of(const char *name, size_t k)
{
    return (unsigned char)(k * 131 + k / 251 + strlen(name) * 17 + (unsigned char)name[0]);
}

static inline void fill(const kerf_entry *e, unsigned char *p, size_t n)
{
    for (size_t k = 0; k < n; k++) p[k] = byte_of(e->name, k);
}

static inline void write_entries(kerf_writer *w, const kerf_entry *e, size_t count)
{
    kerf_error err;
    for (size_t i = 0; i < count; i++) {
        size_t n = entry_bytes(&e[i]);
        unsigned char *p = malloc(n + 1);
        assert_non_null(p);
        fill(&e[i], p, n);
        /* in two parts, the second first */
        must(kerf_writer_write(w, i, n / 3, p + n / 3, n - n / 3, &err), &err);
        must(kerf_writer_write(w, i, 0, p, n / 3, &err), &err);
        free(p);
    }
}

static inline void write_checkpoint(const char *path, const kerf_entry *e, size_t count,
                                    const kerf_writer_options *opt)
{
    kerf_writer *w;
    kerf_error err;
    must(kerf_writer_create(path, e, count, opt, &w, &err), &err);
    write_entries(w, e, count);
    must(kerf_writer_commit(w, &err), &err);
}

static inline void check_tensor(const kerf_reader *r, const kerf_entry *e)
{
    kerf_error err;
    const kerf_tensor *t = kerf_reader_find(r, e->name);
    assert_non_null(t);
    assert_string_equal(t->name, e->name);
    assert_int_equal(t->dtype, e->dtype);
    assert_int_equal(t->shape.rank, e->shape.rank);
    for (unsigned i = 0; i < t->shape.rank; i++) assert_int_equal(t->shape.dim[i], e->shape.dim[i]);
    size_t n = entry_bytes(e);
    assert_int_equal(t->bytes, n);
    unsigned char *p = malloc(n + 1), *want = malloc(n + 1);
    assert_true(p && want);
    fill(e, want, n);
    must(kerf_reader_read(r, t, 0, p, n, &err), &err);
    assert_memory_equal(p, want, n);
    if (n > 2) { /* a part from the middle */
        must(kerf_reader_read(r, t, n / 2, p, n - n / 2 - 1, &err), &err);
        assert_memory_equal(p, want + n / 2, n - n / 2 - 1);
    }
    assert_int_equal(kerf_reader_read(r, t, n, p, 1, &err), KERF_E_ARG);
    assert_int_equal(kerf_reader_read(r, t, UINT64_MAX, p, 2, &err), KERF_E_ARG);
    free(p);
    free(want);
}

static inline void check_checkpoint(const char *path, const kerf_entry *e, size_t count)
{
    kerf_reader *r;
    kerf_error err;
    must(kerf_reader_open(path, &r, &err), &err);
    assert_int_equal(kerf_reader_count(r), count);
    for (size_t i = 0; i < count; i++) check_tensor(r, &e[i]);
    kerf_reader_close(r);
}

/* How many names a folder has; -1 when it is not there. */
static inline int count_files(const char *folder)
{
    DIR *d = opendir(folder);
    if (!d) return -1;
    int n = 0;
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

static inline int is_there(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static inline char *read_text(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    char *p = malloc(1 << 20);
    assert_non_null(p);
    *n = fread(p, 1, (1 << 20) - 1, f);
    p[*n] = 0;
    fclose(f);
    return p;
}

static inline void put_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
}

/* A folder of its own for one test, below that of the program. */
static inline void *sub_folder(void **state, const char *name)
{
    char *path = malloc(4200);
    assert_non_null(path);
    snprintf(path, 4200, "%s/%s", (const char *)*state, name);
    assert_int_equal(mkdir(path, 0777), 0);
    return path;
}

/* The path of the only temporary in a folder. */
static inline char *find_temporary(const char *folder)
{
    static char path[5000];
    DIR *d = opendir(folder);
    assert_non_null(d);
    path[0] = 0;
    for (struct dirent *e = readdir(d); e; e = readdir(d))
        if (strstr(e->d_name, ".kerf-tmp-"))
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    closedir(d);
    assert_true(path[0]);
    return path;
}

#endif
