/* hardware.c - the registry of machines: the rows of hardware.def as a table, and how it is
 * searched. */
#include <kerf/hardware.h>

#include <string.h>

/* Named arrays rather than a table: an address is a constant that other tables can hold. */
#define KERF_SOURCE(ID, date, text) static const char date_##ID[] = date, source_##ID[] = text;
#include "machine/hardware.def"
#undef KERF_SOURCE

enum {
#define KERF_MACHINE(ID, ...) MACHINE_##ID,
#include "machine/hardware.def"
#undef KERF_MACHINE
    MACHINES
};

static const kerf_hardware machines[MACHINES] = {
#define KERF_MACHINE(ID, machine, words, sort, isa, types, beware)                           \
    [MACHINE_##ID].name = machine, [MACHINE_##ID].title = words, [MACHINE_##ID].kind = sort, \
    [MACHINE_##ID].arch = isa, [MACHINE_##ID].native = types, [MACHINE_##ID].note = beware,
#define KERF_FACT(M, ID, value, S) \
    [MACHINE_##M].fact[KERF_FACT_##ID] = {value, source_##S, date_##S, 0},
#define KERF_FACT_UNVERIFIED(M, ID, value, S) \
    [MACHINE_##M].fact[KERF_FACT_##ID] = {value, source_##S, date_##S, 1},
#include "machine/hardware.def"
#undef KERF_MACHINE
#undef KERF_FACT
#undef KERF_FACT_UNVERIFIED
};

static const struct {
    const char *key, *unit, *text;
} facts[KERF_FACT_COUNT] = {
#define X(ID, key, unit, text) [KERF_FACT_##ID] = {key, unit, text},
    KERF_FACTS(X)
#undef X
};

size_t kerf_hardware_count(void)
{
    return MACHINES;
}

const kerf_hardware *kerf_hardware_at(size_t i)
{
    return i < MACHINES ? &machines[i] : NULL;
}

const kerf_hardware *kerf_hardware_find(const char *name)
{
    for (size_t i = 0; i < MACHINES; i++) {
        if (strcmp(machines[i].name, name) == 0) return &machines[i];
    }
    return NULL;
}

const char *kerf_fact_key(kerf_fact_id id)
{
    return (unsigned)id < KERF_FACT_COUNT ? facts[id].key : "?";
}

const char *kerf_fact_unit(kerf_fact_id id)
{
    return (unsigned)id < KERF_FACT_COUNT ? facts[id].unit : "";
}

const char *kerf_fact_text(kerf_fact_id id)
{
    return (unsigned)id < KERF_FACT_COUNT ? facts[id].text : "";
}
