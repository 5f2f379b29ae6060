/* nvml_stand_in.c - a library that looks like NVIDIA's NVML and plays what a file says, so that the
 * monitor is tested where there is no GPU, and with faults that no GPU has on demand.
 *
 * KERF_STAND_IN names the file. A line is a reading of a GPU; the name of the GPU, which the
 * monitor asks for first, takes the next line of that GPU, and the last one stays:
 *
 *   GPU POWER_mW LIMIT_mW ENERGY_mJ SM_MHz MEMORY_MHz C USED_MiB TOTAL_MiB BUSY
 *       MEMORY_BUSY THROTTLES PIDS
 *
 * "-": this GPU does not support it; "lost": from here on every call says that it is lost; ENERGY
 * "clock": grows with POWER over time in steps of 20 ms, as real counters do. "init N" as the only
 * line: nvmlInit fails with N. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GPUS = 40, ROWS = 64, CELLS = 13 };
enum { OK = 0, NOT_SUPPORTED = 3, INSUFFICIENT = 7, LOST = 15 };
enum {
    GPU,
    POWER,
    LIMIT,
    ENERGY,
    SM,
    MEMORY_CLOCK,
    HEAT,
    USED,
    TOTAL,
    BUSY,
    MEMORY_BUSY,
    HELD,
    PIDS
};

typedef struct row {
    char cell[CELLS][48];
} row;

static struct gpu {
    row row[ROWS];
    int rows, at, lost;
} gpus[GPUS];
static unsigned count;
static int init_code;
static struct timespec began;

typedef struct gpu *handle;

int nvmlInit_v2(void);
int nvmlShutdown(void);
const char *nvmlErrorString(int code);
int nvmlSystemGetDriverVersion(char *out, unsigned n);
int nvmlDeviceGetCount_v2(unsigned *out);
int nvmlDeviceGetHandleByIndex_v2(unsigned i, handle *out);
int nvmlDeviceGetName(handle g, char *out, unsigned n);
int nvmlDeviceGetUUID(handle g, char *out, unsigned n);
int nvmlDeviceGetPowerUsage(handle g, unsigned *out);
int nvmlDeviceGetEnforcedPowerLimit(handle g, unsigned *out);
int nvmlDeviceGetTotalEnergyConsumption(handle g, unsigned long long *out);
int nvmlDeviceGetClockInfo(handle g, int which, unsigned *out);
int nvmlDeviceGetMaxClockInfo(handle g, int which, unsigned *out);
int nvmlDeviceGetCurrentClocksThrottleReasons(handle g, unsigned long long *out);
int nvmlDeviceGetTemperature(handle g, int sensor, unsigned *out);
int nvmlDeviceGetMemoryInfo(handle g, unsigned long long out[3]);
int nvmlDeviceGetUtilizationRates(handle g, unsigned out[2]);

typedef struct task {
    unsigned pid;
    unsigned long long memory;
    unsigned instance, compute;
} task;
int nvmlDeviceGetComputeRunningProcesses_v3(handle g, unsigned *n, task *out);

/* --- the file ------------------------------------------------------------------------------ */

static void take_line(char *line)
{
    row r = {{{0}}};
    int cells = 0;
    if (sscanf(line, "init %d", &init_code) == 1) return;
    for (char *save = NULL, *word = strtok_r(line, " \n", &save); word && cells < CELLS;
         word = strtok_r(NULL, " \n", &save))
        snprintf(r.cell[cells++], sizeof *r.cell, "%s", word);
    const unsigned i = (unsigned)atoi(r.cell[GPU]);
    if (cells < 2 || i >= GPUS || gpus[i].rows == ROWS) return;
    gpus[i].row[gpus[i].rows++] = r;
    if (i >= count) count = i + 1;
}

int nvmlInit_v2(void)
{
    char line[512];
    const char *path = getenv("KERF_STAND_IN");
    FILE *f = path ? fopen(path, "r") : NULL;
    if (!f) return 9; /* driver not loaded */
    memset(gpus, 0, sizeof gpus);
    count = 0;
    for (int i = 0; i < GPUS; i++) gpus[i].at = -1;
    while (fgets(line, sizeof line, f))
        if (line[0] != '#') take_line(line);
    fclose(f);
    clock_gettime(CLOCK_MONOTONIC, &began);
    return init_code;
}

int nvmlShutdown(void)
{
    return OK;
}

/* --- values -------------------------------------------------------------------------------- */

static const char *cell_of(handle g, int cell)
{
    return g->row[g->at < 0 ? 0 : g->at].cell[cell];
}

static int value_of(handle g, int cell, unsigned long long *out)
{
    const char *text = cell_of(g, cell);
    if (strcmp(cell_of(g, POWER), "lost") == 0) g->lost = 1;
    if (g->lost) return LOST;
    if (!text[0] || strcmp(text, "-") == 0) return NOT_SUPPORTED;
    *out = strtoull(text, NULL, 0);
    return OK;
}

static int number_of(handle g, int cell, unsigned *out)
{
    unsigned long long value = 0;
    const int code = value_of(g, cell, &value);
    if (code == OK) *out = (unsigned)value;
    return code;
}

const char *nvmlErrorString(int code)
{
    return code == LOST ? "GPU is lost" : code == 9 ? "Driver Not Loaded" : "Unknown Error";
}

int nvmlSystemGetDriverVersion(char *out, unsigned n)
{
    snprintf(out, n, "580.00");
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *out)
{
    *out = count;
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, handle *out)
{
    *out = &gpus[i];
    return OK;
}

int nvmlDeviceGetName(handle g, char *out, unsigned n)
{
    unsigned long long power;
    if (g->at + 1 < g->rows) g->at++;
    if (value_of(g, POWER, &power) == LOST) return LOST;
    snprintf(out, n, "Stand-in H100 number %d", (int)(g - gpus));
    return OK;
}

int nvmlDeviceGetUUID(handle g, char *out, unsigned n)
{
    snprintf(out, n, "GPU-%08d", (int)(g - gpus));
    return OK;
}

int nvmlDeviceGetPowerUsage(handle g, unsigned *out)
{
    return number_of(g, POWER, out);
}

int nvmlDeviceGetEnforcedPowerLimit(handle g, unsigned *out)
{
    return number_of(g, LIMIT, out);
}

int nvmlDeviceGetTotalEnergyConsumption(handle g, unsigned long long *out)
{
    struct timespec t;
    const int code = value_of(g, ENERGY, out);
    if (code != OK || strcmp(cell_of(g, ENERGY), "clock") != 0) return code;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const long long ms = (t.tv_sec - began.tv_sec) * 1000LL + (t.tv_nsec - began.tv_nsec) / 1000000;
    *out = (unsigned long long)(ms / 20 * 20) * strtoull(cell_of(g, POWER), NULL, 10) / 1000;
    return OK;
}

int nvmlDeviceGetClockInfo(handle g, int which, unsigned *out)
{
    return number_of(g, which == 2 ? MEMORY_CLOCK : SM, out);
}

int nvmlDeviceGetMaxClockInfo(handle g, int which, unsigned *out)
{
    return nvmlDeviceGetClockInfo(g, which, out);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(handle g, unsigned long long *out)
{
    return value_of(g, HELD, out);
}

int nvmlDeviceGetTemperature(handle g, int sensor, unsigned *out)
{
    return sensor == 0 ? number_of(g, HEAT, out) : NOT_SUPPORTED;
}

int nvmlDeviceGetMemoryInfo(handle g, unsigned long long out[3])
{
    int code = value_of(g, TOTAL, &out[0]);
    if (code == OK) code = value_of(g, USED, &out[2]);
    out[0] <<= 20, out[2] <<= 20;
    out[1] = out[0] - out[2];
    return code;
}

int nvmlDeviceGetUtilizationRates(handle g, unsigned out[2])
{
    const int code = number_of(g, BUSY, &out[0]);
    return code == OK ? number_of(g, MEMORY_BUSY, &out[1]) : code;
}

/* PIDS: how many processes there are; the first is this one. */
int nvmlDeviceGetComputeRunningProcesses_v3(handle g, unsigned *n, task *out)
{
    unsigned pids = 0, room = *n;
    const int code = number_of(g, PIDS, &pids);
    if (code != OK) return code;
    *n = pids;
    if (pids > room) return INSUFFICIENT;
    for (unsigned i = 0; i < pids; i++)
        out[i] = (task){.pid = i ? 4000000 + i : (unsigned)getpid(),
                        .memory = i == 1 ? ~0ull : 1u << 30};
    return OK;
}
