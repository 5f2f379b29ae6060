/* manual.h - the help of the command as pages for man(1). */
#ifndef KERF_MANUAL_H
#define KERF_MANUAL_H

#include "args.h"

void print_verb_manual(const verb *v, FILE *to);
/* The page about all verbs. exit_codes: the lines that say what they mean. */
void print_manual(const char *exit_codes, FILE *to);

#endif
