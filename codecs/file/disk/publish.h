/* publish.h - a finished temporary gets the name of its target, by one rename. */
#ifndef KERF_FILE_PUBLISH_H
#define KERF_FILE_PUBLISH_H

#include "file/disk/temp.h"

/* Renames a settled temporary (a folder is synced first, and its unpublished files removed) onto
 * its target and syncs the folder around; when only the latter fails, the output is in place,
 * whole, and the failure is reported. An existing target is KERF_E_EXISTS unless overwrite is set;
 * a folder that is not empty is then exchanged, and the old one, which must hold nothing but files,
 * removed. */
kerf_status kf_temp_publish(kf_temp *t, const char *target, int overwrite, kerf_error *err);

/* KERF_E_EXISTS, as kf_temp_publish says it. */
kerf_status kf_fail_exists(const char *target, kerf_error *err);

/* KERF_E_NOSUP when the file system of this temporary folder cannot exchange two folders. */
kerf_status kf_temp_check_exchange(const kf_temp *t, const char *target, kerf_error *err);

#endif
