/* complete.h - candidates for the last word of a command line. */
#ifndef KERF_COMPLETE_H
#define KERF_COMPLETE_H

#include "args.h"

/* words: all after `kerf`, the last of which, maybe empty, is to be completed. Prints to standard
 * output. */
void complete_words(int count, char **words);

#endif
