/* monitor.h - what machines draw and how they are while they work: GPUs through NVML, which is
 * opened at run time, and processors through the counters that Linux calls powercap (RAPL).
 *
 *   kerf_monitor_open, _read    what every source says of itself now
 *   kerf_sample_write           that as one line of JSON, as `kerf monitor --json` prints it
 *   kerf_meter_begin, _end      energy and power of what happens in between
 *   kerf_metered_write          that of a command, beside the idle machine, as a document
 *
 * A gauge that a source does not have, or may not tell, is NaN. A GPU that is lost in between stays
 * in the list and says so.
 */
#ifndef KERF_MONITOR_H
#define KERF_MONITOR_H

#include <kerf/codec.h>
#include <kerf/words.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(ID, key in JSON, what it is) */
#define KERF_GAUGES(X)                                                           \
    X(POWER, "power_w", "drawn now; of a processor: since the reading before")   \
    X(POWER_LIMIT, "power_limit_w", "that is enforced")                          \
    X(ENERGY, "energy_j", "counted since the driver was loaded")                 \
    X(SM_CLOCK, "sm_mhz", "clock of the multiprocessors")                        \
    X(SM_CLOCK_MAX, "sm_max_mhz", "highest clock of those")                      \
    X(MEMORY_CLOCK, "memory_mhz", "clock of the memory")                         \
    X(TEMPERATURE, "temperature_c", "of the chip")                               \
    X(MEMORY_USED, "memory_used_bytes", "taken, the driver's own part among it") \
    X(MEMORY, "memory_bytes", "there is")                                        \
    X(BUSY, "busy_percent", "of the last moments in which a kernel ran")         \
    X(MEMORY_BUSY, "memory_busy_percent", "of those in which memory was read or written")

typedef enum kerf_gauge {
#define X(ID, ...) KERF_GAUGE_##ID,
    KERF_GAUGES(X)
#undef X
        KERF_GAUGE_COUNT
} kerf_gauge;

KERF_API const char *kerf_gauge_key(kerf_gauge g);

/* Why clocks are lower than they could be. X(bit as NVML has it, word) */
#define KERF_THROTTLES(X)     \
    X(0x001, "idle")          \
    X(0x002, "application")   \
    X(0x004, "power-cap")     \
    X(0x008, "hardware")      \
    X(0x010, "sync-boost")    \
    X(0x020, "heat")          \
    X(0x040, "hardware-heat") \
    X(0x080, "power-brake")   \
    X(0x100, "display")

/* Bit number i of that list and its word; 0 past the end. */
KERF_API uint64_t kerf_throttle_at(size_t i, const char **word);

enum { KERF_MONITOR_SOURCES = 64, KERF_MONITOR_PROCESSES = 16 };

typedef struct kerf_gpu_process {
    uint32_t pid;
    char name[32];       /* of the command; "" where it cannot be seen from here */
    double memory_bytes; /* NaN: not told                                        */
} kerf_gpu_process;

typedef struct kerf_reading {
    int is_gpu;     /* else a processor, or memory, that RAPL counts              */
    unsigned index; /* among those of its kind, from 0                            */
    char name[96], uuid[80];
    double gauge[KERF_GAUGE_COUNT];
    int throttles_known;
    uint64_t throttles; /* of KERF_THROTTLES; bits beside those may be set        */
    int lost;           /* nothing is known of it any more ...                    */
    char why[96];       /* ... for this reason                                    */
    kerf_gpu_process process[KERF_MONITOR_PROCESSES];
    size_t processes, processes_left_out;
} kerf_reading;

typedef struct kerf_sample {
    double unix_s;    /* when, seconds since 1970                                 */
    double elapsed_s; /* since the monitor was opened                             */
    kerf_reading reading[KERF_MONITOR_SOURCES];
    size_t count;
} kerf_sample;

typedef struct kerf_monitor_options {
    const char *nvml;     /* file to open; NULL: libnvidia-ml.so.1, where the system looks for it */
    const char *powercap; /* folder; NULL: /sys/class/powercap                                    */
} kerf_monitor_options;

typedef struct kerf_monitor kerf_monitor;

/* All GPUs and all counters of processors that can be read. o NULL: all defaults. KERF_E_CUDA:
 * there are neither; the text says why for each. A monitor is for one thread at a time, a meter on
 * it included. */
KERF_API KERF_CHECK kerf_status kerf_monitor_open(const kerf_monitor_options *o, kerf_monitor **out,
                                                  kerf_error *err);
KERF_API void kerf_monitor_close(kerf_monitor *m); /* NULL is fine */

/* How many sources; the first of them are GPUs, so many. */
KERF_API size_t kerf_monitor_sources(const kerf_monitor *m);
KERF_API size_t kerf_monitor_gpus(const kerf_monitor *m);
/* Version of the GPU driver; "" without one. */
KERF_API const char *kerf_monitor_driver(const kerf_monitor *m);

/* Never fails: what cannot be read is NaN, or lost. */
KERF_API void kerf_monitor_read(kerf_monitor *m, kerf_sample *out);

/* One line of JSON without a newline, schema kerf.monitor/1: malloc'd, ends in a 0 that n (may be
 * NULL) does not count, to be freed. */
KERF_API KERF_CHECK kerf_status kerf_sample_write(const kerf_sample *s, char **text, size_t *n,
                                                  kerf_error *err);

/* The same as comma-separated values, a line for each source; s NULL: the line of their names. Each
 * line ends in a newline. */
KERF_API KERF_CHECK kerf_status kerf_sample_write_csv(const kerf_sample *s, char **text, size_t *n,
                                                      kerf_error *err);
/* The same for people, in the form that is asked for (kerf/words.h): a table of the sources, and
 * processes of GPUs in so many lines at most, the last of which says how many more there are. */
KERF_API KERF_CHECK kerf_status kerf_sample_text(const kerf_sample *s, int lines,
                                                 const kerf_text_form *form, char **text, size_t *n,
                                                 kerf_error *err);

/* What holds the clocks down, "power-cap heat"; "" where that is nothing or not known. Cut to size;
 * returns out. */
KERF_API char *kerf_throttles_text(const kerf_reading *r, char *out, size_t size);

/* --- energy of what happens in between ----------------------------------------------------- */

typedef struct kerf_source_energy {
    int is_gpu, lost;
    unsigned index;
    char name[96];
    double joules;    /* the counter's difference, or power over time where there is none; NaN  */
    int counted;      /* by the source's own counter                                            */
    double average_w; /* joules over seconds                                                    */
    double peak_w;    /* of the readings in between; NaN: there was none                        */
    /* Between the first and the last step of the counter that were seen: free of the error at the
     * ends, for a load that stays the same. NaN: fewer than three steps. */
    double steady_w;
    double step_s; /* mean time between two steps of the counter: what it can tell apart; NaN   */
} kerf_source_energy;

typedef struct kerf_energy {
    double seconds;
    size_t samples;
    kerf_source_energy source[KERF_MONITOR_SOURCES];
    size_t count;
} kerf_energy;

typedef struct kerf_meter kerf_meter;

/* Begins to read energy and power of every source of m each `interval_s` seconds (0: 0.01) in a
 * thread of its own. m is the meter's until kerf_meter_end. */
KERF_API KERF_CHECK kerf_status kerf_meter_begin(kerf_monitor *m, double interval_s,
                                                 kerf_meter **out, kerf_error *err);
/* Ends it and frees the meter. out NULL: only that. */
KERF_API void kerf_meter_end(kerf_meter *meter, kerf_energy *out);

/* Meters `seconds` of nothing: the power of a machine that waits. */
KERF_API KERF_CHECK kerf_status kerf_meter_idle(kerf_monitor *m, double seconds, kerf_energy *out,
                                                kerf_error *err);

/* What a command has used, and the idle machine before it. */
typedef struct kerf_metered {
    const char *const *word; /* of the command, ended by NULL; the caller's          */
    int exit_code;
    double interval_s, idle_s; /* as they were asked for; idle_s 0: no idle machine  */
    kerf_energy idle, used;
} kerf_metered;

/* Of source i: what it drew before the command, NaN where that was not metered; and the joules of
 * the command above that. */
KERF_API double kerf_metered_idle_w(const kerf_metered *m, size_t i);
KERF_API double kerf_metered_above_idle(const kerf_metered *m, size_t i);

/* JSON, schema kerf.monitor-command/1: malloc'd, ends in a 0 that n (may be NULL) does not count,
 * to be freed. */
KERF_API KERF_CHECK kerf_status kerf_metered_write(const kerf_metered *m, char **text, size_t *n,
                                                   kerf_error *err);
/* The same for people, in the form that is asked for (kerf/words.h). */
KERF_API KERF_CHECK kerf_status kerf_metered_text(const kerf_metered *m, const kerf_text_form *form,
                                                  char **text, size_t *n, kerf_error *err);

#ifdef __cplusplus
}
#endif
#endif
