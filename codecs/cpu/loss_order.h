/* loss_order.h - the sizes behind the order in which <kerf/loss.h> adds up. */
#ifndef KERF_LOSS_ORDER_H
#define KERF_LOSS_ORDER_H

#include <kerf/loss.h>

enum { KF_PIECE = 2048, KF_PIECE_COLUMNS = 32768, KF_RUN_ELEMENTS = 65536 };

/* into += from */
void kf_loss_add(kerf_loss *into, const kerf_loss *from);

#endif
