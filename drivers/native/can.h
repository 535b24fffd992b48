/* What the CAN files of the addon share. */
#ifndef OS_NODE_CAN_H
#define OS_NODE_CAN_H

#include "addon.h"

/* Reads the name of an interface; its index, or minus errno (-ENODEV: there is none). */
int can_interface(napi_env env, napi_value value);
/* A CAN socket of `type` and `protocol` that never blocks; the fd, or minus errno. */
int can_socket(int type, int protocol);
/* Binds to an interface, with ids for ISO-TP; 0, or minus errno. */
int can_bind(int fd, int index, uint32_t rx_id, uint32_t tx_id);

#endif
