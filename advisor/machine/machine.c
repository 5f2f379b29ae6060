/* machine.c - finds or opens a machine, and names the one that this is. */
#include "machine/machine.h"
#include "base/base.h"

#include <stdio.h>
#include <string.h>

kerf_status machine_open(machine *m, const char *text, kerf_error *err)
{
    const char *words[65] = {NULL};
    size_t n = strlen(text);
    *m = (machine){0};
    if (n > 5 && strcmp(text + n - 5, ".json") == 0) {
        KF_TRY(kerf_hardware_open(text, &m->opened, err));
        m->hardware = m->opened;
        return KERF_OK;
    }
    m->hardware = kerf_hardware_find(text);
    if (m->hardware) return KERF_OK;
    for (size_t i = 0; i < 64 && i < kerf_hardware_count(); i++) {
        words[i] = kerf_hardware_at(i)->name;
    }
    const char *near = kerf_nearest_word(text, words);
    if (near)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "unknown hardware %.60s, did you mean %s?",
                       text, near);
    return kf_fail(
        err, KERF_E_ARG, KF_NOWHERE,
        "unknown hardware %.60s; kerf hardware lists them, and a path that ends in .json "
        "describes another",
        text);
}

void machine_close(machine *m)
{
    kerf_hardware_close(m->opened);
    *m = (machine){0};
}

void processor_name(char *out, size_t size)
{
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    snprintf(out, size, "CPU");
    while (f && fgets(line, sizeof line, f)) {
        const char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || !value) continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(out, size, "%.80s", value + 1 + strspn(value + 1, " "));
        break;
    }
    if (f) fclose(f);
}
