/* machine.c - finds or opens a machine. */
#include "machine/machine.h"
#include "base/base.h"

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
