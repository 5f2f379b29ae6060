/* refusals.h - answers to what is no good HTTP, whoever finds it. */
#ifndef KERF_SERVE_REFUSALS_H
#define KERF_SERVE_REFUSALS_H

#include <microhttpd.h>

/* As MHD_queue_response: by this it is told from what the library answers itself. */
enum MHD_Result queue_answer(struct MHD_Connection *c, unsigned status,
                             struct MHD_Response *response);
/* What is wrong with the headers that say where a request ends and whom it is for; NULL: nothing.
 */
const char *framing_fault(struct MHD_Connection *c);
/* Says on a connection that is about to be closed why; never waits. */
void refuse_on_socket(int fd, unsigned status);

#endif
