/* test_golden.c - every format and encoder against tests/golden/<format>.txt: bytes computed by an
 * independent program from the specification, and by the packages of other projects for the
 * encoders that are named after them (golden/peers/vectors/<format>.txt). One test per row of
 * formats.def, so a new format is covered as soon as its file lies there; a format without a file,
 * or with too few blocks for an encoder, is a failure. The files are read line by line, a key and
 * its value each; tests/golden/README.md describes them. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <kerf/codec.h>

#define MIN_BLOCKS 200  /* per encoder */
#define MAX_REPORTS 12  /* lines per format; the rest is only counted */
#define MAX_ENCODERS 32 /* per format */
#define MAX_PLANE (1u << 20)
#define POISON 0xA5

/* Other tests vary the threads; waking them for such small tensors takes longer than all else. */
static const kerf_exec one_thread = {.threads = 1};

static const char *const plane_names[KERF_PLANES] = {"codes", "scales", "second", "zeros"};

struct bytes {
    uint8_t *p;
    size_t n;
};

/* What is known at one line of a file. */
struct reader {
    const kerf_format *format;
    char path[512];
    unsigned line;
    char label[64];
    kerf_geometry geometry;
    kerf_dtype dtype; /* of the source; NONE: planes to decode only */
    struct bytes src, out;
    const kerf_encoder *encoder; /* NULL: none yet in this case */
    struct bytes ours[KERF_PLANES], golden[KERF_PLANES];
    int planes_open; /* golden planes are being read */
    uint64_t blocks[MAX_ENCODERS];
    unsigned failures;
};

static void resize(struct bytes *b, uint64_t n)
{
    free(b->p);
    b->p = malloc((size_t)n + 1); /* never NULL for an empty plane */
    assert_non_null(b->p);
    b->n = (size_t)n;
    memset(b->p, POISON, b->n + 1);
}

static void drop(struct bytes *b)
{
    free(b->p);
    memset(b, 0, sizeof *b);
}

/* --- failing --------------------------------------------------------------------------------- */

static void malformed(const struct reader *r, const char *what)
{
    fail_msg("%s:%u: %s", r->path, r->line, what);
}

/* Counts a difference; prints the first ones. */
static void report(struct reader *r, const char *fmt, ...) KERF_PRINTF(2, 3);
static void report(struct reader *r, const char *fmt, ...)
{
    char text[640];
    va_list args;

    if (r->failures++ >= MAX_REPORTS) return;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    print_error("%s:%s, case %s, line %u: %s\n", r->format->name,
                r->encoder ? r->encoder->name : "decode", r->label, r->line, text);
}

static int is_nan(kerf_dtype t, const uint8_t *p)
{
    unsigned top = (unsigned)p[1] << 8 | p[0];
    if (t == KERF_F16) return (top & 0x7FFF) > 0x7C00;
    if (t == KERF_BF16) return (top & 0x7FFF) > 0x7F80;
    top = (unsigned)p[3] << 8 | p[2];
    return (top & 0x7FFF) > 0x7F80 || ((top & 0x7FFF) == 0x7F80 && (p[0] | p[1]) != 0);
}

/* Compares arrays of `size`-byte items; `t` not NONE: any NaN equals any NaN. */
static void compare(struct reader *r, const char *what, const struct bytes *ours,
                    const struct bytes *golden, size_t size, kerf_dtype t)
{
    size_t differ = 0, first = 0;

    if (ours->n != golden->n) {
        report(r, "%s: %zu bytes, golden has %zu", what, ours->n, golden->n);
        return;
    }
    for (size_t i = 0; i < ours->n; i += size) {
        const uint8_t *a = ours->p + i, *b = golden->p + i;
        if (memcmp(a, b, size) == 0) continue;
        if (t != KERF_DTYPE_NONE && is_nan(t, a) && is_nan(t, b)) continue;
        if (differ++ == 0) first = i;
    }
    if (differ == 0) return;
    while (ours->p[first] == golden->p[first]) first++;
    report(r, "%s: byte %zu is %02x, golden has %02x; %zu of %zu %s differ", what, first,
           ours->p[first], golden->p[first], differ, ours->n / size,
           size == 1 ? "bytes" : "values");
}

/* --- values of lines ------------------------------------------------------------------------- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One byte of hex and, in *times, how often it stands there: "3f" or "00*24;". Returns what
 * follows. */
static const char *read_run(const struct reader *r, const char *text, uint8_t *byte, size_t *times)
{
    int high = hex_digit(text[0]), low = high < 0 ? -1 : hex_digit(text[1]);
    char *end;

    if (low < 0) malformed(r, "not a hex digit");
    *byte = (uint8_t)(high << 4 | low);
    *times = 1;
    if (text[2] != '*') return text + 2;
    *times = strtoull(text + 3, &end, 10);
    if (*end != ';' || *times == 0 || *times > MAX_PLANE) malformed(r, "bad run of bytes");
    return end + 1;
}

static void read_hex(const struct reader *r, const char *text, struct bytes *out)
{
    uint8_t byte;
    size_t n = 0, times;

    for (const char *t = text; *t != '\0'; n += times) t = read_run(r, t, &byte, &times);
    resize(out, n);
    for (n = 0; *text != '\0'; n += times) {
        text = read_run(r, text, &byte, &times);
        memset(out->p + n, byte, times);
    }
}

/* "[2,3,40]" */
static void read_shape(const struct reader *r, const char *text, kerf_shape *out)
{
    memset(out, 0, sizeof *out);
    if (*text++ != '[') malformed(r, "no shape");
    while (*text != ']') {
        char *end;
        if (out->rank == KERF_MAX_RANK) malformed(r, "too many dimensions");
        out->dim[out->rank++] = strtoull(text, &end, 10);
        if (end == text || (*end != ',' && *end != ']')) malformed(r, "bad shape");
        text = *end == ',' ? end + 1 : end;
    }
}

/* --- what the lines do ----------------------------------------------------------------------- */

/* Every plane that the format has must have been given. */
static void close_planes(struct reader *r)
{
    if (!r->planes_open) return;
    r->planes_open = 0;
    for (int p = 0; p < KERF_PLANES; p++) {
        if (r->golden[p].p == NULL && r->geometry.plane[p].bytes != 0) {
            report(r, "%s: %" PRIu64 " bytes, golden has none", plane_names[p],
                   r->geometry.plane[p].bytes);
        }
    }
}

static void open_planes(struct reader *r)
{
    for (int p = 0; p < KERF_PLANES; p++) {
        drop(&r->golden[p]);
        resize(&r->ours[p], r->geometry.plane[p].bytes);
    }
    r->planes_open = 1;
}

static void begin(struct reader *r, const char *shape_text)
{
    kerf_shape shape;
    kerf_error err;

    read_shape(r, shape_text, &shape);
    if (kerf_geometry_init(&r->geometry, r->format, &shape, &err) != KERF_OK)
        malformed(r, err.text);
    r->encoder = NULL;
    drop(&r->src);
}

/* case LABEL DTYPE SHAPE */
static void on_case(struct reader *r, const char *value)
{
    char dtype[16], shape[128];

    close_planes(r);
    if (sscanf(value, "%63s %15s %127s", r->label, dtype, shape) != 3) malformed(r, "bad case");
    r->dtype = kerf_dtype_find(dtype);
    if (r->dtype == KERF_DTYPE_NONE) malformed(r, "unknown source type");
    begin(r, shape);
}

/* decode LABEL SHAPE: planes follow that are only decoded */
static void on_decode(struct reader *r, const char *value)
{
    char shape[128];

    close_planes(r);
    if (sscanf(value, "%63s %127s", r->label, shape) != 2) malformed(r, "bad decode");
    r->dtype = KERF_DTYPE_NONE;
    begin(r, shape);
    open_planes(r);
}

static void on_src(struct reader *r, const char *value)
{
    read_hex(r, value, &r->src);
}

static void encode(struct reader *r)
{
    const kerf_geometry *g = &r->geometry;
    kerf_cspan src = {r->src.p, r->src.n};
    kerf_span dst[KERF_PLANES];
    kerf_stats *stats = calloc((size_t)g->matrices + 1, sizeof *stats);
    kerf_error err = {0};
    kerf_status s = KERF_OK;

    assert_non_null(stats);
    for (int p = 0; p < KERF_PLANES; p++) {
        dst[p].p = r->ours[p].p;
        dst[p].n = r->ours[p].n;
    }
    if (kerf_needs_stats(g))
        s = kerf_measure(g, 0, g->bands, src, r->dtype, stats, &one_thread, &err);
    if (s == KERF_OK)
        s = kerf_encode(g, r->encoder, stats, 0, g->bands, src, r->dtype, dst, &one_thread, &err);
    if (s != KERF_OK) report(r, "%s: %s", kerf_status_name(s), err.text);
    free(stats);
}

static uint64_t count_blocks(const kerf_geometry *g)
{
    unsigned bits = kerf_dtype_bits(g->plane[KERF_PLANE_SCALES].dtype);
    return bits == 0 ? g->elements : g->plane[KERF_PLANE_SCALES].bytes * 8 / bits;
}

/* enc NAME: the planes of this encoder follow */
static void on_encoder(struct reader *r, const char *value)
{
    size_t i = 0, n = kerf_encoder_count(r->format);

    close_planes(r);
    if (r->src.n * 8 != r->geometry.elements * kerf_dtype_bits(r->dtype))
        malformed(r, "the source has not as many bytes as its shape says");
    while (i < n && strcmp(kerf_encoder_at(r->format, i)->name, value) != 0) i++;
    if (i == n) malformed(r, "unknown encoder");
    r->encoder = kerf_encoder_at(r->format, i);
    r->blocks[i] += count_blocks(&r->geometry);
    open_planes(r);
    encode(r);
}

static void on_plane(struct reader *r, int p, const char *value)
{
    if (!r->planes_open) malformed(r, "a plane outside of a case");
    read_hex(r, value, &r->golden[p]);
    if (r->dtype != KERF_DTYPE_NONE)
        compare(r, plane_names[p], &r->ours[p], &r->golden[p], 1, KERF_DTYPE_NONE);
}

/* F32, BF16 or F16: what the golden planes decode to */
static void on_values(struct reader *r, kerf_dtype t, const char *value)
{
    kerf_cspan src[KERF_PLANES];
    kerf_span dst;
    struct bytes golden = {0};
    kerf_error err = {0};
    kerf_status s;

    if (!r->planes_open) malformed(r, "values outside of a case");
    read_hex(r, value, &golden);
    resize(&r->out, r->geometry.elements * kerf_dtype_bits(t) / 8);
    for (int p = 0; p < KERF_PLANES; p++) {
        src[p].p = r->golden[p].p;
        src[p].n = r->golden[p].n;
    }
    dst.p = r->out.p;
    dst.n = r->out.n;
    s = kerf_decode(&r->geometry, 0, r->geometry.bands, src, dst, t, &one_thread, &err);
    if (s != KERF_OK)
        report(r, "decode to %s: %s: %s", kerf_dtype_name(t), kerf_status_name(s), err.text);
    else
        compare(r, kerf_dtype_name(t), &r->out, &golden, kerf_dtype_bits(t) / 8, t);
    drop(&golden);
}

static void on_line(struct reader *r, const char *key, const char *value)
{
    static const struct {
        const char *key;
        void (*run)(struct reader *r, const char *value);
    } actions[] = {{"case", on_case}, {"decode", on_decode}, {"src", on_src}, {"enc", on_encoder}};
    kerf_dtype t = kerf_dtype_find(key);

    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (strcmp(key, actions[i].key) == 0) {
            actions[i].run(r, value);
            return;
        }
    }
    for (int p = 0; p < KERF_PLANES; p++) {
        if (strcmp(key, plane_names[p]) == 0) {
            on_plane(r, p, value);
            return;
        }
    }
    if (t != KERF_F32 && t != KERF_F16 && t != KERF_BF16) malformed(r, "unknown key");
    on_values(r, t, value);
}

/* --- a file ---------------------------------------------------------------------------------- */

/* NULL when there is no such file. */
static char *read_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text;
    long size;

    if (f == NULL) return NULL;
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    size = ftell(f);
    assert_true(size >= 0);
    rewind(f);
    text = malloc((size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size, f), (size_t)size);
    text[size] = '\0';
    fclose(f);
    return text;
}

static void read_lines(struct reader *r, char *text)
{
    for (char *end; *text != '\0'; text = end) {
        char *space;
        r->line++;
        end = text + strcspn(text, "\n");
        if (*end != '\0') *end++ = '\0';
        if (*text == '\0' || *text == '#') continue;
        space = strchr(text, ' ');
        if (space == NULL) malformed(r, "a key without a value");
        *space = '\0';
        on_line(r, text, space + 1);
    }
    close_planes(r);
}

/* Compares with one file of FOLDER; 0 when there is none. */
static int read_file(struct reader *r, const char *folder)
{
    char *text;

    snprintf(r->path, sizeof r->path, "%s/%s.txt", folder, r->format->name);
    text = read_text(r->path);
    if (text == NULL) return 0;
    r->line = 0;
    read_lines(r, text);
    free(text);
    return 1;
}

static void test_format(void **state)
{
    const kerf_format *f = *state;
    struct reader *r = calloc(1, sizeof *r);

    assert_non_null(r);
    assert_true(kerf_encoder_count(f) <= MAX_ENCODERS);
    r->format = f;
    int files = read_file(r, KERF_TEST_GOLDEN);
    files += read_file(r, KERF_TEST_GOLDEN "/peers/vectors");
    if (files == 0) fail_msg("%s: every format needs golden vectors", f->name);
    for (size_t i = 0; i < kerf_encoder_count(f); i++) {
        if (r->blocks[i] < MIN_BLOCKS) {
            r->encoder = kerf_encoder_at(f, i);
            report(r, "only %" PRIu64 " blocks; %d are needed", r->blocks[i], MIN_BLOCKS);
        }
    }
    if (r->failures != 0) fail_msg("%u differences from the vectors of %s", r->failures, f->name);
    for (int p = 0; p < KERF_PLANES; p++) {
        drop(&r->ours[p]);
        drop(&r->golden[p]);
    }
    drop(&r->src);
    drop(&r->out);
    free(r);
}

int main(void)
{
    size_t n = kerf_format_count();
    struct CMUnitTest *tests = calloc(n + 1, sizeof *tests);
    int failed;

    if (tests == NULL || n == 0) return 1;
    for (size_t i = 0; i < n; i++) {
        tests[i].name = kerf_format_at(i)->name;
        tests[i].test_func = test_format;
        tests[i].initial_state = (void *)(uintptr_t)kerf_format_at(i); /* cmocka takes no const */
    }
    failed = _cmocka_run_group_tests("golden", tests, n, NULL, NULL);
    free(tests);
    return failed;
}
