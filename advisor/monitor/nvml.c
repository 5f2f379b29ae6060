/* nvml.c - reads GPUs through libnvidia-ml, which is opened at run time.
 *
 * The declarations are the monitor's own, after NVIDIA's documented interface (nvml.h of the driver
 * API reference): functions and structs of version 2 and 3 keep their layout under these names. A
 * function that an older driver lacks leaves its gauges unknown. */
#include "monitor/nvml.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

enum { SUCCESS = 0, LOST = 15 };
enum { CLOCK_SM = 1, CLOCK_MEMORY = 2, SENSOR_CHIP = 0 };
enum {
    FIELD_POWER_NOW = 186
}; /* milliwatts of this moment: PowerUsage is a mean of a second there */
enum { PROCESSES_ASKED = 64 };

typedef struct gpu_memory {
    unsigned long long total, free, used;
} gpu_memory;

typedef struct gpu_use {
    unsigned gpu, memory;
} gpu_use;

typedef struct gpu_task {
    unsigned pid;
    unsigned long long memory; /* all bits set: not told */
    unsigned instance, compute_instance;
} gpu_task;

typedef struct gpu_field {
    unsigned id, scope;
    long long unix_us, latency_us;
    int type, status;
    union {
        double d;
        unsigned u;
        unsigned long long ull;
    } value;
} gpu_field;

typedef struct gpu_handle *gpu;

/* X(field, name in the library, arguments, must be there) */
#define CALLS(X)                                                                              \
    X(init, "nvmlInit_v2", (void), 1)                                                         \
    X(shutdown, "nvmlShutdown", (void), 1)                                                    \
    X(driver, "nvmlSystemGetDriverVersion", (char *, unsigned), 0)                            \
    X(count, "nvmlDeviceGetCount_v2", (unsigned *), 1)                                        \
    X(handle, "nvmlDeviceGetHandleByIndex_v2", (unsigned, gpu *), 1)                          \
    X(name, "nvmlDeviceGetName", (gpu, char *, unsigned), 0)                                  \
    X(uuid, "nvmlDeviceGetUUID", (gpu, char *, unsigned), 0)                                  \
    X(power, "nvmlDeviceGetPowerUsage", (gpu, unsigned *), 0)                                 \
    X(limit, "nvmlDeviceGetEnforcedPowerLimit", (gpu, unsigned *), 0)                         \
    X(energy, "nvmlDeviceGetTotalEnergyConsumption", (gpu, unsigned long long *), 0)          \
    X(clock, "nvmlDeviceGetClockInfo", (gpu, int, unsigned *), 0)                             \
    X(max_clock, "nvmlDeviceGetMaxClockInfo", (gpu, int, unsigned *), 0)                      \
    X(throttles, "nvmlDeviceGetCurrentClocksThrottleReasons", (gpu, unsigned long long *), 0) \
    X(temperature, "nvmlDeviceGetTemperature", (gpu, int, unsigned *), 0)                     \
    X(memory, "nvmlDeviceGetMemoryInfo", (gpu, gpu_memory *), 0)                              \
    X(use, "nvmlDeviceGetUtilizationRates", (gpu, gpu_use *), 0)                              \
    X(tasks, "nvmlDeviceGetComputeRunningProcesses_v3", (gpu, unsigned *, gpu_task *), 0)     \
    X(fields, "nvmlDeviceGetFieldValues", (gpu, int, gpu_field *), 0)

struct kf_nvml {
    void *library;
    int started;
#define X(field, name, arguments, needed) int(*field) arguments;
    CALLS(X)
#undef X
    const char *(*error_text)(int);
    char driver_version[80];
    unsigned gpus;
    gpu at[KERF_MONITOR_SOURCES];
};

/* --- opening ------------------------------------------------------------------------------- */

static kerf_status find_calls(kf_nvml *n, const char *file, kerf_error *err)
{
    void *p;
#define X(field, name, arguments, needed) \
    p = dlsym(n->library, name);          \
    memcpy(&n->field, &p, sizeof p);      \
    if (needed && !p)                     \
        return kf_fail(err, KERF_E_CUDA, KF_NOWHERE, "%.200s has no " name ": it is no NVML", file);
    CALLS(X)
#undef X
    p = dlsym(n->library, "nvmlErrorString");
    memcpy(&n->error_text, &p, sizeof p);
    return KERF_OK;
}

static const char *text_of(const kf_nvml *n, int code)
{
    const char *text = n->error_text ? n->error_text(code) : NULL;
    return text ? text : "an error without a text";
}

static kerf_status start(kf_nvml *n, kerf_error *err)
{
    unsigned count = 0;
    int code = n->init();
    if (code != SUCCESS)
        return kf_fail(err, KERF_E_CUDA, KF_NOWHERE, "NVML does not start: %.150s (nvmlInit %d)",
                       text_of(n, code), code);
    n->started = 1;
    if (n->driver) n->driver(n->driver_version, sizeof n->driver_version);
    n->driver_version[sizeof n->driver_version - 1] = 0;
    code = n->count(&count);
    if (code != SUCCESS || count == 0)
        return kf_fail(err, KERF_E_CUDA, KF_NOWHERE, "the GPU driver shows no GPU%s%.150s",
                       code ? ": " : "", code ? text_of(n, code) : "");
    n->gpus = count < KERF_MONITOR_SOURCES / 2 ? count : KERF_MONITOR_SOURCES / 2;
    for (unsigned i = 0; i < n->gpus; i++)
        if (n->handle(i, &n->at[i]) != SUCCESS) n->at[i] = NULL;
    return KERF_OK;
}

kerf_status kf_nvml_open(const char *file, kf_nvml **out, kerf_error *err)
{
    kf_nvml *n = NULL;
    *out = NULL;
    KF_TRY(kf_allocate(&n, 1, sizeof *n, err));
    n->library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    kerf_status s = KERF_OK;
    if (!n->library) { /* what it says begins with the file's name */
        const char *why = dlerror();
        s = kf_fail(err, KERF_E_CUDA, KF_NOWHERE, "no NVIDIA driver here (%.200s)",
                    why ? why : file);
    }
    if (s == KERF_OK) s = find_calls(n, file, err);
    if (s == KERF_OK) s = start(n, err);
    if (s != KERF_OK) {
        kf_nvml_close(n);
        return s;
    }
    *out = n;
    return KERF_OK;
}

void kf_nvml_close(kf_nvml *n)
{
    if (!n) return;
    if (n->started) n->shutdown();
    if (n->library) dlclose(n->library);
    free(n);
}

unsigned kf_nvml_gpus(const kf_nvml *n)
{
    return n->gpus;
}

const char *kf_nvml_driver(const kf_nvml *n)
{
    return n->driver_version;
}

/* --- reading ------------------------------------------------------------------------------- */

/* What a call has answered: 1 for a value. A GPU that one call calls lost is lost. */
typedef struct answer {
    const kf_nvml *n;
    gpu gpu;
    int lost;
} answer;

static int is_value(answer *a, int code)
{
    if (code == LOST) a->lost = 1;
    return code == SUCCESS;
}

/* The value of a call that has one number, over `unit`; NaN: none. */
static double number_of(answer *a, int (*call)(gpu, unsigned *), double unit)
{
    unsigned value = 0;
    return call && !a->lost && is_value(a, call(a->gpu, &value)) ? value / unit : NAN;
}

static double clock_of(answer *a, int (*call)(gpu, int, unsigned *), int which)
{
    unsigned value = 0;
    return call && !a->lost && is_value(a, call(a->gpu, which, &value)) ? (double)value
                                                                        : (double)NAN;
}

/* Drivers that cannot tell the power of this moment tell its mean over a second. */
static double power_of(answer *a)
{
    gpu_field f = {.id = FIELD_POWER_NOW};
    if (a->n->fields && !a->lost && is_value(a, a->n->fields(a->gpu, 1, &f)) &&
        f.status == SUCCESS && f.value.u > 0)
        return f.value.u / 1e3;
    return number_of(a, a->n->power, 1e3);
}

static double energy_of(answer *a)
{
    unsigned long long mj = 0;
    if (!a->n->energy || a->lost || !is_value(a, a->n->energy(a->gpu, &mj))) return NAN;
    return (double)mj / 1e3;
}

static void read_name(unsigned pid, char out[32])
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%u/comm", pid);
    FILE *f = fopen(path, "r");
    out[0] = 0;
    if (!f) return;
    if (!fgets(out, 32, f)) out[0] = 0;
    out[strcspn(out, "\n")] = 0;
    fclose(f);
}

static void read_tasks(answer *a, kerf_reading *out)
{
    gpu_task task[PROCESSES_ASKED];
    unsigned count = PROCESSES_ASKED;
    if (!a->n->tasks || a->lost || !is_value(a, a->n->tasks(a->gpu, &count, task))) return;
    for (unsigned i = 0; i < count && i < PROCESSES_ASKED; i++) {
        if (out->processes == KERF_MONITOR_PROCESSES) {
            out->processes_left_out = count - out->processes;
            return;
        }
        kerf_gpu_process *p = &out->process[out->processes++];
        p->pid = task[i].pid;
        p->memory_bytes = task[i].memory == ~0ull ? NAN : (double)task[i].memory;
        read_name(p->pid, p->name);
    }
}

static void read_gauges(answer *a, double g[KERF_GAUGE_COUNT])
{
    const kf_nvml *n = a->n;
    gpu_memory memory = {0};
    gpu_use use = {0};
    g[KERF_GAUGE_POWER] = power_of(a);
    g[KERF_GAUGE_POWER_LIMIT] = number_of(a, n->limit, 1e3);
    g[KERF_GAUGE_ENERGY] = energy_of(a);
    g[KERF_GAUGE_SM_CLOCK] = clock_of(a, n->clock, CLOCK_SM);
    g[KERF_GAUGE_SM_CLOCK_MAX] = clock_of(a, n->max_clock, CLOCK_SM);
    g[KERF_GAUGE_MEMORY_CLOCK] = clock_of(a, n->clock, CLOCK_MEMORY);
    g[KERF_GAUGE_TEMPERATURE] = clock_of(a, n->temperature, SENSOR_CHIP);
    if (n->memory && !a->lost && is_value(a, n->memory(a->gpu, &memory))) {
        g[KERF_GAUGE_MEMORY] = (double)memory.total;
        g[KERF_GAUGE_MEMORY_USED] = (double)memory.used;
    }
    if (n->use && !a->lost && is_value(a, n->use(a->gpu, &use))) {
        g[KERF_GAUGE_BUSY] = use.gpu;
        g[KERF_GAUGE_MEMORY_BUSY] = use.memory;
    }
}

void kf_nvml_read(const kf_nvml *n, unsigned i, kerf_reading *out)
{
    answer a = {n, n->at[i], n->at[i] == NULL};
    unsigned long long bits = 0;
    out->is_gpu = 1;
    out->index = i;
    for (int g = 0; g < KERF_GAUGE_COUNT; g++) out->gauge[g] = NAN;
    if (n->name && !a.lost) is_value(&a, n->name(a.gpu, out->name, sizeof out->name));
    if (n->uuid && !a.lost) is_value(&a, n->uuid(a.gpu, out->uuid, sizeof out->uuid));
    read_gauges(&a, out->gauge);
    if (n->throttles && !a.lost && is_value(&a, n->throttles(a.gpu, &bits))) {
        out->throttles_known = 1;
        out->throttles = bits;
    }
    read_tasks(&a, out);
    out->lost = a.lost;
    if (!a.lost) return;
    snprintf(out->why, sizeof out->why, "%.90s", text_of(n, LOST));
    for (int g = 0; g < KERF_GAUGE_COUNT; g++) out->gauge[g] = NAN;
    out->processes = 0;
    out->throttles_known = 0;
}

void kf_nvml_energy(const kf_nvml *n, unsigned i, double *joules, double *watts, int *lost)
{
    answer a = {n, n->at[i], n->at[i] == NULL};
    *joules = energy_of(&a);
    *watts = power_of(&a);
    *lost = a.lost;
}
