/* product_choice.h - which of the float32 products (row_product.h) this machine runs, and one on
 * many threads. */
#ifndef KERF_CPU_PRODUCT_CHOICE_H
#define KERF_CPU_PRODUCT_CHOICE_H

#include "base/base.h"
#include "cpu/row_product.h"

/* The fastest one that this processor runs; ask once, for asking takes longer than small products.
 */
kf_product *kf_product_find(void);

/* The same on up to `threads` threads (0: all cores). KERF_E_NOMEM. */
kerf_status kf_product_on(kf_product *product, int threads, kf_rows y, kf_rows x, kf_factor w,
                          kerf_error *err);

#endif
