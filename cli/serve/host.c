/* host.c - names that requests may be for: those of the loopback, the address that is listened on,
 * and what --host adds. The port must be the server's own, where one is named. */
#include "serve/host.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "serve/serve.h"

int address_is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

static int is_name_of_ours(const char *name, size_t n)
{
    static const char *const always[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        if (strlen(always[i]) == n && strncasecmp(always[i], name, n) == 0) return 1;
    for (size_t i = 0; i < serving.hosts; i++)
        if (strlen(serving.host[i]) == n && strncasecmp(serving.host[i], name, n) == 0) return 1;
    const size_t bare = strlen(serving.address);
    if (strchr(serving.address, ':'))
        return n == bare + 2 && name[0] == '[' && strncasecmp(name + 1, serving.address, bare) == 0;
    return n == bare && strncasecmp(name, serving.address, n) == 0;
}

/* port: of a host that names none. */
static int is_ours(const char *host, long port)
{
    const char *end = host[0] == '[' ? strchr(host, ']') : NULL;
    const char *colon = strchr(end ? end : host, ':');
    const size_t n = colon ? (size_t)(colon - host) : strlen(host);
    char *rest = "";
    if (colon) port = strtol(colon + 1, &rest, 10);
    return n > 0 && is_name_of_ours(host, n) && port == serving_port && !*rest;
}

int host_is_ours(const char *host)
{
    return is_ours(host, serving_port);
}

int origin_is_ours(const char *origin)
{
    return strncmp(origin, "http://", 7) == 0 && is_ours(origin + 7, 80);
}

int token_is_ours(const char *header)
{
    const size_t n = strlen(serving.token);
    unsigned char differs = 0;
    if (!header || strncasecmp(header, "Bearer ", 7) != 0) return 0;
    header += 7;
    const size_t m = strlen(header);
    for (size_t i = 0; i < n; i++)
        differs |= (unsigned char)(serving.token[i] ^ (m ? header[i % m] : 0));
    return differs == 0 && m == n;
}
