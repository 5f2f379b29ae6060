/* host.h - whether a request is for this server, from a page of it, by who has the token. */
#ifndef KERF_SERVE_HOST_H
#define KERF_SERVE_HOST_H

int host_is_ours(const char *host);     /* "127.0.0.1:8080"                          */
int origin_is_ours(const char *origin); /* "http://localhost:8080"                   */
int token_is_ours(const char *header);  /* "Bearer ..."; NULL: no. In constant time. */
int address_is_loopback(const char *address);

#endif
