/* rapl.c - reads the counters of powercap. A package contains its cores; memory ("dram") stands
 * beside them, so that these two kinds may be added up and others not. The counters go round after
 * some minutes: each difference is taken modulo their range. */
#include "monitor/rapl.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"

/* The first line of FOLDER/ZONE/FILE; 0: it cannot be read. */
static int read_line(const char *folder, const char *zone, const char *file, char *out, int size)
{
    char path[512];
    snprintf(path, sizeof path, "%.200s/%.64s/%.32s", folder, zone, file);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    const int got = fgets(out, size, f) != NULL;
    fclose(f);
    if (got) out[strcspn(out, "\n")] = 0;
    return got;
}

static double read_joules(const char *path)
{
    unsigned long long uj;
    FILE *f = fopen(path, "r");
    if (!f) return NAN;
    const int got = fscanf(f, "%llu", &uj);
    fclose(f);
    return got == 1 ? (double)uj * 1e-6 : NAN;
}

/* Whether the energy of a zone of this name is in no other's. */
static int counts(const char *name)
{
    return strncmp(name, "package", 7) == 0 || strcmp(name, "dram") == 0;
}

static void add_zone(kf_rapl *r, const char *folder, const char *zone, int *closed)
{
    struct kf_rapl_counter *c = &r->counter[r->count];
    char range[40];
    if (r->count == KF_RAPL_MOST || !strchr(zone, ':')) return;
    if (!read_line(folder, zone, "name", c->name, sizeof c->name) || !counts(c->name)) return;
    snprintf(c->path, sizeof c->path, "%.160s/%.64s/energy_uj", folder, zone);
    c->last_j = read_joules(c->path);
    if (isnan(c->last_j)) {
        *closed = 1;
        return;
    }
    unsigned long long uj = 0;
    if (read_line(folder, zone, "max_energy_range_uj", range, sizeof range))
        sscanf(range, "%llu", &uj);
    c->range_j = (double)uj * 1e-6;
    c->sum_j = 0;
    r->count++;
}

kerf_status kf_rapl_open(const char *folder, kf_rapl *out, kerf_error *err)
{
    struct dirent *e;
    int closed = 0;
    memset(out, 0, sizeof *out);
    DIR *d = opendir(folder);
    if (!d && errno != ENOENT && errno != ENOTDIR && errno != EACCES)
        return kf_fail_errno(err, errno, "%.300s", folder);
    while (d && (e = readdir(d)) != NULL) add_zone(out, folder, e->d_name, &closed);
    if (d) closedir(d);
    if (out->count) return KERF_OK;
    if (closed)
        return kf_fail(err, KERF_E_CUDA, KF_NOWHERE,
                       "the energy counters under %.100s may only be read by root", folder);
    return kf_fail(err, KERF_E_CUDA, KF_NOWHERE, "no energy counter of a processor under %.100s",
                   folder);
}

double kf_rapl_joules(kf_rapl *r, unsigned i)
{
    struct kf_rapl_counter *c = &r->counter[i];
    const double now = read_joules(c->path);
    if (isnan(now)) return NAN;
    double step = now - c->last_j;
    if (step < 0) step += c->range_j;
    c->last_j = now;
    if (step > 0) c->sum_j += step;
    return c->sum_j;
}
