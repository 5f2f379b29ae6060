/* findings_misread.c - bytes that are well formed but were meant another way. Nothing but the
 * numbers shows it, and what they show is said with the figure that it rests on. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/plain_numbers.h"
#include "roles/groups.h"
#include "model/inspect/findings.h"

enum { ROOM = 1 << 16 };

/* --- zero points of GPTQ ------------------------------------------------------------------- */

typedef struct zero_tally {
    uint64_t groups, zero, middle_plus, middle_minus;
} zero_tally;

static void count_zeros(zero_tally *t, const kerf_weight *w, uint64_t groups,
                        const unsigned char *row)
{
    const unsigned bits = w->codec.format->bits, mask = (1u << bits) - 1;
    const unsigned turn = w->codec.format->element == KERF_ELEM_S8 ? 0x80 : 0;
    const unsigned middle = 1u << (bits - 1);
    for (uint64_t i = 0; i < groups; i++) {
        unsigned code = ((unsigned)row[i * bits / 8] >> i * bits % 8 & mask) ^ turn;
        t->zero += code == 0;
        t->middle_plus += code == middle + 1;
        t->middle_minus += code == middle - 1;
        t->groups++;
    }
}

static kerf_status tally_zeros(const kerf_checkpoint *c, const kerf_weight *w, zero_tally *t,
                               kerf_error *err)
{
    const kerf_geometry g = kerf_weight_geometry(w);
    const size_t row = (size_t)g.plane[KERF_PLANE_ZEROS].band_bytes;
    const uint64_t rows = g.rows, step = row < ROOM ? ROOM / row : 1;
    unsigned char *bytes = NULL;
    KF_TRY(kf_allocate(&bytes, (size_t)step, row, err));
    kerf_status s = KERF_OK;
    for (uint64_t r = 0; r < rows && s == KERF_OK; r += step) {
        uint64_t n = rows - r < step ? rows - r : step;
        s = kerf_weight_read(c->reader, w, KERF_PLANE_ZEROS, r * row, bytes, (size_t)n * row, err);
        for (uint64_t i = 0; i < n && s == KERF_OK; i++)
            count_zeros(t, w, g.band_groups, bytes + i * row);
    }
    free(bytes);
    return s;
}

/* Zero points of symmetric codes are all alike: off by one, they are those of the other version. */
static kerf_status find_versions(const kf_inspection *x, const kerf_weight *w, kerf_error *err)
{
    const int is_first = strcmp(w->layout->name, "gptq") == 0;
    zero_tally t = {0};
    char text[256];
    if (!is_first && strcmp(w->layout->name, "gptq-v2") != 0) return KERF_OK;
    if (w->codec.format->zero != KERF_ZERO_CODE) return KERF_OK;
    KF_TRY(tally_zeros(x->source, w, &t, err));
    if (t.groups == (is_first ? t.middle_plus : t.middle_minus)) {
        snprintf(
            text, sizeof text,
            "all %llu zero points are one %s the middle: they were stored as GPTQ's version %d "
            "has them, but are read as version %d (checkpoint_format)",
            (unsigned long long)t.groups, is_first ? "above" : "below", is_first ? 2 : 1,
            is_first ? 1 : 2);
        kf_found(x, KERF_ERROR, w->name, text);
    } else if (is_first && t.zero) {
        snprintf(text, sizeof text,
                 "%llu of %llu zero points are 0, which version 1 stores as the largest: some "
                 "kernels take them for one more than that",
                 (unsigned long long)t.zero, (unsigned long long)t.groups);
        kf_found(x, KERF_NOTE, w->name, text);
    }
    return KERF_OK;
}

/* --- scales in the order of a kernel ------------------------------------------------------- */

enum { TILE_ROWS = 128, TILE_COLS = 4, FEWEST_COLS = 8 };

/* Share of the variance that rows and columns have by their means: scales of one output channel,
 * and of one input channel, are alike. */
static double likeness(const unsigned char *p, size_t rows, size_t cols)
{
    double all = 0, squares = 0, between = 0;
    for (size_t i = 0; i < rows * cols; i++) {
        all += p[i];
        squares += (double)p[i] * p[i];
    }
    const double n = (double)(rows * cols), mean = all / n, variance = squares / n - mean * mean;
    for (size_t r = 0; r < rows; r++) {
        double sum = 0;
        for (size_t c = 0; c < cols; c++) sum += p[r * cols + c];
        between += (sum / (double)cols - mean) * (sum / (double)cols - mean) / (double)rows;
    }
    for (size_t c = 0; c < cols; c++) {
        double sum = 0;
        for (size_t r = 0; r < rows; r++) sum += p[r * cols + c];
        between += (sum / (double)rows - mean) * (sum / (double)rows - mean) / (double)cols;
    }
    return variance > 0 ? between / variance : 0;
}

/* Bytes of E4M3 and E8M0 grow as logarithms of the scales do, nearly. */
static kerf_status find_tiles(const kf_inspection *x, const kerf_weight *w, kerf_error *err)
{
    const kerf_geometry g = kerf_weight_geometry(w);
    const kerf_plane *plane = &g.plane[KERF_PLANE_SCALES];
    const uint64_t cols = g.band_groups;
    const size_t n = (size_t)cols * TILE_ROWS;
    unsigned char *stored = NULL;
    char text[256];
    int is_byte =
        w->codec.format->scale == KERF_SCALE_E4M3 || w->codec.format->scale == KERF_SCALE_E8M0;
    if (!is_byte || g.rows % TILE_ROWS || cols % TILE_COLS || cols < FEWEST_COLS ||
        plane->bytes < n)
        return KERF_OK;
    KF_TRY(kf_allocate(&stored, 2, n, err));
    unsigned char *plain = stored + n;
    kerf_status s = kerf_weight_read(x->source->reader, w, KERF_PLANE_SCALES, 0, stored, n, err);
    if (s == KERF_OK)
        s = kerf_scales_from_tiles(1, TILE_ROWS, cols, (kerf_cspan){stored, n},
                                   (kerf_span){plain, n}, err);
    if (s == KERF_OK) {
        double as_stored = likeness(stored, TILE_ROWS, (size_t)cols);
        double as_tiles = likeness(plain, TILE_ROWS, (size_t)cols);
        if (as_tiles > 1.5 * as_stored + 0.1) {
            kf_print(text, sizeof text,
                     "scales seem to lie in tiles of 128 x 4, as kernels want them, not "
                     "checkpoints: rows and columns explain %.0f %% of their variance so, %.0f %% "
                     "as they are",
                     100 * as_tiles, 100 * as_stored);
            kf_found(x, KERF_ERROR, w->name, text);
        }
    }
    free(stored);
    return s;
}

/* --- nibbles the wrong way round ----------------------------------------------------------- */

enum { SAMPLE_ROWS = 256 };

/* The norm whose output is the input of w, or NULL: of a layer named X.module.member.weight it is
 * X.norm.weight, by the row of groups.def that has the member. */
static const kerf_weight *norm_before(const kerf_checkpoint *c, const kerf_weight *w)
{
    const char *end = w->name + strlen(w->name) - strlen(".weight");
    char name[KERF_MAX_NAME_BYTES + 64];
    if (!kf_has_suffix(w->name, ".weight")) return NULL;
    const char *member = end;
    while (member > w->name && member[-1] != '.') member--;
    kerf_piece piece;
    const kf_fused_row *g = kf_group_find(member, (size_t)(end - member), &piece);
    if (!g || !g->norm) return NULL;
    const int n = snprintf(name, sizeof name, ".%s.%s", g->module, member);
    if (n < 0 || !kf_has_suffix(w->name, name)) return NULL;
    snprintf(name, sizeof name, "%.*s.%s.weight", (int)strlen(w->name) - n, w->name, g->norm);
    const kerf_weight *norm = kerf_weights_find(c->weights, name);
    const uint64_t columns = norm ? kerf_weight_elements(norm) : 0;
    return columns && columns == kf_last_dim(&w->shape) && kerf_dtype_is_float(norm->dtype) ? norm
                                                                                            : NULL;
}

/* Logarithm of the mean square of each column over the first rows. */
static kerf_status column_energy(const kerf_checkpoint *c, const kerf_weight *w, double *out,
                                 kerf_error *err)
{
    const kerf_geometry all = kerf_weight_geometry(w), *g = &all;
    const uint64_t cols = w->shape.dim[1];
    uint64_t bands = 1;
    unsigned char *part[KERF_PLANES] = {NULL};
    kerf_cspan planes[KERF_PLANES] = {{NULL, 0}};
    float *dense = NULL;
    kerf_status s = KERF_OK;
    while (bands < g->bands && kerf_band_elements(g, 0, bands).count < SAMPLE_ROWS * cols) bands++;
    const uint64_t n = kerf_band_elements(g, 0, bands).count;
    for (kerf_plane_id p = 0; p < KERF_PLANES && s == KERF_OK; p++) {
        if (g->plane[p].dtype == KERF_DTYPE_NONE) continue;
        size_t bytes = (size_t)kerf_band_bytes(g, p, 0, bands).count;
        s = kf_allocate(&part[p], bytes + 1, 1, err);
        if (s == KERF_OK) s = kerf_weight_read(c->reader, w, p, 0, part[p], bytes, err);
        planes[p] = (kerf_cspan){part[p], bytes};
    }
    if (s == KERF_OK) s = kf_allocate(&dense, (size_t)n, sizeof *dense, err);
    if (s == KERF_OK)
        s = kerf_decode(g, 0, bands, planes, (kerf_span){dense, (size_t)n * sizeof *dense},
                        KERF_F32, NULL, err);
    for (uint64_t i = 0; s == KERF_OK && i < n; i++)
        out[i % cols] += (double)dense[i] * (double)dense[i];
    for (uint64_t i = 0; i < cols; i++) out[i] = log(out[i] + 1e-30);
    for (kerf_plane_id p = 0; p < KERF_PLANES; p++) free(part[p]);
    free(dense);
    return s;
}

static kerf_status norm_gains(const kerf_checkpoint *c, const kerf_weight *norm, double *out,
                              kerf_error *err)
{
    const kerf_format *f = kerf_format_find(norm->dtype == KERF_F32   ? "fp32"
                                            : norm->dtype == KERF_F16 ? "fp16"
                                                                      : "bf16");
    const size_t n = (size_t)norm->plane[0]->bytes, count = (size_t)kerf_weight_elements(norm);
    kerf_geometry g;
    unsigned char *bytes = NULL;
    float *gain = NULL;
    kerf_status s = kerf_geometry_init(&g, f, &norm->shape, err);
    if (s == KERF_OK) s = kf_allocate(&bytes, n, 1, err);
    if (s == KERF_OK) s = kf_allocate(&gain, count, sizeof *gain, err);
    if (s == KERF_OK) s = kerf_reader_read(c->reader, norm->plane[0], 0, bytes, n, err);
    if (s == KERF_OK) {
        const kerf_cspan planes[KERF_PLANES] = {{bytes, n}};
        s = kerf_decode(&g, 0, g.bands, planes, (kerf_span){gain, count * sizeof *gain}, KERF_F32,
                        NULL, err);
    }
    for (size_t i = 0; s == KERF_OK && i < count; i++) out[i] = log(fabs((double)gain[i]) + 1e-9);
    free(bytes);
    free(gain);
    return s;
}

/* Correlation over pairs of neighbours of a[2i] + sign a[2i + 1] with the same of b. */
static double correlate_pairs(const double *a, const double *b, uint64_t n, double sign)
{
    double x = 0, y = 0, xx = 0, yy = 0, xy = 0;
    const double pairs = (double)(n / 2);
    for (uint64_t i = 0; i + 1 < n; i += 2) {
        double u = a[i] + sign * a[i + 1], v = b[i] + sign * b[i + 1];
        x += u;
        y += v;
        xx += u * u;
        yy += v * v;
        xy += u * v;
    }
    double spread = (xx - x * x / pairs) * (yy - y * y / pairs);
    return spread > 0 ? (xy - x * y / pairs) / sqrt(spread) : 0;
}

/* A layer that follows a norm has columns that are large or small as the gains of the norm are.
 * Sums of neighbouring columns do not care for the order of two nibbles in a byte, differences
 * change their sign with it: both must tell the same. Six standard deviations of chance. */
static kerf_status find_nibbles(const kf_inspection *x, const kerf_weight *w, kerf_error *err)
{
    const kerf_weight *norm = norm_before(x->source, w);
    char text[256];
    double *energy = NULL;
    if (!norm || w->codec.format->bits != 4 || w->shape.rank != 2) return KERF_OK;
    const uint64_t cols = w->shape.dim[1];
    KF_TRY(kf_allocate(&energy, 2, (size_t)cols * sizeof *energy, err));
    kerf_status s = column_energy(x->source, w, energy, err);
    if (s == KERF_OK) s = norm_gains(x->source, norm, energy + cols, err);
    if (s == KERF_OK) {
        double sums = correlate_pairs(energy, energy + cols, cols, 1);
        double differences = correlate_pairs(energy, energy + cols, cols, -1);
        double least = fmax(0.25, 6 / sqrt((double)cols / 2));
        if (sums * differences < 0 && fmin(fabs(sums), fabs(differences)) > least) {
            kf_print(text, sizeof text,
                     "the two codes of each byte seem to be swapped: pairs of columns follow the "
                     "norm before them (correlation %.2f), their differences the other way (%.2f)",
                     sums, differences);
            kf_found(x, KERF_ERROR, w->name, text);
        }
    }
    free(energy);
    return s;
}

/* --- all ----------------------------------------------------------------------------------- */

kerf_status kf_find_misread(const kf_inspection *x, const kerf_weight *w, kerf_error *err)
{
    if (!w->codec.format || kerf_weight_elements(w) == 0) return KERF_OK;
    KF_TRY(find_versions(x, w, err));
    KF_TRY(find_tiles(x, w, err));
    return find_nibbles(x, w, err);
}
