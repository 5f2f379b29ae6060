/* cgroup.c - reads the quotas of cgroups, version 1 and 2. A file that is not there, or not as
 * expected, is no quota. Without allocation: this runs whenever somebody asks for the number of
 * threads first. */
#include "base/cgroup.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 1024, TEXT_BYTES = 4096 };

/* The beginning of a file as a text. 0: it cannot be read. */
static int read_text(const char *path, char *text)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    const ssize_t n = read(fd, text, TEXT_BYTES - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

/* What a quota pays for, in microseconds of each period; "max" and -1 are none. */
static int processors_of(long quota, long period)
{
    if (quota <= 0 || period <= 0) return INT_MAX;
    const long n = quota / period + (quota % period != 0);
    return n < INT_MAX ? (int)n : INT_MAX;
}

static int quota_in(const char *folder, int version)
{
    char path[PATH_BYTES + 32], text[TEXT_BYTES], *period;
    snprintf(path, sizeof path, "%s/%s", folder, version == 2 ? "cpu.max" : "cpu.cfs_quota_us");
    if (!read_text(path, text)) return INT_MAX;
    const long quota = strtol(text, &period, 10); /* "QUOTA PERIOD" in version 2 */
    if (version == 1) {
        snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
        period = text;
        if (!read_text(path, text)) return INT_MAX;
    }
    return processors_of(quota, strtol(period, NULL, 10));
}

/* The least quota of a cgroup and those above it. In a container the path may be one of the host,
 * which is not here: what is here of it is above. */
static int least_quota(const char *mount, const char *group, int version)
{
    char folder[PATH_BYTES];
    int least = INT_MAX;
    if ((size_t)snprintf(folder, sizeof folder, "%s%s", mount, group) >= sizeof folder)
        return least;
    for (char *end = folder + strlen(folder); end; end = strrchr(folder + strlen(mount), '/')) {
        *end = 0;
        const int n = quota_in(folder, version);
        if (n < least) least = n;
    }
    return least;
}

/* Whether a list "cpu,cpuacct" names the controller of processors. */
static int has_cpu(const char *list, size_t n)
{
    for (const char *p = list; p < list + n; p += strcspn(p, ",:") + 1)
        if (strncmp(p, "cpu", 3) == 0 && (p[3] == ',' || p[3] == ':')) return 1;
    return 0;
}

/* A line of /proc/self/cgroup: "0::/path" of version 2, "4:cpu,cpuacct:/path" of version 1. */
static int quota_of_line(const char *root, char *line)
{
    char mount[PATH_BYTES / 2];
    char *list = strchr(line, ':'), *group = list ? strchr(++list, ':') : NULL;
    if (!group) return INT_MAX;
    const size_t n = (size_t)(group - list);
    const int version = n == 0 ? 2 : 1;
    if (version == 1 && !has_cpu(list, n)) return INT_MAX;
    int wrote =
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s%.*s", root, n ? "/" : "", (int)n, list);
    if (wrote < 0 || (size_t)wrote >= sizeof mount) return INT_MAX;
    return least_quota(mount, group + 1, version);
}

int kf_cgroup_processors(const char *root)
{
    char path[PATH_BYTES], text[TEXT_BYTES];
    int least = INT_MAX;
    if ((size_t)snprintf(path, sizeof path, "%s/proc/self/cgroup", root) >= sizeof path)
        return least;
    if (!read_text(path, text)) return least;
    for (char *line = text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        const int n = quota_of_line(root, line);
        if (n < least) least = n;
    }
    return least;
}
