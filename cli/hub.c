/* hub.c - models by the names that they have on the Hugging Face hub: where its local cache is, the
 * environment says. */
#include <stdlib.h>
#include <sys/stat.h>

#include <kerf/file.h>

#include "options.h"

enum { PATHS = 8, ROOM = 4096 };

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
    if (!given || lstat(given, &st) == 0) return given;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *set = getenv(places[i].variable);
        char *out = path[next % PATHS], cache[ROOM];
        if (!set || !*set) continue;
        snprintf(cache, sizeof cache, "%s%s", set, places[i].below);
        if (!kerf_hub_folder(cache, given, out, ROOM)) continue;
        next++;
        return out;
    }
    return given;
}
