/* cleanup.c - the table of temporaries that a signal handler removes.
 *
 * A handler may run between any two instructions of any thread: the table is static, an entry is
 * published by one atomic store after its path is complete, and never freed. */
#include "file/cleanup.h"

#include <limits.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include <kerf/file.h>

#define MAX_ENTRIES 1024

enum { FREE, TAKEN, IS_FILE, IS_FOLDER };

static struct {
    atomic_int state;
    char path[PATH_MAX];
} entry[MAX_ENTRIES];

int kf_cleanup_add(const char *path, int is_folder)
{
    size_t n = strlen(path);
    if (n >= PATH_MAX) return -1;
    for (int i = 0; i < MAX_ENTRIES; i++) {
        int free_state = FREE;
        if (!atomic_compare_exchange_strong(&entry[i].state, &free_state, TAKEN)) continue;
        memcpy(entry[i].path, path, n + 1);
        atomic_store(&entry[i].state, is_folder ? IS_FOLDER : IS_FILE);
        return i;
    }
    return -1;
}

void kf_cleanup_drop(int slot)
{
    if (slot >= 0) atomic_store(&entry[slot].state, FREE);
}

void kerf_writer_cleanup_signal(void)
{
    for (int i = 0; i < MAX_ENTRIES; i++)
        if (atomic_load(&entry[i].state) == IS_FILE) unlink(entry[i].path);
    for (int i = 0; i < MAX_ENTRIES; i++)
        if (atomic_load(&entry[i].state) == IS_FOLDER) rmdir(entry[i].path);
}
