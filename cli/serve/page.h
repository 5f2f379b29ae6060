/* page.h - the files of the page, as the build has packed them. */
#ifndef KERF_SERVE_PAGE_H
#define KERF_SERVE_PAGE_H

#include <stddef.h>

extern const unsigned char page_html[], page_css[], page_js[];
extern const size_t page_html_size, page_css_size, page_js_size;

#endif
