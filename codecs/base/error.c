/* error.c - status names and the text of failures. */
#include "base/base.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/characters.h"
#include "base/plain_numbers.h"
#include "base/system.h"

#define MAX_NAME_IN_TEXT 120

uint32_t kerf_version(void)
{
    return KERF_VERSION_MAJOR << 16 | KERF_VERSION_MINOR << 8 | KERF_VERSION_PATCH;
}

const char *kerf_status_name(kerf_status s)
{
    switch (s) {
    case KERF_OK: return "KERF_OK";
    case KERF_E_ARG: return "KERF_E_ARG";
    case KERF_E_NOMEM: return "KERF_E_NOMEM";
    case KERF_E_DATA: return "KERF_E_DATA";
    case KERF_E_LIMIT: return "KERF_E_LIMIT";
    case KERF_E_RANGE: return "KERF_E_RANGE";
    case KERF_E_BUFFER: return "KERF_E_BUFFER";
    case KERF_E_NOSUP: return "KERF_E_NOSUP";
    case KERF_E_CUDA: return "KERF_E_CUDA";
    case KERF_E_IO: return "KERF_E_IO";
    case KERF_E_EXISTS: return "KERF_E_EXISTS";
    case KERF_E_CANCELED: return "KERF_E_CANCELED";
    }
    return "KERF_E_UNKNOWN";
}

/* Text that came from a file may hold anything, and a precision may have cut it anywhere; an error
 * is one line of printable UTF-8. A cut character at the end is dropped. */
static void make_one_line(char *text)
{
    unsigned char *s = (unsigned char *)text;
    size_t i = strlen(text), n;
    while (i > 0 && (s[i - 1] & 0xc0) == 0x80) i--;
    if (i > 0 && s[i - 1] >= 0xc0 && kf_character_bytes(s + i - 1) == 0) s[i - 1] = 0;
    for (i = 0; s[i]; i += n) {
        n = kf_character_bytes(s + i);
        if (n > 0 && !kf_is_control(s + i)) continue;
        if (n == 0) n = 1;
        memset(s + i, '?', n);
    }
}

static KERF_PRINTF(4, 0) void set_error(kerf_error *err, kerf_status s, uint64_t offset,
                                        const char *fmt, va_list ap)
{
    kf_plain plain = kf_plain_begin();
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    kf_plain_end(&plain);
    make_one_line(err->text);
    err->status = s;
    err->native = 0;
    err->offset = offset;
}

kerf_status kf_fail(kerf_error *err, kerf_status s, uint64_t offset, const char *fmt, ...)
{
    va_list ap;
    if (!err) return s;
    va_start(ap, fmt);
    set_error(err, s, offset, fmt, ap);
    va_end(ap);
    return s;
}

kerf_status kerf_fail(kerf_error *err, kerf_status s, const char *fmt, ...)
{
    va_list ap;
    if (!err) return s;
    va_start(ap, fmt);
    set_error(err, s, KF_NOWHERE, fmt, ap);
    va_end(ap);
    return s;
}

kerf_status kf_fail_errno(kerf_error *err, int errnum, const char *fmt, ...)
{
    const kerf_status s = errnum == ENOMEM ? KERF_E_NOMEM : KERF_E_IO;
    if (err) {
        va_list ap;
        va_start(ap, fmt);
        int n = vsnprintf(err->text, sizeof err->text, fmt, ap);
        va_end(ap);
        if (n >= 0 && (size_t)n < sizeof err->text) {
            char room[128];
            const char *why = kf_errno_text(errnum, room, sizeof room);
            snprintf(err->text + n, sizeof err->text - (size_t)n, ": %s", why);
        }
        make_one_line(err->text);
        err->status = s;
        err->native = errnum;
        err->offset = KF_NOWHERE;
    }
    return s;
}

/* "org/name", and no file in a folder. */
static int is_hub_name(const char *path)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    static const char *const files[] = {".safetensors", ".zst", ".gguf", ".json", ".bin"};
    const size_t n = strspn(path, allowed);
    if (n == 0 || path[0] == '.' || path[n] != '/' || path[n + 1] == '.' || !path[n + 1]) return 0;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (kf_has_suffix(path, files[i])) return 0;
    return path[n + 1 + strspn(path + n + 1, allowed)] == 0;
}

kerf_status kf_fail_no_model(kerf_error *err, int errnum, const char *path)
{
    if (errnum == ENOENT && strstr(path, "://"))
        return kf_fail_errno(err, errnum,
                             "%.200s: nothing is downloaded; hf download ORG/NAME fetches a model, "
                             "which is then given as ORG/NAME",
                             path);
    if (errnum == ENOENT && is_hub_name(path))
        return kf_fail_errno(err, errnum,
                             "%.100s: cannot open; if it is a model on the Hugging Face hub, hf "
                             "download %.100s fetches it",
                             path, path);
    return kf_fail_errno(err, errnum, "%.200s: cannot open", path);
}

kerf_status kf_fail_at(kerf_error *err, kerf_status s, const char *where)
{
    if (!err) return s;
    const size_t room = sizeof err->text - 1;
    const size_t n = strlen(where) < room / 2 ? strlen(where) : room / 2;
    const size_t rest = strlen(err->text) < room - n - 2 ? strlen(err->text) : room - n - 2;
    memmove(err->text + n + 2, err->text, rest);
    memcpy(err->text, where, n);
    memcpy(err->text + n, ": ", 2);
    err->text[n + 2 + rest] = 0;
    make_one_line(err->text);
    return s;
}

int kf_cut(const char *name)
{
    size_t n = strnlen(name, MAX_NAME_IN_TEXT + 1);
    if (n <= MAX_NAME_IN_TEXT) return (int)n;
    n = MAX_NAME_IN_TEXT;
    while (n > 0 && ((unsigned char)name[n] & 0xc0) == 0x80) n--;
    return (int)n;
}
