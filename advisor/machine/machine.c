/* machine.c - finds or opens a machine, and names the one that this is. */
#include "machine/machine.h"
#include "base/base.h"

#include <stdio.h>
#include <string.h>

kerf_status machine_open(machine *m, const char *text, kerf_error *err)
{
    *m = (machine){0};
    KF_TRY(kerf_hardware_get(text, &m->opened, err));
    m->hardware = m->opened;
    return KERF_OK;
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
