/* folder.c - looks at the names in a folder and says which files are its model. Nothing is opened
 * but the folder. */
#include "file/read/folder.h"

#include <kerf/file.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "file/disk/io.h"
#include "file/read/shard.h"
#include "file/safetensors/index.h"

#define ENDING ".safetensors"
#define INDEX_ENDING ".safetensors.index.json"

enum { MOST_NAMES = 100000 };

/* --- names --------------------------------------------------------------------------------- */

typedef struct names {
    char **name;
    size_t count, room;
} names;

static void free_names(names *n)
{
    for (size_t i = 0; i < n->count; i++) free(n->name[i]);
    free(n->name);
    *n = (names){0};
}

static kerf_status add_name(names *n, const char *name, kerf_error *err)
{
    if (n->count == MOST_NAMES)
        return kf_fail(err, KERF_E_LIMIT, KF_NOWHERE, "more than %d files", MOST_NAMES);
    if (n->count == n->room) {
        const size_t room = n->room ? 2 * n->room : 16;
        char **more = realloc(n->name, room * sizeof *more);
        if (!more) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for names of files");
        n->name = more;
        n->room = room;
    }
    n->name[n->count] = strdup(name);
    if (!n->name[n->count])
        return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "no memory for names of files");
    n->count++;
    return KERF_OK;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* All names in the folder that end so, in their order; "": all names. */
static kerf_status list_names(const char *folder, const char *end, names *out, kerf_error *err)
{
    const char *name;
    int failed = 0;
    kerf_status s = KERF_OK;
    DIR *d = opendir(folder);
    *out = (names){0};
    if (!d) return kf_fail_errno(err, errno, "%s: cannot open the folder", folder);
    while (s == KERF_OK && (name = kf_next_name(d, &failed)) != NULL)
        if (name[0] != '.' && kf_has_suffix(name, end)) s = add_name(out, name, err);
    closedir(d);
    if (s == KERF_OK && failed) s = kf_fail_errno(err, failed, "%s: cannot read it", folder);
    if (out->count) qsort(out->name, out->count, sizeof *out->name, by_text);
    return s;
}

static size_t base_bytes(const char *name)
{
    return strlen(name) - (kf_has_suffix(name, ".zst") ? 4 : 0);
}

int kf_shard_number(const char *name, unsigned *number, unsigned *count)
{
    static const char form[] = "-00000-of-00000" ENDING;
    const size_t n = base_bytes(name), m = sizeof form - 1;
    if (n < m) return 0;
    const char *at = name + n - m;
    for (size_t i = 0; i < m; i++) {
        const int digit = at[i] >= '0' && at[i] <= '9';
        if (form[i] == '0' ? !digit : at[i] != form[i]) return 0;
    }
    *number = (unsigned)strtoul(at + 1, NULL, 10);
    *count = (unsigned)strtoul(at + 10, NULL, 10);
    return *number >= 1 && *number <= *count;
}

/* --- numbered shards ----------------------------------------------------------------------- */

/* Takes the set of the first name over; the others must be of the same. */
static kerf_status take_set(const char *folder, names *all, kf_folder *out, kerf_error *err)
{
    unsigned number, count, first_count;
    const char *first = all->name[0];
    const size_t prefix = base_bytes(first) - strlen("-00000-of-00000" ENDING);
    if (!kf_shard_number(first, &number, &first_count)) return KERF_OK;
    for (size_t i = 0; i < all->count; i++) {
        const char *name = all->name[i];
        const int fits = kf_shard_number(name, &number, &count) && count == first_count &&
                         base_bytes(name) == base_bytes(first) && memcmp(name, first, prefix) == 0;
        if (fits && number == i + 1) continue;
        if (!fits)
            return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                           "%s: no index says whether %s belongs to %s; give one file, or move the "
                           "others away",
                           folder, name, first);
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "%s: shard %zu of %u (%.*s-%05zu-of-%05u" ENDING ") is not there: fetch it",
                       folder, i + 1, first_count, (int)prefix, first, i + 1, first_count);
    }
    if (all->count < first_count)
        return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                       "%s: shard %zu of %u (%.*s-%05zu-of-%05u" ENDING ") is not there: fetch it",
                       folder, all->count + 1, first_count, (int)prefix, first, all->count + 1,
                       first_count);
    out->shard = all->name;
    out->shards = all->count;
    *all = (names){0};
    return KERF_OK;
}

/* --- what is no model ---------------------------------------------------------------------- */

static int is_there(const char *folder, const char *name)
{
    struct stat st;
    char *path = kf_path_join(folder, name);
    const int found = path && lstat(path, &st) == 0;
    free(path);
    return found;
}

static int has_weights(const char *folder, const char *name)
{
    char *path = kf_path_join(folder, name);
    names inside = {0};
    struct stat st;
    int found = path && stat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
                list_names(path, ENDING, &inside, NULL) == KERF_OK && inside.count > 0;
    free_names(&inside);
    free(path);
    return found;
}

static kerf_status fail_pipeline(const char *folder, kerf_error *err)
{
    names all;
    char list[256] = "", first[64] = "";
    kerf_status s = list_names(folder, "", &all, err);
    for (size_t i = 0; s == KERF_OK && i < all.count; i++) {
        const size_t n = strlen(list);
        if (!has_weights(folder, all.name[i])) continue;
        if (!first[0]) snprintf(first, sizeof first, "%s", all.name[i]);
        snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", all.name[i]);
    }
    free_names(&all);
    if (s != KERF_OK) return s;
    return kf_fail(err, KERF_E_NOSUP, KF_NOWHERE,
                   "%s: a pipeline of several models (%s): give one of them, as %s/%s", folder,
                   list[0] ? list : "none of them with weights here", folder,
                   first[0] ? first : "NAME");
}

/* Files that hold weights, or would, in a folder without safetensors. */
static const struct {
    const char *ending, *is;
} others[] = {
    {".gguf", "give that file"},
    {".incomplete", "a download that has not ended: fetch it again"},
    {".crdownload", "a download that has not ended: fetch it again"},
    {".part", "a download that has not ended: fetch it again"},
    {".pth", "a pickle of PyTorch: save the model with safetensors"},
    {".pt", "a pickle of PyTorch: save the model with safetensors"},
    {".bin", "a pickle of PyTorch, or another's file: save the model with safetensors"},
    {".ckpt", "a pickle of PyTorch: save the model with safetensors"},
    {".h5", "a file of Keras: save the model with safetensors"},
    {".msgpack", "a file of Flax: save the model with safetensors"},
    {".npz", "a file of NumPy: save the model with safetensors"},
    {".onnx", "a graph of ONNX: save the model that it was made of with safetensors"},
    {"config.json", "the weights that belong to it are not: fetch them"},
};

static kerf_status fail_others(const char *folder, kerf_error *err)
{
    names all;
    kerf_status s = list_names(folder, "", &all, err);
    if (s != KERF_OK) return s;
    for (size_t k = 0; s == KERF_OK && k < sizeof others / sizeof *others; k++)
        for (size_t i = 0; s == KERF_OK && i < all.count; i++)
            if (kf_has_suffix(all.name[i], others[k].ending))
                s = kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                            "%s: no safetensors file in this folder; %s/%.100s is there: %s",
                            folder, folder, all.name[i], others[k].is);
    free_names(&all);
    if (s != KERF_OK) return s;
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                   "%s: no model.safetensors and no other safetensors file in this folder", folder);
}

static kerf_status fail_none(const char *folder, const names *all, kerf_error *err)
{
    if (is_there(folder, "model_index.json")) return fail_pipeline(folder, err);
    if (is_there(folder, "pytorch_model.bin") || is_there(folder, "pytorch_model.bin.index.json")) {
        char *path = kf_path_join(folder, "pytorch_model.bin");
        kerf_status s = path ? kf_fail_pickle(path, err)
                             : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", folder);
        free(path);
        return s;
    }
    if (all->count == 0 && is_there(folder, "adapter_config.json"))
        return kf_fail(
            err, KERF_E_NOSUP, KF_NOWHERE,
            "%s: an adapter (LoRA), which holds what is added to a model, not the model: "
            "merge it into that (merge_and_unload of peft) and give the folder where it "
            "is saved",
            folder);
    if (all->count == 0) return fail_others(folder, err);
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                   "%s: no %s, no index, and %zu other safetensors files; give one of them, as "
                   "%s/%s",
                   folder, KF_MODEL_NAME, all->count, folder, all->name[0]);
}

/* --- parts --------------------------------------------------------------------------------- */

/* The files of some processes, which are no model before they are merged. */
static kerf_status fail_parts(const char *path, size_t out_bytes, kerf_error *err)
{
    return kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                   "%s: is in parts that are not merged yet: kerf merge %.*s makes the model of "
                   "them",
                   path, (int)out_bytes, path);
}

kerf_status kf_folder_refuse_parts(const char *path, kerf_error *err)
{
    static const char ending[] = KF_PARTS_ENDING;
    struct stat st;
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    const int found = stat(path, &st) == 0;
    if (found && !S_ISDIR(st.st_mode)) return KERF_OK;
    const char *at = strstr(path, ending);
    if (at && (!at[sizeof ending - 1] || at[sizeof ending - 1] == '/'))
        return fail_parts(path, (size_t)(at - path), err);
    char *parts = kf_alloc(n + sizeof ending, 1);
    if (!parts) return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", path);
    snprintf(parts, n + sizeof ending, "%.*s%s", (int)n, path, ending);
    const int waits = !found && stat(parts, &st) == 0;
    free(parts);
    return waits ? fail_parts(path, n, err) : KERF_OK;
}

/* --- all ----------------------------------------------------------------------------------- */

static kerf_status take_path(const char *folder, const char *name, char **out, kerf_error *err)
{
    *out = kf_path_join(folder, name);
    return *out ? KERF_OK : kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", folder);
}

/* Files that are no model of their own. */
static int is_beside(const char *name)
{
    return strncmp(name, "adapter_", 8) == 0 || strncmp(name, "optimizer", 9) == 0 ||
           strncmp(name, "training_", 9) == 0;
}

/* "model.fp16.safetensors" beside "model.safetensors": the same weights in another type. */
static int is_variant(const char *name, const names *all)
{
    for (size_t i = 0; i < all->count; i++) {
        const size_t n = base_bytes(all->name[i]), stem = n - strlen(ENDING);
        if (base_bytes(name) > n && memcmp(name, all->name[i], stem) == 0 && name[stem] == '.' &&
            !memchr(name + stem + 1, '.', base_bytes(name) - n - 1))
            return 1;
    }
    return 0;
}

static void drop_variants(names *all)
{
    names left = *all;
    for (size_t i = all->count; i-- > 0;) {
        char *name = left.name[i];
        if (!is_variant(name, &left)) continue;
        memmove(left.name + i, left.name + i + 1, (--left.count - i) * sizeof *left.name);
        free(name);
    }
    *all = left;
}

static kerf_status list_files(const char *folder, names *all, kerf_error *err)
{
    names plain, packed;
    *all = (names){0};
    kerf_status s = list_names(folder, ENDING, &plain, err);
    kerf_status more = list_names(folder, ENDING ".zst", &packed, s == KERF_OK ? err : NULL);
    if (s == KERF_OK) s = more;
    for (size_t i = 0; s == KERF_OK && i < plain.count + packed.count; i++) {
        const char *name = i < plain.count ? plain.name[i] : packed.name[i - plain.count];
        if (!is_beside(name)) s = add_name(all, name, err);
    }
    free_names(&plain);
    free_names(&packed);
    if (s == KERF_OK && all->count) qsort(all->name, all->count, sizeof *all->name, by_text);
    return s;
}

kerf_status kf_folder_files(const char *folder, char ***name, size_t *count, kerf_error *err)
{
    names all;
    kerf_status s = list_files(folder, &all, err);
    size_t kept = 0;
    if (s == KERF_OK) drop_variants(&all);
    for (size_t i = 0; s == KERF_OK && i < all.count; i++) {
        if (strncmp(all.name[i], "consolidated", 12) == 0)
            free(all.name[i]);
        else
            all.name[kept++] = all.name[i];
    }
    if (s != KERF_OK) free_names(&all);
    *name = all.name;
    *count = kept;
    return s;
}

static kerf_status look_further(const char *folder, kf_folder *out, kerf_error *err)
{
    names index, all = {0};
    kerf_status s = list_names(folder, INDEX_ENDING, &index, err);
    if (s == KERF_OK && index.count == 1) s = take_path(folder, index.name[0], &out->index, err);
    free_names(&index);
    if (s != KERF_OK || out->index) return s;
    s = list_files(folder, &all, err);
    if (s == KERF_OK) drop_variants(&all);
    if (s == KERF_OK && all.count) s = take_set(folder, &all, out, err);
    if (s == KERF_OK && !out->shard) {
        s = all.count == 1 ? take_path(folder, all.name[0], &out->file, err)
                           : fail_none(folder, &all, err);
    }
    free_names(&all);
    return s;
}

kerf_status kf_folder_look(const char *folder, kf_folder *out, kerf_error *err)
{
    *out = (kf_folder){0};
    if (is_there(folder, KF_MODEL_NAME)) return take_path(folder, KF_MODEL_NAME, &out->file, err);
    if (is_there(folder, KF_MODEL_NAME ".zst"))
        return take_path(folder, KF_MODEL_NAME ".zst", &out->file, err);
    if (is_there(folder, KF_INDEX_NAME)) return take_path(folder, KF_INDEX_NAME, &out->index, err);
    return look_further(folder, out, err);
}

void kf_folder_free(kf_folder *f)
{
    for (size_t i = 0; i < f->shards; i++) free(f->shard[i]);
    free(f->shard);
    free(f->file);
    free(f->index);
    *f = (kf_folder){0};
}

/* --- the cache of the Hugging Face hub ------------------------------------------------------ */

/* What refs/main says, if that is there. */
static char *main_snapshot(const char *snapshots, const char *folder)
{
    char *ref = kf_path_join(folder, "refs/main"), *text = NULL, *path = NULL;
    size_t n;
    if (ref && kf_read_whole(ref, 256, &text, &n, NULL) == KERF_OK) {
        text[strspn(text, "0123456789abcdefABCDEF")] = 0;
        path = text[0] ? kf_path_join(snapshots, text) : NULL;
    }
    free(text);
    free(ref);
    return path;
}

kerf_status kerf_hub_snapshot(const char *path, char **out, kerf_error *err)
{
    struct stat st;
    names all;
    size_t n = strlen(path);
    *out = NULL;
    while (n > 1 && path[n - 1] == '/') n--;
    char *folder = strndup(path, n), *snapshots = folder ? kf_path_join(folder, "snapshots") : NULL;
    if (!snapshots) {
        free(folder);
        return kf_fail(err, KERF_E_NOMEM, KF_NOWHERE, "%s: no memory", path);
    }
    kerf_status s = KERF_OK;
    if (strncmp(kf_path_base(folder), "models--", 8) == 0 && stat(snapshots, &st) == 0 &&
        S_ISDIR(st.st_mode)) {
        *out = main_snapshot(snapshots, folder);
        if (!*out || stat(*out, &st) != 0) {
            free(*out);
            *out = NULL;
            s = list_names(snapshots, "", &all, err);
            if (s == KERF_OK && all.count == 1)
                s = take_path(snapshots, all.name[0], out, err);
            else if (s == KERF_OK)
                s = kf_fail(err, KERF_E_DATA, KF_NOWHERE,
                            "%s: %zu snapshots, and none is \"main\"%s%s", path, all.count,
                            all.count ? "; give one of them, as " : "",
                            all.count ? all.name[0] : "");
            free_names(&all);
        }
    }
    free(snapshots);
    free(folder);
    return s;
}
