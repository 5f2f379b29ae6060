/* hub_folder.c - models by the names that they have on the Hugging Face hub, where they are in a
 * local cache of it. */
#include <kerf/file.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int kerf_hub_folder(const char *cache, const char *given, char *out, size_t size)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *slash = strchr(given, '/');
    const size_t n = slash ? (size_t)(slash - given) : strlen(given);
    const size_t rest = slash ? strspn(slash + 1, allowed) : 0;
    int room;
    if (given[0] == '.' || strspn(given, allowed) != n) return 0;
    if (!slash) {
        if (strncmp(given, "models--", 8) != 0) return 0;
        room = snprintf(out, size, "%s/%s", cache, given);
    } else {
        if (rest == 0 || slash[1] == '.') return 0;
        if (slash[1 + rest] && strcmp(slash + 1 + rest, "/") != 0) return 0;
        room = snprintf(out, size, "%s/models--%.*s--%.*s", cache, (int)n, given, (int)rest,
                        slash + 1);
    }
    return room >= 0 && (size_t)room < size && is_folder(out);
}
