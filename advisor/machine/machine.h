/* machine.h - the machine that --hardware names: one of the registry, or a file. */
#ifndef KERF_MACHINE_H
#define KERF_MACHINE_H

#include <kerf/hardware.h>

#include "args.h"

typedef struct machine {
    const kerf_hardware *hardware;
    kerf_hardware *opened; /* when it came from a file */
} machine;

/* text: a name, or a path that ends in .json. */
kerf_status machine_open(machine *m, const char *text, kerf_error *err);
void machine_close(machine *m); /* all zeros are fine */

#endif
