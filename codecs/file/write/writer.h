/* writer.h - an output that is being written: what its four files share.
 *
 * writer_create.c checks the target, lays out the files, takes up what a dead run left, reserves
 * the disk, writes the headers, and copies the small files of a source folder, so that most of what
 * can fail does so before any work is done.
 *
 * writer.c puts bytes in place and notes their hash; notes in the journal which entries are
 * complete.
 *
 * writer_commit.c proves that every byte was written once, packs (*.zst), syncs and meanwhile reads
 * all back as a reader would and compares, then renames: a folder is built whole beside the target,
 * its index last, and appears by one rename.
 *
 * writer_part.c has what is different when other processes write the other files. */
#ifndef KERF_FILE_WRITER_H
#define KERF_FILE_WRITER_H

#include <stdatomic.h>

#include "file/disk/temp.h"
#include "file/write/journal.h"
#include "file/write/part.h"
#include "file/write/resume.h"
#include "file/write/target.h"

typedef struct kf_out_file {
    char *name;          /* in the temporary folder; NULL: the target itself      */
    char *plain;         /* the same until it is packed                           */
    int is_packed;       /* pack on commit                                        */
    int was_packed;      /* by a dead run                                         */
    int is_absent;       /* another part writes it: nothing of it is written here */
    atomic_int is_dirty; /* written to since it was synced for the journal        */
    atomic_size_t idle;  /* bytes that the disk was not yet asked to write        */
    kf_temp temp;        /* of the unpacked file until commit                     */
} kf_out_file;

struct kerf_writer {
    kf_target target;
    kf_temp root; /* folder, with a journal also of a single file */
    kf_placement placement;
    kf_ledger ledger;
    kf_out_file *file; /* placement.files of them */
    int overwrite, threads, level;
    kf_watch watch;
    int has_journal, keeps; /* keeps: what is marked is left to the next run */
    kf_journal journal;
    kf_found found;     /* of a dead run; its ledger has become ours */
    kerf_own_part part; /* parts 0: all files are ours               */
    kf_parts parts;     /* around the target                         */
    int parts_slot;     /* of it, in the table of cleanup.h          */
    int part_is_whole;  /* an earlier run has finished it         */
    int replaces_part;  /* what is there is damaged, or of another plan that may be replaced */
};

kerf_status kf_writer_no_memory(kerf_error *err);

/* Makes the temporary of a file, under this name when it goes into a folder. */
kerf_status kf_writer_open_temp(kerf_writer *w, const kf_out_file *f, const char *name, kf_temp *t,
                                kerf_error *err);

/* Writes bytes at a place of a file and adds them to the ledger. Any thread. */
kerf_status kf_writer_put(kerf_writer *w, size_t file, uint64_t offset, const void *src, size_t n,
                          kerf_error *err);

/* Syncs what was written, then notes it in the journal. */
kerf_status kf_writer_note(kerf_writer *w, kerf_error *err);

/* Of a part. Sets part_is_whole when what stands at the target is this part of this plan, whole,
 * and replaces_part when it is damaged: it stays until the new one is whole. KERF_E_ARG: it is of
 * another plan, and overwrite is 0. Other failures say nothing of what is there. */
kerf_status kf_writer_find_part(kerf_writer *w, kerf_error *err);
/* Adds record and journal, and gives the folder its name, in place of what it replaces. */
kerf_status kf_writer_publish_part(kerf_writer *w, kerf_error *err);

#endif
