/* manual.c - `kerf help --man [VERB]`: the help of the command as pages for man(1), from the same
 * tables. The build writes them, and installs them. */
#include "manual.h"

#include <string.h>

/* Text of a page: the formatter must see a line as it is written. */
static void put(const char *text, FILE *to)
{
    for (int starts = 1; *text; starts = *text++ == '\n') {
        if (starts && (*text == '.' || *text == '\'')) fputs("\\&", to);
        if (*text == '\\') {
            fputs("\\e", to);
        } else if (*text == '-') {
            fputs("\\-", to);
        } else {
            putc(*text, to);
        }
    }
}

static void put_section(const char *name, const char *text, FILE *to)
{
    fprintf(to, ".SH %s\n.nf\n", name);
    put(text, to);
    fprintf(to, "%s.fi\n", text[strlen(text) - 1] == '\n' ? "" : "\n");
}

static void put_option(const option *o, FILE *to)
{
    fprintf(to, ".TP\n");
    if (o->letter) fprintf(to, "\\fB\\-%c\\fR, ", o->letter);
    fprintf(to, "\\fB\\-\\-");
    put(o->name, to);
    fprintf(to, "\\fR");
    if (o->value) {
        fprintf(to, " \\fI");
        put(o->value, to);
        fprintf(to, "\\fR");
    }
    putc('\n', to);
    put(o->help, to);
    putc('\n', to);
}

/* The title is in capitals, as man(1) shows those of other commands. */
static void put_head(const char *name, const char *summary, FILE *to)
{
    fprintf(to, ".TH KERF%s", *name ? "\\-" : "");
    for (const char *c = name; *c; c++) putc(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c, to);
    fprintf(to, " 1 \"\" \"kerf %s\"\n.SH NAME\nkerf%s%s \\- ", KERF_VERSION_TEXT,
            *name ? "\\-" : "", name);
    put(summary, to);
}

void print_verb_manual(const verb *v, FILE *to)
{
    const option *o;
    put_head(v->name, v->summary, to);
    fprintf(to, "\n.SH SYNOPSIS\n\\fBkerf %s\\fR ", v->name);
    put(v->usage, to);
    putc('\n', to);
    put_section("DESCRIPTION", v->details, to);
    if (verb_option(v, 0)) fprintf(to, ".SH OPTIONS\n");
    for (size_t i = 0; (o = verb_option(v, i)) != NULL; i++)
        if (o->help) put_option(o, to);
    put_section("EXAMPLES", v->examples, to);
    fprintf(to, ".SH SEE ALSO\n.BR kerf (1)\n");
}

void print_manual(const char *exit_codes, FILE *to)
{
    const verb *v;
    put_head("", "few-bit formats for the weights of models, and what each one costs", to);
    fprintf(to, "\n.SH SYNOPSIS\n\\fBkerf\\fR VERB [operands] [options]\n.SH VERBS\n");
    for (size_t i = 0; (v = verb_at(i)) != NULL; i++) {
        fprintf(to, ".TP\n.BR kerf\\-%s (1)\n", v->name);
        put(v->summary, to);
        putc('\n', to);
    }
    put_section("EXIT STATUS", exit_codes, to);
}
