/* monitor_verb.h - the two halves of kerf monitor: looking, and metering a command. */
#ifndef KERF_MONITOR_VERB_H
#define KERF_MONITOR_VERB_H

#include <kerf/monitor.h>

#include "args.h"
#include "output.h"

/* Runs the operands as a command and meters it; returns its exit code. */
int monitor_command(kerf_monitor *m, const args *a, kerf_error *err);

#endif
