/* folders.c - names of models become paths below the folders of --models, and nothing else. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "output.h"
#include "serve/http.h"
#include "serve/verb_words.h"

enum { LISTED_MOST = 1000, DEEP_MOST = 4 };

/* Whether a path, all links followed, is a folder of --models or below one. */
static int is_inside(const char *path)
{
    char *real = realpath(path, NULL);
    int inside = 0;
    for (size_t i = 0; real && i < serving.model_folders && !inside; i++) {
        char *root = realpath(serving.models[i], NULL);
        const size_t n = root ? strlen(root) : 0;
        inside = n && strncmp(real, root, n) == 0 && (real[n] == '/' || !real[n] || n == 1);
        free(root);
    }
    free(real);
    return inside;
}

/* Every file of a model, for a link in its folder could lead anywhere. */
static int is_inside_whole(const char *path)
{
    struct dirent *e;
    if (!is_inside(path)) return 0;
    DIR *d = opendir(path);
    int inside = 1;
    while (d && inside && (e = readdir(d)) != NULL) {
        char *file = NULL;
        if (strcmp(e->d_name, "..") == 0) continue;
        if (asprintf(&file, "%s/%s", path, e->d_name) < 0)
            inside = 0;
        else
            inside = is_inside(file);
        if (file) free(file);
    }
    if (d) closedir(d);
    return inside;
}

kerf_status model_at(const char *name, char **path, kerf_error *err)
{
    struct stat st;
    *path = NULL;
    for (size_t i = 0; i < serving.model_folders; i++) {
        if (asprintf(path, "%s/%s", serving.models[i], name) < 0) {
            *path = NULL;
            return kerf_fail(err, KERF_E_NOMEM, "no memory for a path");
        }
        if (stat(*path, &st) == 0 && is_inside_whole(*path)) return KERF_OK;
        free(*path);
        *path = NULL;
    }
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

static void look(json_t **all, const char *path, const char *name, int deep)
{
    struct dirent *e;
    struct stat st;
    finding here = {0};
    DIR *d = is_inside(path) ? opendir(path) : NULL;
    while (d && (e = readdir(d)) != NULL) {
        char *file = NULL, *inner = NULL;
        if (e->d_name[0] == '.') continue;
        if (asprintf(&file, "%s/%s", path, e->d_name) < 0) break;
        if (asprintf(&inner, "%s%s%s", name, name[0] ? "/" : "", e->d_name) < 0) inner = NULL;
        const int there = inner && is_inside(file) && stat(file, &st) == 0;
        if (there && S_ISDIR(st.st_mode) && deep) look(all, file, inner, deep - 1);
        if (there && S_ISREG(st.st_mode)) {
            here.config |= strcmp(e->d_name, "config.json") == 0;
            const int weights = is_weights(e->d_name);
            here.weights |= weights;
            if (weights) here.bytes += (double)st.st_size;
            if (ends(e->d_name, ".gguf"))
                add_model(all, inner, &(finding){(double)st.st_size, 0, 1});
        }
        free(file);
        free(inner);
    }
    if (d) closedir(d);
    if (here.config || here.weights) add_model(all, name, &here);
}

json_t *models_list(void)
{
    json_t *all = json_array();
    for (size_t i = 0; i < serving.model_folders; i++) look(&all, serving.models[i], "", DEEP_MOST);
    return all;
}
