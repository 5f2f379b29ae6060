/* budget.c - limits as a person writes them: a number and a unit, which says what is limited. */
#include <kerf/advise.h>
#include <kerf/choose.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/plain_numbers.h"

double kerf_bits_most(double limit)
{
    const double digits = 1e3, last_bits = 1e-12; /* of 4.551 times 1000 and the like */
    const double printed = floor(limit * digits * (1 + last_bits));
    return fmax(limit, (printed + 0.5) / digits * (1 - last_bits));
}

kerf_status kerf_budget_read(const char *text, kerf_budget *b, kerf_error *err)
{
    const struct {
        const char *unit;
        double *limit, scale;
    } units[] = {
        {"", &b->bits, 1},          {"bits", &b->bits, 1},
        {"bpw", &b->bits, 1},       {"B", &b->bytes, 1},
        {"KB", &b->bytes, 1e3},     {"MB", &b->bytes, 1e6},
        {"GB", &b->bytes, 1e9},     {"KiB", &b->bytes, 0x1p10},
        {"MiB", &b->bytes, 0x1p20}, {"GiB", &b->bytes, 0x1p30},
        {"us", &b->us, 1},          {"ms", &b->us, 1e3},
        {"t2", &b->t2, 1},          {"tok/s", &b->tokens_per_s, 1},
    };
    static const char mark[] = ":likely";
    char *end = NULL, unit[16];
    errno = 0;
    kf_plain plain = kf_plain_begin();
    double x = strtod(text, &end);
    kf_plain_end(&plain);
    const char *colon = strchr(end, ':');
    const int likely = colon && strcmp(colon, mark) == 0;
    snprintf(unit, sizeof unit, "%.*s", (int)(likely ? colon - end : 15), end);
    for (size_t i = 0; end != text && i < sizeof units / sizeof *units; i++) {
        const int is_time = units[i].limit == &b->us || units[i].limit == &b->tokens_per_s;
        if (strcmp(units[i].unit, unit) != 0 || errno || !(x > 0 && x < 1e18)) continue;
        if (likely && !is_time) break;
        *units[i].limit = x * units[i].scale;
        b->likely |= likely;
        return KERF_OK;
    }
    return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                   "expected a number above 0 and one of bits, MB, GiB (and the like), us, ms, "
                   "tok/s, t2; a time may end in :likely, as 60tok/s:likely");
}
