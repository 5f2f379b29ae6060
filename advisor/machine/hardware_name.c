/* hardware_name.c - what a person calls a machine: "RTX-4090", "4090", "NVIDIA H100 PCIe". */
#include <kerf/words.h>
#include <stdio.h>
#include <string.h>

#include "machine/hardware_new.h"

/* Other names of a machine of the registry. */
static const struct {
    const char *name, *machine;
} twins[] = {
    {"a100-80gb", "a100"}, {"a100-80", "a100"},  {"a100-sxm", "a100"},
    {"dgx-spark", "gb10"}, {"spark", "gb10"},    {"dgx-h100", "h100"},
    {"h100-sxm5", "h100"}, {"dgx-b200", "b200"}, {"gb200-nvl72", "gb200"},
};

static int is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int is_sign(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Whether the n characters of a word stand in a title as they are, without case, and are not a part
 * of a longer number there or, where they end in one, of a longer name: "h20" is not in "H200",
 * "l40" not in "L40S". */
static int title_has(const char *title, const char *word, size_t n)
{
    for (const char *p = title; strlen(p) >= n; p++) {
        size_t k = 0;
        while (k < n && (p[k] | 0x20) == (word[k] | 0x20)) k++;
        const char before = p > title ? p[-1] : ' ';
        if (k == n && !is_sign(p[n]) && (!is_sign(before) || (is_digit(*p) && !is_digit(before))))
            return 1;
    }
    return 0;
}

/* Whether every word that was typed stands in the title. */
static int title_has_all(const char *title, const char *text)
{
    int words = 0;
    for (const char *p = text; *p; words++) {
        size_t n = 0;
        while (*p && !is_sign(*p)) p++;
        while (is_sign(p[n])) n++;
        if (n == 0) break;
        if (!title_has(title, p, n)) return 0;
        p += n;
    }
    return words > 0;
}

static const kerf_hardware *exactly(const char *text)
{
    for (size_t i = 0; i < kerf_hardware_count(); i++) {
        const kerf_hardware *h = kerf_hardware_at(i);
        if (kerf_names_match(text, h->name) || kerf_names_match(text, h->title)) return h;
    }
    for (size_t i = 0; i < sizeof twins / sizeof *twins; i++)
        if (kerf_names_match(text, twins[i].name)) return kerf_hardware_find(twins[i].machine);
    return NULL;
}

static kerf_status unknown_machine(const char *text, kerf_error *err)
{
    const char *words[65] = {NULL};
    for (size_t i = 0; i < 64 && i < kerf_hardware_count(); i++)
        words[i] = kerf_hardware_at(i)->name;
    const char *near = kerf_nearest_word(text, words);
    if (near)
        return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "unknown hardware %.60s, did you mean %s?",
                       text, near);
    return kf_fail(err, KERF_E_ARG, KF_NOWHERE,
                   "unknown hardware %.60s; kerf hardware lists them, and a path that ends in "
                   ".json describes another",
                   text);
}

kerf_status kf_hardware_named(const char *text, const kerf_hardware **out, kerf_error *err)
{
    char list[240] = "";
    size_t found = 0;
    *out = exactly(text);
    if (*out) return KERF_OK;
    for (size_t i = 0; i < kerf_hardware_count(); i++) {
        const kerf_hardware *h = kerf_hardware_at(i);
        if (!title_has_all(h->title, text)) continue;
        const size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", found ? ", " : "", h->name);
        *out = h;
        found++;
    }
    if (found == 1) return KERF_OK;
    *out = NULL;
    if (found == 0) return unknown_machine(text, err);
    return kf_fail(err, KERF_E_ARG, KF_NOWHERE, "%.60s names %zu machines: %s", text, found, list);
}
