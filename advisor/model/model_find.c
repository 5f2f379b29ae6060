/* model_find.c - the model that a checkpoint is of, where its config.json says so. */
#include <kerf/model.h>

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/base.h"

kerf_status kerf_model_find(const kerf_checkpoint *c, const char *config, kerf_model *out,
                            int *found, char *why, size_t size, kerf_error *err)
{
    struct stat st;
    char path[4096];
    kerf_error failure = {0};
    *found = 0;
    why[0] = 0;
    snprintf(path, sizeof path, "%s/config.json", kerf_reader_folder(kerf_checkpoint_reader(c)));
    if (!config && lstat(path, &st) != 0 && errno == ENOENT) return KERF_OK;
    const kerf_status s = kerf_model_open(config ? config : path, out, &failure);
    *found = s == KERF_OK;
    if (*found) return KERF_OK;
    const int is_other = stat(path, &st) == 0 && !S_ISREG(st.st_mode);
    if (config || is_other || (s != KERF_E_DATA && s != KERF_E_NOSUP)) {
        if (err) *err = failure;
        return s;
    }
    snprintf(why, size, "%s", failure.text);
    return KERF_OK;
}
