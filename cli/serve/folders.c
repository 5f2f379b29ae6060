/* folders.c - names of models become paths below the folders of --models, and nothing else. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "serve/http.h"
#include "serve/json_built.h"
#include "serve/verb_words.h"

enum { LISTED_MOST = 1000, DEEP_MOST = 4 };

/* Why something could not be looked at, as errno has it. What is not there, or not for this server,
 * is no failure: KERF_OK. */
static kerf_status cannot_look(const char *path, kerf_error *err)
{
    const int why = errno;
    if (why == ENOENT || why == ENOTDIR || why == ELOOP || why == EACCES || why == ENAMETOOLONG)
        return KERF_OK;
    kerf_fail(err, why == ENOMEM ? KERF_E_NOMEM : KERF_E_IO, "%.300s: %s", path, strerror(why));
    err->native = why;
    return err->status;
}

/* Whether a path, all links followed, is a folder of --models or below one. */
static kerf_status find_inside(const char *path, int *inside, kerf_error *err)
{
    char *real = realpath(path, NULL);
    *inside = 0;
    if (!real) return cannot_look(path, err);
    kerf_status s = KERF_OK;
    for (size_t i = 0; s == KERF_OK && i < serving.model_folders && !*inside; i++) {
        char *root = realpath(serving.models[i], NULL);
        const size_t n = root ? strlen(root) : 0;
        if (!root) s = cannot_look(serving.models[i], err);
        *inside = n && strncmp(real, root, n) == 0 && (real[n] == '/' || !real[n] || n == 1);
        free(root);
    }
    free(real);
    return s;
}

static kerf_status join(const char *folder, const char *name, char **out, kerf_error *err)
{
    const int bare = !folder[0];
    if (asprintf(out, "%s%s%s", folder, bare ? "" : "/", name) >= 0) return KERF_OK;
    *out = NULL;
    return kerf_fail(err, KERF_E_NOMEM, "no memory for a path");
}

static void free_names(struct dirent **e, int n)
{
    for (int i = 0; i < n; i++) free(e[i]);
    free(e);
}

/* Every file of a model, for a link in its folder could lead anywhere. */
static kerf_status find_inside_whole(const char *path, int *inside, kerf_error *err)
{
    struct dirent **e = NULL;
    TRY(find_inside(path, inside, err));
    const int n = *inside ? scandir(path, &e, NULL, NULL) : 0;
    const int is_file = n < 0 && errno == ENOTDIR;
    kerf_status s = n < 0 ? cannot_look(path, err) : KERF_OK;
    *inside &= n >= 0 || is_file; /* links in a folder that cannot be listed are not known */
    for (int i = 0; s == KERF_OK && *inside && i < n; i++) {
        char *file = NULL;
        if (strcmp(e[i]->d_name, "..") == 0) continue;
        s = join(path, e[i]->d_name, &file, err);
        if (s == KERF_OK) s = find_inside(file, inside, err);
        free(file);
    }
    free_names(e, n);
    return s;
}

kerf_status model_at(const char *name, char **path, kerf_error *err)
{
    struct stat st;
    *path = NULL;
    for (size_t i = 0; i < serving.model_folders; i++) {
        int inside = 0;
        TRY(join(serving.models[i], name, path, err));
        const kerf_status s = stat(*path, &st) != 0 ? cannot_look(*path, err)
                                                    : find_inside_whole(*path, &inside, err);
        if (s == KERF_OK && inside) return KERF_OK;
        free(*path);
        *path = NULL;
        TRY(s);
    }
    err->native = 0;
    return kerf_fail(err, KERF_E_IO, "there is no model %.200s; /api/v1/models lists them", name);
}

/* --- list ---------------------------------------------------------------------------------- */

static int ends(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

static int is_weights(const char *name)
{
    return ends(name, ".safetensors") || ends(name, ".gguf") || ends(name, ".safetensors.zst");
}

/* What a folder holds of a model. */
typedef struct finding {
    double bytes;
    int config, weights;
} finding;

static void add_model(json_t **all, const char *name, const finding *f)
{
    if (json_array_size(*all) >= LISTED_MOST) return;
    json_add(all, json_pack("{s:o, s:f, s:b, s:b}", "name", json_path(name[0] ? name : "."),
                            "weight_bytes", f->bytes, "config", f->config, "weights", f->weights));
}

static kerf_status look(json_t **all, const char *path, const char *name, int deep,
                        kerf_error *err);

/* What stands at a path, which `base` is the end of: a part of the model here, or of others. */
static kerf_status look_at(json_t **all, const char *path, const char *inner, const char *base,
                           int deep, finding *here, kerf_error *err)
{
    struct stat st;
    int inside = 0;
    TRY(find_inside(path, &inside, err));
    if (!inside) return KERF_OK;
    if (stat(path, &st) != 0) return cannot_look(path, err);
    if (S_ISDIR(st.st_mode) && deep) return look(all, path, inner, deep - 1, err);
    if (!S_ISREG(st.st_mode)) return KERF_OK;
    const int weights = is_weights(base);
    here->config |= strcmp(base, "config.json") == 0;
    here->weights |= weights;
    if (weights) here->bytes += (double)st.st_size;
    if (ends(base, ".gguf")) add_model(all, inner, &(finding){(double)st.st_size, 0, 1});
    return KERF_OK;
}

static kerf_status look(json_t **all, const char *path, const char *name, int deep, kerf_error *err)
{
    struct dirent **e = NULL;
    finding here = {0};
    int inside = 0;
    TRY(find_inside(path, &inside, err));
    const int n = inside ? scandir(path, &e, NULL, alphasort) : 0;
    kerf_status s = n < 0 ? cannot_look(path, err) : KERF_OK;
    for (int i = 0; s == KERF_OK && i < n; i++) {
        char *file = NULL, *inner = NULL;
        if (e[i]->d_name[0] == '.') continue;
        s = join(path, e[i]->d_name, &file, err);
        if (s == KERF_OK) s = join(name, e[i]->d_name, &inner, err);
        if (s == KERF_OK) s = look_at(all, file, inner, e[i]->d_name, deep, &here, err);
        free(file);
        free(inner);
    }
    free_names(e, n);
    if (s == KERF_OK && (here.config || here.weights)) add_model(all, name, &here);
    return s;
}

kerf_status models_list(json_t **out, kerf_error *err)
{
    kerf_status s = KERF_OK;
    *out = json_array();
    for (size_t i = 0; s == KERF_OK && i < serving.model_folders; i++)
        s = look(out, serving.models[i], "", DEEP_MOST, err);
    if (s == KERF_OK) return s;
    json_decref(*out);
    *out = NULL;
    return s;
}
