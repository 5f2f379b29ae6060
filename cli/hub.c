/* hub.c - models by the names that they have on the Hugging Face hub, where they are in its local
 * cache. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "options.h"

enum { PATHS = 8, ROOM = 4096 };

static int is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* "models--org--name" of "org/name" or of itself; 0: the text is neither. */
static int folder_name(const char *given, char *out, size_t size)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *slash = strchr(given, '/');
    const size_t n = slash ? (size_t)(slash - given) : strlen(given);
    const size_t rest = slash ? strspn(slash + 1, allowed) : 0;
    if (given[0] == '.' || strspn(given, allowed) != n) return 0;
    if (!slash)
        return strncmp(given, "models--", 8) == 0 && snprintf(out, size, "%s", given) < (int)size;
    if (rest == 0 || slash[1] == '.') return 0;
    if (slash[1 + rest] && strcmp(slash + 1 + rest, "/") != 0) return 0;
    return snprintf(out, size, "models--%.*s--%.*s", (int)n, given, (int)rest, slash + 1) <
           (int)size;
}

const char *model_path(const char *given)
{
    /* as huggingface_hub looks for its cache, the first that is set before the others */
    static const struct {
        const char *variable, *below;
    } places[] = {{"HF_HUB_CACHE", ""},
                  {"HUGGINGFACE_HUB_CACHE", ""},
                  {"HF_HOME", "/hub"},
                  {"XDG_CACHE_HOME", "/huggingface/hub"},
                  {"HOME", "/.cache/huggingface/hub"}};
    static char path[PATHS][ROOM];
    static unsigned next;
    struct stat st;
    char name[512];
    if (!given || lstat(given, &st) == 0 || !folder_name(given, name, sizeof name)) return given;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *cache = getenv(places[i].variable);
        char *out = path[next % PATHS];
        if (!cache || !*cache) continue;
        if (snprintf(out, ROOM, "%s%s/%s", cache, places[i].below, name) >= ROOM) continue;
        if (!is_folder(out)) continue;
        next++;
        return out;
    }
    return given;
}
