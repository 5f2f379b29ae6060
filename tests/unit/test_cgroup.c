/* test_cgroup.c - the quotas of cgroups, read from folders that look like /proc and /sys of a
 * container. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/base.h"
#include "base/cgroup.h"
#include "base/system.h"

static char root[] = "/tmp/kerf-cgroup-XXXXXX";

/* A file below root, with the folders that it needs. */
static void put(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *p = path + sizeof root; (p = strchr(p, '/')); *p++ = '/') {
        *p = 0;
        mkdir(path, 0700);
    }
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int open_root(void **state)
{
    (void)state;
    strcpy(strrchr(root, '-') + 1, "XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    char line[64];
    (void)state;
    snprintf(line, sizeof line, "rm -r %s", root);
    return system(line);
}

static void version_2(void **state)
{
    (void)state;
    assert_int_equal(kf_cgroup_processors(root), INT_MAX); /* no /proc at all */
    put("proc/self/cgroup", "0::/pod/app\n");
    assert_int_equal(kf_cgroup_processors(root), INT_MAX);
    put("sys/fs/cgroup/pod/app/cpu.max", "max 100000\n");
    assert_int_equal(kf_cgroup_processors(root), INT_MAX);
    put("sys/fs/cgroup/pod/cpu.max", "350000 100000\n"); /* of the pod: 3.5, rounded up */
    assert_int_equal(kf_cgroup_processors(root), 4);
    put("sys/fs/cgroup/pod/app/cpu.max", "50000 100000\n");
    assert_int_equal(kf_cgroup_processors(root), 1);
}

static void version_1(void **state)
{
    (void)state;
    put("proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/docker/7f\n3:cpuset:/x\n0::/\n");
    put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    assert_int_equal(kf_cgroup_processors(root), INT_MAX);
    put("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n"); /* its path is the host's */
    assert_int_equal(kf_cgroup_processors(root), 2);
    put("sys/fs/cgroup/cpuset/x/cpu.cfs_quota_us", "100000\n"); /* another controller */
    put("sys/fs/cgroup/cpuset/x/cpu.cfs_period_us", "100000\n");
    assert_int_equal(kf_cgroup_processors(root), 2);
}

static void what_is_no_quota(void **state)
{
    static const char *const text[] = {"",        "\n",       "max",       "x 100000",
                                       "100000",  "100000 0", "100000 -5", "-100000 100000",
                                       "0 100000"};
    (void)state;
    put("proc/self/cgroup", "0::/\n");
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        put("sys/fs/cgroup/cpu.max", text[i]);
        assert_int_equal(kf_cgroup_processors(root), INT_MAX);
    }
    put("sys/fs/cgroup/cpu.max", "300000 100000");
    static const char *const self[] = {"", "0", "0:", "cpu", "\n\n", "4:cpux:/\n", "4:xcpu:/\n"};
    for (size_t i = 0; i < sizeof self / sizeof *self; i++) {
        put("proc/self/cgroup", self[i]);
        assert_int_equal(kf_cgroup_processors(root), INT_MAX);
    }
    char line[5000];
    memset(line, 'a', sizeof line);
    memcpy(line, "0::/", 4);
    line[sizeof line - 1] = 0;
    put("proc/self/cgroup", line);
    assert_int_equal(kf_cgroup_processors(root), INT_MAX);
}

static void the_default_is_what_there_is(void **state)
{
    (void)state;
    assert_true(kf_processors() >= 1);
    assert_true(kf_thread_count(0) <= kf_processors());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(version_2, open_root, remove_root),
        cmocka_unit_test_setup_teardown(version_1, open_root, remove_root),
        cmocka_unit_test_setup_teardown(what_is_no_quota, open_root, remove_root),
        cmocka_unit_test(the_default_is_what_there_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
