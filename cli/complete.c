/* complete.c - `kerf complete WORD...`: what the last word of a command line could become, for the
 * shells. The scripts in cli/completions ask this, so they know no verb, option or format of their
 * own.
 *
 * A line for each candidate: the word, a tab, and what it is. Nothing is printed where a file name
 * or a value that has no list is expected. */
#include "complete.h"

#include <string.h>

#include <kerf/hardware.h>

/* The word to be completed: candidates begin with it. What stands before `from` is kept. */
typedef struct unfinished {
    const char *word;
    size_t from;
} unfinished;

static void offer(const unfinished *u, const char *word, const char *what)
{
    const char *typed = u->word + u->from;
    if (strncmp(word, typed, strlen(typed)) != 0) return;
    printf("%.*s%s\t%s\n", (int)u->from, u->word, word, what);
}

/* --- values -------------------------------------------------------------------------------- */

static void offer_formats(const unfinished *u)
{
    const kerf_format *f;
    for (size_t i = 0; (f = kerf_format_at(i)) != NULL; i++) offer(u, f->name, f->note);
}

/* Formats; after a colon the encoders of the format before it. */
static void offer_codecs(const unfinished *u)
{
    char format[64], name[64];
    const char *typed = u->word + u->from, *colon = strchr(typed, ':');
    if (!colon) {
        offer_formats(u);
        return;
    }
    snprintf(format, sizeof format, "%.*s", (int)(colon - typed), typed);
    const kerf_format *f = kerf_format_find(format);
    for (size_t i = 0; f && i < kerf_encoder_count(f); i++) {
        const kerf_encoder *e = kerf_encoder_at(f, i);
        offer(u, kerf_codec_name((kerf_codec){f, e}, name, sizeof name), e->source);
    }
}

static void offer_layouts(const unfinished *u)
{
    const kerf_layout *l;
    for (size_t i = 0; (l = kerf_layout_at(i)) != NULL; i++) offer(u, l->name, l->note);
}

static void offer_machines(const unfinished *u)
{
    const kerf_hardware *h;
    for (size_t i = 0; (h = kerf_hardware_at(i)) != NULL; i++) offer(u, h->name, h->title);
}

/* The words of "error|zero|saturate", the last of which may go on: "cuda[:N|:N,M|:all]". */
static void offer_words(const unfinished *u, const char *words)
{
    char word[64];
    for (const char *p = words; *p; p++) {
        const size_t n = strcspn(p, "|[");
        snprintf(word, sizeof word, "%.*s", (int)n, p);
        offer(u, word, "");
        p += n;
        if (*p != '|') return;
    }
}

/* Options whose value is from a list of the library; `last` separates values or parts of one. */
static const struct {
    const char *name, *last;
    void (*offer)(const unfinished *u);
} lists[] = {
    {"format", ",", offer_codecs},  {"tensor", "=", offer_codecs},
    {"layout", "", offer_layouts},  {"hardware", "", offer_machines},
    {"kv", "", offer_formats},      {"head", "", offer_formats},
    {"experts", "", offer_formats}, {"activations", "", offer_formats},
};

static void offer_values(const option *o, unfinished u)
{
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (strcmp(lists[i].name, o->name) != 0) continue;
        const char *cut = lists[i].last[0] ? strrchr(u.word + u.from, lists[i].last[0]) : NULL;
        if (cut) u.from = (size_t)(cut + 1 - u.word);
        if (lists[i].last[0] == '=' && !cut) return; /* the pattern */
        lists[i].offer(&u);
        return;
    }
    if (strchr(o->value, '|') && strcmp(o->value, "NAME|FILE") != 0) offer_words(&u, o->value);
}

/* --- options and operands -------------------------------------------------------------------- */

static void offer_options(const verb *v, const unfinished *u)
{
    char word[80];
    const option *o;
    for (size_t i = 0; (o = verb_option(v, i)) != NULL; i++) {
        snprintf(word, sizeof word, "--%s", o->name);
        if (o->help) offer(u, word, o->help);
    }
    offer(u, "--help", "help of this verb");
}

/* The option of a value that a word names, and that comes next, or is *value in the word itself. */
static const option *option_of(const verb *v, const char *word, const char **value)
{
    *value = NULL;
    const option *o = word[0] == '-' && word[1] ? find_option(v, word, value) : NULL;
    return o && o->value ? o : NULL;
}

static void offer_operands(const verb *v, const unfinished *u)
{
    if (strcmp(v->name, "help") == 0) {
        const verb *other;
        for (size_t i = 0; (other = verb_at(i)) != NULL; i++) offer(u, other->name, other->summary);
    }
    if (strcmp(v->name, "hardware") == 0) offer_machines(u);
}

void complete_words(int count, char **words)
{
    const char *last = count > 0 ? words[count - 1] : "", *value;
    const verb *v = NULL, *other;
    const unfinished u = {last, 0};
    for (size_t i = 0; (other = verb_at(i)) != NULL; i++) {
        if (count <= 1) offer(&u, other->name, other->summary);
        if (count > 1 && strcmp(other->name, words[0]) == 0) v = other;
    }
    if (!v) return;
    for (int i = 1; i < count - 1; i++)
        if (strcmp(words[i], "--") == 0) return;
    const option *o = count > 2 ? option_of(v, words[count - 2], &value) : NULL;
    if (o && !value) {
        offer_values(o, u);
    } else if ((o = option_of(v, last, &value)) != NULL && value) {
        offer_values(o, (unfinished){last, (size_t)(value - last)});
    } else if (last[0] == '-') {
        offer_options(v, &u);
    } else {
        offer_operands(v, &u);
    }
}
