/* hardware_new.c - machines that a call makes, from a name, a file or a measurement. Their texts
 * and lists are blocks of memory in one chain, freed together. */
#include "machine/hardware_new.h"

#include <stdlib.h>
#include <string.h>

typedef struct hardware_block {
    struct hardware_block *next;
    max_align_t data[];
} hardware_block;

typedef struct owned_hardware {
    kerf_hardware hardware; /* first: a kerf_hardware * from here is one to this */
    hardware_block *blocks;
} owned_hardware;

kerf_status kf_hardware_new(kerf_hardware **out, kerf_error *err)
{
    owned_hardware *o = NULL;
    *out = NULL;
    KF_TRY(kf_allocate(&o, 1, sizeof *o, err));
    *out = &o->hardware;
    return KERF_OK;
}

kerf_status kf_hardware_keep(kerf_hardware *h, uint64_t count, uint64_t size, void *out,
                             kerf_error *err)
{
    owned_hardware *o = (owned_hardware *)h;
    uint64_t bytes = 0;
    hardware_block *b = NULL;
    if (!kf_mul_ok(count, size, &bytes) || !kf_add_ok(bytes, sizeof *b, &bytes)) {
        return kf_fail(err, KERF_E_RANGE, KF_NOWHERE, "the description of a machine is too large");
    }
    KF_TRY(kf_allocate(&b, bytes, 1, err));
    void *data = b->data;
    b->next = o->blocks;
    o->blocks = b;
    memcpy(out, &data, sizeof data);
    return KERF_OK;
}

kerf_status kf_hardware_keep_text(kerf_hardware *h, const char *text, const char **out,
                                  kerf_error *err)
{
    char *copy = NULL;
    size_t size = strlen(text) + 1;
    KF_TRY(kf_hardware_keep(h, size, 1, &copy, err));
    memcpy(copy, text, size);
    *out = copy;
    return KERF_OK;
}

kerf_status kf_hardware_keep_tuning(kerf_hardware *h, const kerf_gemv_tuning *tuning,
                                    const char *source, const char *date, kerf_error *err)
{
    kerf_gemv_tuning *copy = NULL;
    KF_TRY(kf_hardware_keep(h, 1, sizeof *copy, &copy, err));
    *copy = *tuning;
    h->tuning = copy;
    KF_TRY(kf_hardware_keep_text(h, source, &h->tuning_source, err));
    return kf_hardware_keep_text(h, date, &h->tuning_date, err);
}

/* Copies every text that h points to, so that it no longer needs the machine it came from. */
static kerf_status keep_texts(kerf_hardware *h, kerf_error *err)
{
    const char **text[] = {&h->name, &h->title, &h->kind, &h->arch, &h->native, &h->note};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        KF_TRY(kf_hardware_keep_text(h, *text[i], text[i], err));
    }
    for (kerf_fact_id id = 0; id < KERF_FACT_COUNT; id++) {
        kerf_fact *f = &h->fact[id];
        if (f->value == 0) continue;
        KF_TRY(kf_hardware_keep_text(h, f->source, &f->source, err));
        KF_TRY(kf_hardware_keep_text(h, f->date, &f->date, err));
    }
    return KERF_OK;
}

kerf_status kf_hardware_copy(const kerf_hardware *from, kerf_hardware **out, kerf_error *err)
{
    kerf_hardware *h = NULL;
    *out = NULL;
    KF_TRY(kf_hardware_new(&h, err));
    *h = *from;
    h->fit = NULL;
    h->anchors = NULL;
    h->fits = h->tables = 0;
    kerf_status s = keep_texts(h, err);
    if (s == KERF_OK && h->tuning)
        s = kf_hardware_keep_tuning(h, h->tuning, h->tuning_source, h->tuning_date, err);
    if (s == KERF_OK) {
        *out = h;
    } else {
        kerf_hardware_close(h);
    }
    return s;
}

kerf_status kerf_hardware_get(const char *text, kerf_hardware **out, kerf_error *err)
{
    const kerf_hardware *known = NULL;
    *out = NULL;
    if (kf_has_suffix(text, ".json")) return kerf_hardware_open(text, out, err);
    KF_TRY(kf_hardware_named(text, &known, err));
    KF_TRY(kf_hardware_new(out, err));
    **out = *known; /* texts of the registry live as long as the program */
    return KERF_OK;
}

void kerf_hardware_close(kerf_hardware *h)
{
    owned_hardware *o = (owned_hardware *)h;
    if (!o) return;
    for (hardware_block *b = o->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(o);
}
