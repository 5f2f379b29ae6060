/* json_get.c - json_get PATH: prints the value at PATH of the JSON document on standard input, so
 * that tests of the command need no other program. PATH is keys and indexes between dots; '*'
 * stands for every member, '#' for their number. Exit code 1 when there is no such value. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

static int print_value(json_t *v)
{
    if (json_is_string(v)) return puts(json_string_value(v)) >= 0;
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT);
    int ok = text && puts(text) >= 0;
    free(text);
    return ok;
}

static int print_path(json_t *v, const char *path);

static int print_all(json_t *v, const char *rest)
{
    int ok = 1;
    const char *key;
    size_t i;
    json_t *member;
    if (json_is_object(v)) {
        json_object_foreach(v, key, member) ok = print_path(member, rest) && ok;
    } else {
        json_array_foreach(v, i, member) ok = print_path(member, rest) && ok;
    }
    return ok;
}

static int print_path(json_t *v, const char *path)
{
    char word[128];
    size_t n = strcspn(path, ".");
    if (!v || n >= sizeof word) return 0;
    if (!*path) return print_value(v);
    memcpy(word, path, n);
    word[n] = 0;
    const char *rest = path[n] ? path + n + 1 : path + n;
    if (strcmp(word, "*") == 0) return print_all(v, rest);
    if (strcmp(word, "#") == 0) {
        return printf("%zu\n", json_is_array(v) ? json_array_size(v) : json_object_size(v)) > 0;
    }
    if (json_is_array(v)) return print_path(json_array_get(v, strtoul(word, NULL, 10)), rest);
    return print_path(json_object_get(v, word), rest);
}

int main(int argc, char **argv)
{
    json_error_t where;
    if (argc != 2) {
        fprintf(stderr, "usage: json_get PATH < DOCUMENT\n");
        return 2;
    }
    json_t *doc = json_loadf(stdin, JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK, &where);
    if (!doc) {
        fprintf(stderr, "line %d: %s\n", where.line, where.text);
        return 1;
    }
    /* One document, and nothing after it. */
    int ok = 1;
    for (int c = getchar(); c != EOF; c = getchar()) ok = ok && (c == '\n' || c == ' ');
    ok = ok && print_path(doc, argv[1]);
    json_decref(doc);
    return ok ? 0 : 1;
}
