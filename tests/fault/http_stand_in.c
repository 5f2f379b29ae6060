/* http_stand_in.c - stands in for libmicrohttpd under every verb but serve: what that library needs
 * in its turn takes longer to load than most runs of a campaign take. A call of it ends the
 * process. */
#include <stdlib.h>

#define STAND_IN(name) \
    void name(void);   \
    void name(void)    \
    {                  \
        abort();       \
    }

STAND_IN(MHD_add_response_header)
STAND_IN(MHD_create_response_from_buffer)
STAND_IN(MHD_create_response_from_callback)
STAND_IN(MHD_destroy_response)
STAND_IN(MHD_get_connection_info)
STAND_IN(MHD_get_connection_values)
STAND_IN(MHD_get_daemon_info)
STAND_IN(MHD_lookup_connection_value)
STAND_IN(MHD_queue_response)
STAND_IN(MHD_quiesce_daemon)
STAND_IN(MHD_resume_connection)
STAND_IN(MHD_start_daemon)
STAND_IN(MHD_stop_daemon)
STAND_IN(MHD_suspend_connection)
