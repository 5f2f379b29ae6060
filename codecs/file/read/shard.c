/* shard.c - one file of a checkpoint: its bytes and its header, whichever container it is. */
#include "file/read/shard.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "file/disk/download.h"
#include "file/disk/io.h"
#include "file/gguf/imatrix_dat.h"
#include "file/safetensors/safetensors.h"

enum { TAR_MARK = 257, FIRST_BYTES = 264 }; /* TAR_MARK: where "ustar" stands */

static kerf_status read_gguf(kf_shard *s, kerf_error *err)
{
    kf_gguf g;
    s->is_gguf = 1;
    KF_TRY(kf_gguf_read(&s->blob, &g, err));
    kerf_status st = kf_gguf_split_read(&g, s->blob.path, &s->split, err);
    if (st == KERF_OK) st = kf_gguf_take(&g, &s->header, err);
    kf_gguf_free(&g);
    return st;
}

/* By its first bytes; no safetensors file of a legal size begins as GGUF does. */
static int looks_like_gguf(const kf_shard *s, kerf_status *st, kerf_error *err)
{
    uint8_t first[4];
    if (!s->may_be_gguf) return 0;
    if (kf_has_suffix(s->blob.path, ".gguf")) return 1; /* and says what is wrong with it */
    if (s->blob.bytes < sizeof first) return 0;
    *st = kf_blob_read(&s->blob, 0, first, sizeof first, err);
    return *st == KERF_OK && kf_gguf_is(first);
}

/* torch.save's files: a zip, or in older ones the pickle itself. Only asked of what is nothing
 * else, for a header may well have as many bytes. */
static int is_pickle(const uint8_t first[8])
{
    const int begins = first[2] == 0x8a || first[2] == 0x95 || first[2] == '}';
    return memcmp(first, "PK\3\4", 4) == 0 ||
           (first[0] == 0x80 && first[1] >= 2 && first[1] <= 5 && begins);
}

kerf_status kf_fail_pickle(const char *path, kerf_error *err)
{
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                   "%s: not a safetensors file, but a pickle of PyTorch, which runs what it holds "
                   "when it is opened: save the model with safetensors",
                   path);
}

/* config.json, tokenizer.json and the like, which are given for the model that they belong to. */
static int is_text_of_json(const uint8_t *first, size_t n)
{
    size_t i = 1;
    if (n == 0 || (first[0] != '{' && first[0] != '[')) return 0;
    while (i < n && (first[i] == ' ' || first[i] == '\n' || first[i] == '\r' || first[i] == '\t'))
        i++;
    return i < n && (first[i] == '"' || first[i] == '{' || first[i] == '}' || first[i] == ']');
}

/* A graph of ONNX is a message of protobuf: its version, then the name of the program that made it,
 * or the graph. */
static int is_onnx(const uint8_t *first, size_t n)
{
    if (n < 8 || first[0] != 0x08 || first[1] == 0 || first[1] > 31) return 0;
    return first[2] == 0x3a ||
           (first[2] == 0x12 && first[3] > 1 && isalpha(first[4]) && isalpha(first[5]));
}

/* An archive of zip whose first file is no part of a pickle of torch.save. */
static int is_zip_of_files(const uint8_t *first, size_t n)
{
    static const char *const ends[] = {".safetensors", ".gguf", ".json", ".bin", ".md", "/"};
    char name[64];
    if (n < 64 || memcmp(first, "PK\3\4", 4) != 0 || first[27] != 0) return 0;
    const size_t length = (size_t)kf_min_u64(first[26], n - 30);
    if (length >= sizeof name) return 0;
    memcpy(name, first + 30, length);
    name[length] = 0;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (kf_has_suffix(name, ends[i])) return 1;
    return 0;
}

/* The printable letters that it begins with, when there are eight at least: as the length of a
 * header they would be beyond all sizes. */
static int begins_as_text(const uint8_t *first, size_t n, char out[25])
{
    size_t i = 0;
    for (; i < n && i < 24 && (isprint(first[i]) || isspace(first[i])) && first[i] < 0x80; i++)
        out[i] = isprint(first[i]) ? (char)first[i] : ' ';
    out[i] = 0;
    return i >= 8;
}

/* A failure to read it, unless its beginning says what it is instead. */
static kerf_status fail_to_read(kf_shard *s, kerf_status why, kerf_error *err)
{
    uint8_t first[FIRST_BYTES];
    char text[25];
    const size_t n = (size_t)kf_min_u64(s->blob.bytes, sizeof first);
    if (why != KERF_E_DATA && why != KERF_E_LIMIT) return why;
    if (kf_blob_read(&s->blob, 0, first, n, NULL) != KERF_OK) return why;
    const char *is = kf_download_is(first, n);
    if (!is && is_text_of_json(first, n))
        is = "a JSON file, which holds no weights: give the folder that it is in";
    if (!is && n > TAR_MARK + 5 && memcmp(first + TAR_MARK, "ustar", 5) == 0)
        is = "an archive of tar: unpack it first (tar -xf)";
    if (!is && is_onnx(first, n))
        is = "a graph of ONNX: save the model that it was made of with safetensors";
    if (!is && n >= 8 && memcmp(first + 4, "TFL3", 4) == 0)
        is = "a file of TensorFlow Lite: save the model that it was made of with safetensors";
    if (!is && is_zip_of_files(first, n)) is = "an archive of zip: unzip it first";
    if (is) return kf_fail(err, KERF_E_DATA, 0, "%s: %s", s->blob.path, is);
    if (n >= 8 && is_pickle(first)) return kf_fail_pickle(s->blob.path, err);
    if (!begins_as_text(first, n, text)) return why;
    return kf_fail(err, KERF_E_DATA, 0,
                   "%s: begins with the text \"%s\", which no file of weights does: fetch it again",
                   s->blob.path, text);
}

static kerf_status read_header(kf_shard *s, kerf_error *err)
{
    const char *path = s->blob.path;
    uint8_t first[8];
    size_t n;
    kerf_status st = KERF_OK;
    if (looks_like_gguf(s, &st, err)) {
        st = read_gguf(s, err);
        return st == KERF_OK ? st : fail_to_read(s, st, err);
    }
    if (st != KERF_OK) return st;
    if (s->blob.bytes < sizeof first)
        return kf_fail(err, KERF_E_DATA, 0,
                       "%s: %zu bytes, too short for a safetensors file (8 bytes and a header)",
                       path, (size_t)s->blob.bytes);
    KF_TRY(kf_blob_read(&s->blob, 0, first, sizeof first, err));
    if (s->may_be_gguf && kf_imatrix_dat_is(first))
        return kf_imatrix_dat_read(&s->blob, &s->header, err);
    st = kf_header_length(path, first, s->blob.bytes, &n, err);
    if (st != KERF_OK) return fail_to_read(s, st, err);
    char *text = kf_alloc(n, 1);
    if (!text) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", path);
    st = kf_blob_read(&s->blob, sizeof first, text, n, err);
    if (st == KERF_OK) st = kf_header_parse(path, text, n, s->blob.bytes, &s->header, err);
    free(text);
    return st;
}

kerf_status kf_shard_open(kf_shard *s, const char *path, kerf_error *err)
{
    KF_TRY(kf_blob_open(path, &s->blob, err));
    s->name = kf_path_base(s->blob.path);
    return read_header(s, err);
}

void kf_shard_close(kf_shard *s)
{
    kf_header_free(&s->header);
    kf_blob_close(&s->blob);
}
