/* args_files.c - the paths of a command line: what may be written, under which names, and the
 * checksums beside it. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <kerf/checksums.h>
#include <kerf/file.h>

#include "args.h"
#include "output.h"

enum { NAMES_MOST = 10 }; /* of verb.reads */

/* --- which files a call reads and writes ----------------------------------------------------- */

/* "-" for standard input or output. */
static kerf_status check_streams(const args *a, kerf_error *err)
{
    const verb *v = args_verb(a);
    for (size_t i = 0; !v->operands_are_words && i < args_operands(a); i++)
        if (strcmp(args_operand(a, i), "-") == 0)
            return USAGE(err,
                         "%s: \"-\": files are read at several places at once, which a stream "
                         "has not; give a file",
                         v->name);
    for (size_t i = 0; i < sizeof v->writes / sizeof *v->writes && v->writes[i]; i++) {
        const char *value = args_value(a, v->writes[i]);
        if (value && strcmp(value, "-") == 0)
            return USAGE(err,
                         "%s: --%s -: an output is read back and gets its name when it is whole, "
                         "which a stream cannot; give a file",
                         v->name, v->writes[i]);
    }
    return KERF_OK;
}

static int is_among(const char *const *names, size_t most, const char *name)
{
    for (size_t i = 0; i < most && names[i]; i++)
        if (strcmp(names[i], name) == 0) return 1;
    return 0;
}

/* The operand of a verb without -o is what it writes. */
static const char *output_path(const args *a)
{
    const char *given = args_value(a, "output");
    return given ? given : args_operand(a, 0);
}

/* OUT.sha256 for --sha256, malloc'd; NULL: not asked for, or no memory. */
static char *checksums_path(const args *a)
{
    static const char end[] = ".sha256";
    const char *out = args_has(a, "sha256") ? output_path(a) : NULL;
    size_t n = out ? strlen(out) : 0;
    while (n > 1 && out[n - 1] == '/') n--;
    char *path = out ? malloc(n + sizeof end) : NULL;
    if (path) snprintf(path, n + sizeof end, "%.*s%s", (int)n, out, end);
    return path;
}

/* Files alone: a folder can be what an earlier run has left, and is judged by who writes it. */
static kerf_status check_absent(const args *a, const char *path, kerf_error *err)
{
    struct stat st;
    if (args_has(a, "overwrite") || args_has(a, "resume") || args_has(a, "dry-run")) return KERF_OK;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return KERF_OK;
    return kerf_fail(err, KERF_E_EXISTS, "%.300s exists; -y replaces it", path);
}

static kerf_status check_files(const args *a, const char *sums, kerf_error *err)
{
    const verb *v = args_verb(a);
    const char **source = NULL, *output[5] = {sums}, *cache[4];
    TRY(allocate(&source, args_operands(a) + NAMES_MOST, sizeof *source, err));
    kerf_files f = {.source = source, .output = output, .cache = cache, .outputs = sums ? 1 : 0};
    for (size_t i = 0; !v->operands_are_words && i < args_operands(a); i++)
        source[f.sources++] = args_operand(a, i);
    for (size_t i = 0; i < NAMES_MOST && v->reads[i]; i++) {
        const char *value = args_value(a, v->reads[i]);
        if (value && is_among(v->writes, sizeof v->writes / sizeof *v->writes, v->reads[i]))
            cache[f.caches++] = value;
        else if (value)
            source[f.sources++] = value;
    }
    for (size_t i = 0; i < sizeof v->writes / sizeof *v->writes && v->writes[i]; i++) {
        const char *value = args_value(a, v->writes[i]);
        if (value && !is_among(v->reads, NAMES_MOST, v->writes[i])) output[f.outputs++] = value;
    }
    kerf_status s = kerf_files_check(&f, err); /* before the work, which may take hours */
    if (s == KERF_OK && !args_has(a, "dry-run")) s = kerf_files_check_folders(&f, err);
    for (size_t i = 0; s == KERF_OK && i < f.outputs; i++) s = check_absent(a, output[i], err);
    free(source);
    return s;
}

kerf_status args_check_files(const args *a, kerf_error *err)
{
    const verb *v = args_verb(a);
    TRY(check_streams(a, err));
    if (!v->writes[0]) return KERF_OK;
    if (args_has(a, "sha256") && !args_value(a, "output"))
        return USAGE(err, "%s: --sha256 needs -o OUT", v->name);
    char *sums = checksums_path(a);
    kerf_status s = check_files(a, sums, err);
    free(sums);
    return s;
}

/* --- names ----------------------------------------------------------------------------------- */

/* Whether a path ends like the name of a file: a dot and letters. */
static int looks_like_file(const char *path)
{
    const char *dot = strrchr(path, '.');
    if (!dot || dot == path || dot[-1] == '/' || !dot[1]) return 0;
    for (const char *p = dot + 1; *p; p++)
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z'))) return 0;
    return 1;
}

kerf_status args_suffix(const args *a, const char *name, const char *const *ends, int folders,
                        kerf_error *err)
{
    const char *path = args_value(a, name);
    char list[160] = "";
    struct stat st;
    if (!path) return KERF_OK;
    const size_t n = strlen(path);
    for (size_t i = 0; ends[i]; i++) {
        const size_t m = strlen(ends[i]), used = strlen(list);
        if (n > m && strcmp(path + n - m, ends[i]) == 0) return KERF_OK;
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", ends[i]);
    }
    if (folders && (!looks_like_file(path) || (stat(path, &st) == 0 && S_ISDIR(st.st_mode))))
        return KERF_OK;
    return USAGE(err, "--%s %.200s: expected a name that ends in %s%s", name, path, list,
                 folders ? ", or a folder (a new one ends in /)" : "");
}

/* --- checksums ------------------------------------------------------------------------------- */

kerf_status args_checksums(const args *a, kerf_error *err)
{
    char *text = NULL, *path = NULL;
    size_t n = 0;
    if (!args_has(a, "sha256") || !IS_FIRST) return KERF_OK;
    kerf_status s = kerf_checksums(output_path(a), &text, &n, err);
    if (s == KERF_OK && !(path = checksums_path(a)))
        s = kerf_fail(err, KERF_E_NOMEM, "no memory for a path");
    if (s == KERF_OK) s = write_file(path, text, n, args_has(a, "overwrite"), err);
    free(path);
    free(text);
    return s;
}
