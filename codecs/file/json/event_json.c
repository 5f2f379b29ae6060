/* event_json.c - what a job is told, a line of JSON for each event: programs that start the command
 * read them. */
#include <kerf/job.h>

#include "file/json/json_text.h"

/* What could not be packed is left out of the line, which has its event all the same. */
static kerf_status write_line(const char *event, json_t *says, char **text, size_t *n,
                              kerf_error *err)
{
    json_t *line = json_pack("{s:s, s:s}", "schema", "kerf.progress/1", "event", event);
    if (line && says) json_object_update(line, says);
    json_decref(says);
    return kf_json_write(line, JSON_COMPACT, text, n, err);
}

const char *kerf_event_name(kerf_event_kind kind)
{
    switch (kind) {
    case KERF_EVENT_PHASE: return "phase";
    case KERF_EVENT_ITEM: return "tensor";
    case KERF_EVENT_RESUME: return "resume";
    case KERF_EVENT_PROGRESS: break;
    }
    return "bytes";
}

kerf_status kerf_event_write(const kerf_event *e, double bytes_per_s, double left_s, char **text,
                             size_t *n, kerf_error *err)
{
    const json_int_t done = (json_int_t)e->done, total = (json_int_t)e->total;
    const char *event = kerf_event_name(e->kind);
    switch (e->kind) {
    case KERF_EVENT_PHASE:
        return write_line(event, json_pack("{s:s, s:I}", "name", e->what, "total_bytes", total),
                          text, n, err);
    case KERF_EVENT_ITEM:
        return write_line(event,
                          json_pack("{s:s, s:s, s:I, s:I}", "name", e->what, "action", e->action,
                                    "done_bytes", done, "total_bytes", total),
                          text, n, err);
    case KERF_EVENT_RESUME:
        return write_line(event, json_pack("{s:I, s:s?}", "found_bytes", done, "anew", e->action),
                          text, n, err);
    case KERF_EVENT_PROGRESS: break;
    }
    return write_line(event,
                      json_pack("{s:I, s:I, s:f, s:o}", "done_bytes", done, "total_bytes", total,
                                "bytes_per_s", bytes_per_s, "seconds_left",
                                left_s > 0 ? json_real(left_s) : json_null()),
                      text, n, err);
}

kerf_status kerf_event_write_end(uint64_t done, double seconds, char **text, size_t *n,
                                 kerf_error *err)
{
    return write_line("end",
                      json_pack("{s:I, s:f}", "done_bytes", (json_int_t)done, "seconds", seconds),
                      text, n, err);
}
