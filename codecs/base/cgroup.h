/* cgroup.h - how much of the processors a container gives: the quotas of its cgroups. */
#ifndef KERF_CGROUP_H
#define KERF_CGROUP_H

/* The processors that the quotas of this process's cgroups pay for, rounded up; INT_MAX without
 * any. Versions 1 and 2. `root` stands before /proc and /sys: "" but in tests. */
int kf_cgroup_processors(const char *root);

#endif
