/* test_monitor.c - the monitor with a stand-in for NVML that plays readings and faults, and with
 * folders that look like powercap's. */
#include <kerf/measure.h>
#include <kerf/monitor.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/kerf-monitor.XXXXXX", path[300];
static kerf_sample sample;

#define assert_near(got, wanted, by) assert_true(fabs((got) - (wanted)) <= (by))

static const char *put(const char *name, const char *text)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    return path;
}

static void make_zone(const char *zone, const char *name, const char *uj)
{
    char file[200];
    snprintf(path, sizeof path, "%s/%s", folder, zone);
    mkdir(path, 0700);
    snprintf(file, sizeof file, "%s/name", zone);
    put(file, name);
    snprintf(file, sizeof file, "%s/max_energy_range_uj", zone);
    put(file, "1000000\n");
    snprintf(file, sizeof file, "%s/energy_uj", zone);
    put(file, uj);
}

static kerf_monitor *open_stand_in(const char *text)
{
    kerf_monitor *m = NULL;
    kerf_error err = {0};
    const kerf_monitor_options o = {.nvml = KERF_STAND_IN_LIBRARY, .powercap = "/nowhere"};
    setenv("KERF_STAND_IN", put("play", text), 1);
    if (kerf_monitor_open(&o, &m, &err) != KERF_OK) fail_msg("%s", err.text);
    return m;
}

static void pause_s(double s)
{
    const struct timespec t = {(time_t)s, (long)(fmod(s, 1) * 1e9)};
    nanosleep(&t, NULL);
}

#define GAUGE(i, g) sample.reading[i].gauge[KERF_GAUGE_##g]

/* --- GPUs ---------------------------------------------------------------------------------- */

static void reads_all_gauges(void **state)
{
    kerf_monitor *m = open_stand_in("0 412345 700000 5000 1980 2619 61 20480 81559 98 87 0x24 3\n"
                                    "1 70000 700000 6000 345 2619 30 4 81559 0 0 1 0\n");
    (void)state;
    assert_int_equal(kerf_monitor_gpus(m), 2);
    assert_string_equal(kerf_monitor_driver(m), "580.00");
    kerf_monitor_read(m, &sample);
    assert_int_equal(sample.count, 2);
    assert_near(GAUGE(0, POWER), 412.345, 1e-9);
    assert_near(GAUGE(0, POWER_LIMIT), 700, 0);
    assert_near(GAUGE(0, ENERGY), 5, 1e-12);
    assert_near(GAUGE(0, SM_CLOCK), 1980, 0);
    assert_near(GAUGE(0, MEMORY_CLOCK), 2619, 0);
    assert_near(GAUGE(0, TEMPERATURE), 61, 0);
    assert_near(GAUGE(0, MEMORY_USED), 20480.0 * (1 << 20), 0);
    assert_near(GAUGE(0, BUSY), 98, 0);
    assert_near(GAUGE(0, MEMORY_BUSY), 87, 0);
    assert_int_equal(sample.reading[0].throttles, 0x24);
    assert_int_equal(sample.reading[0].processes, 3);
    assert_int_equal(sample.reading[0].process[0].pid, getpid());
#ifndef KERF_EMULATED /* where it is the emulator's */
    assert_true(strncmp(sample.reading[0].process[0].name, "test_monitor", 12) == 0);
#endif
    assert_true(isnan(sample.reading[0].process[1].memory_bytes));
    assert_string_equal(sample.reading[1].uuid, "GPU-00000001");
    kerf_monitor_close(m);
}

static void unsupported_is_unknown(void **state)
{
    kerf_monitor *m = open_stand_in("0 - - - - 2619 - - - - - - -\n");
    kerf_error err = {0};
    char *text = NULL;
    size_t n = 0;
    (void)state;
    kerf_monitor_read(m, &sample);
    for (int g = 0; g < KERF_GAUGE_COUNT; g++)
        assert_int_equal(isnan(sample.reading[0].gauge[g]), g != KERF_GAUGE_MEMORY_CLOCK);
    assert_false(sample.reading[0].throttles_known || sample.reading[0].lost);
    assert_int_equal(kerf_sample_write(&sample, &text, &n, &err), KERF_OK);
    assert_int_equal(strlen(text), n);
    assert_null(strchr(text, '\n'));
    assert_non_null(strstr(text, "\"power_w\":null"));
    assert_non_null(strstr(text, "\"throttles\":null"));
    free(text);
    kerf_monitor_close(m);
}

static void a_lost_gpu_stays_in_the_list(void **state)
{
    kerf_monitor *m = open_stand_in("0 100000 - 5 - - - - - - - - 2\n0 lost\n"
                                    "1 200000 - 6 - - - - - - - - -\n");
    (void)state;
    kerf_monitor_read(m, &sample);
    assert_false(sample.reading[0].lost);
    for (int i = 0; i < 2; i++) {
        kerf_monitor_read(m, &sample);
        assert_true(sample.reading[0].lost);
        assert_string_equal(sample.reading[0].why, "GPU is lost");
        assert_true(isnan(GAUGE(0, POWER)) && sample.reading[0].processes == 0);
        assert_near(GAUGE(1, POWER), 200, 0);
    }
    kerf_monitor_close(m);
}

static void says_why_there_is_nothing(void **state)
{
    kerf_monitor *m = NULL;
    kerf_error err = {0};
    kerf_monitor_options o = {.nvml = "libno-such.so.1", .powercap = "/nowhere"};
    (void)state;
    assert_int_equal(kerf_monitor_open(&o, &m, &err), KERF_E_CUDA);
    assert_non_null(strstr(err.text, "no NVIDIA driver here"));
    assert_non_null(strstr(err.text, "/nowhere"));
    o.nvml = "libm.so.6"; /* a library, but another */
    assert_int_equal(kerf_monitor_open(&o, &m, &err), KERF_E_CUDA);
    assert_non_null(strstr(err.text, "it is no NVML"));
    o.nvml = KERF_STAND_IN_LIBRARY;
    setenv("KERF_STAND_IN", put("play", "init 9\n"), 1);
    assert_int_equal(kerf_monitor_open(&o, &m, &err), KERF_E_CUDA);
    assert_non_null(strstr(err.text, "Driver Not Loaded"));
    setenv("KERF_STAND_IN", put("play", "\n"), 1);
    assert_int_equal(kerf_monitor_open(&o, &m, &err), KERF_E_CUDA);
    assert_non_null(strstr(err.text, "shows no GPU"));
    assert_null(m);
}

/* --- the meter ----------------------------------------------------------------------------- */

static void meters_a_steady_load(void **state)
{
    kerf_monitor *m = open_stand_in("0 300000 - clock - - - - - - - - -\n"
                                    "1 100000 - - - - - - - - - - -\n"
                                    "2 - - - - - - - - - - - -\n");
    kerf_energy e;
    kerf_error err = {0};
    (void)state;
    assert_int_equal(kerf_meter_idle(m, 0.4, &e, &err), KERF_OK);
    assert_int_equal(e.count, 3);
    assert_true(e.seconds >= 0.4 && e.samples >= 3);
    assert_true(e.source[0].counted && !e.source[1].counted);
    assert_near(e.source[0].peak_w, 300, 0);
    assert_true(isnan(e.source[2].joules));
#ifndef KERF_EMULATED /* a counter of 20 ms over 0.4 s, on a machine that does other things too */
    assert_near(e.source[0].joules, 300 * e.seconds, 300 * 0.1);
    assert_near(e.source[1].joules, 100 * e.seconds, 100 * 0.1);
    assert_near(e.source[0].steady_w, 300, 60);
    assert_true(e.source[0].step_s >= 0.019);
#endif
    kerf_monitor_close(m);
}

static void meter_refuses_what_no_clock_has(void **state)
{
    kerf_monitor *m = open_stand_in("0 300000 - clock - - - - - - - - -\n");
    kerf_meter *meter = NULL;
    kerf_error err = {0};
    (void)state;
    assert_int_equal(kerf_meter_begin(m, -1, &meter, &err), KERF_E_ARG);
    assert_int_equal(kerf_meter_begin(m, NAN, &meter, &err), KERF_E_ARG);
    assert_int_equal(kerf_meter_begin(m, 3600, &meter, &err), KERF_OK);
    kerf_meter_end(meter, NULL); /* at once */
    kerf_meter_end(NULL, NULL);
    kerf_monitor_close(m);
}

/* --- processors ---------------------------------------------------------------------------- */

static void counts_packages_and_memory(void **state)
{
    kerf_monitor *m = NULL;
    kerf_error err = {0};
    const kerf_monitor_options o = {.nvml = "libno-such.so.1", .powercap = folder};
    (void)state;
    make_zone("intel-rapl:0", "package-0\n", "900000\n");
    make_zone("intel-rapl:0:0", "core\n", "100\n"); /* within the package */
    make_zone("intel-rapl:0:1", "dram\n", "5\n");
    make_zone("intel-rapl", "package-9\n", "5\n"); /* the folder of all */
    assert_int_equal(kerf_monitor_open(&o, &m, &err), KERF_OK);
    assert_int_equal(kerf_monitor_sources(m), 2);
    assert_int_equal(kerf_monitor_gpus(m), 0);
    pause_s(0.02);
    make_zone("intel-rapl:0", "package-0\n", "200000\n"); /* it has gone round: 0.3 J more */
    kerf_monitor_read(m, &sample);
    const int first = strcmp(sample.reading[0].name, "package-0") == 0 ? 0 : 1;
    assert_string_equal(sample.reading[1 - first].name, "dram");
    assert_near(GAUGE(first, ENERGY), 0.3, 1e-9);
    assert_true(GAUGE(first, POWER) > 0.1 && GAUGE(first, POWER) <= 0.3 / 0.02);
    pause_s(0.02);
    kerf_monitor_read(m, &sample);
    assert_near(GAUGE(first, POWER), 0, 0);
    snprintf(path, sizeof path, "%s/intel-rapl:0/energy_uj", folder);
    unlink(path);
    kerf_monitor_read(m, &sample);
    assert_true(isnan(GAUGE(first, ENERGY)));
    kerf_monitor_close(m);
}

/* --- energy of a product ------------------------------------------------------------------- */

static void a_product_has_its_joules(void **state)
{
    const kerf_format *nvfp4 = kerf_format_find("nvfp4");
    const kerf_weight_shape shape = {64, 256};
    const kerf_exec exec = {.threads = 1};
    const kerf_monitor_options o = {.nvml = "libno-such.so.1", .powercap = folder};
    kerf_measure_request r = {.format = &nvfp4,
                              .formats = 1,
                              .shape = &shape,
                              .shapes = 1,
                              .energy_s = 0.01,
                              .timer = {.exec = &exec, .trials = 1}};
    kerf_gemv_times *t = NULL;
    kerf_error err = {0};
    (void)state;
    make_zone("intel-rapl:0", "package-0\n", "900000\n");
    assert_int_equal(kerf_monitor_open(&o, &r.monitor, &err), KERF_OK);
    assert_int_equal(kerf_measure_gemv(&r, NULL, &t, &err), KERF_OK);
    assert_non_null(t->energy);
    assert_near(t->energy[0].joules, 0, 0); /* a counter that stands still */
    assert_true(t->energy[0].seconds >= 0.01);
    kerf_gemv_times_free(t);
    kerf_monitor_close(r.monitor);
    r.monitor =
        open_stand_in("0 300000 - clock - - - - - - - - -\n"); /* a GPU that does nothing here */
    assert_int_equal(kerf_measure_gemv(&r, NULL, &t, &err), KERF_E_CUDA);
    assert_non_null(strstr(err.text, "neither energy nor power"));
    kerf_monitor_close(r.monitor);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[80];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_all_gauges),
        cmocka_unit_test(unsupported_is_unknown),
        cmocka_unit_test(a_lost_gpu_stays_in_the_list),
        cmocka_unit_test(says_why_there_is_nothing),
        cmocka_unit_test(meters_a_steady_load),
        cmocka_unit_test(meter_refuses_what_no_clock_has),
        cmocka_unit_test(counts_packages_and_memory),
        cmocka_unit_test(a_product_has_its_joules),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
