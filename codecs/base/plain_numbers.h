/* plain_numbers.h - numbers in texts have a point, whatever the locale of the program is that calls
 * the library: in German, printf writes 1,5 and strtod ends at the point. */
#ifndef KERF_PLAIN_NUMBERS_H
#define KERF_PLAIN_NUMBERS_H

#include <locale.h>
#include <stddef.h>

#include "base/base.h"
#ifdef __APPLE__
#include <xlocale.h>
#endif

typedef struct kf_plain {
    locale_t own, before;
} kf_plain;

/* From here to the end of it, printf and strtod of this thread are those of locale C. In one thread
 * the last that was begun ends first. */
kf_plain kf_plain_begin(void);
void kf_plain_end(kf_plain *p);

/* snprintf in locale C. */
int kf_print(char *out, size_t size, const char *fmt, ...) KERF_PRINTF(3, 4);

#endif
