/* Shared by the CAN files of the addon. */
#ifndef OS_NODE_CAN_H
#define OS_NODE_CAN_H

#include "addon.h"

/* Parses the name of an interface; returns its index, or minus errno (-ENODEV: no such interface). */
int can_interface(napi_env env, napi_value value);
/* A non-blocking CAN socket of `type` and `protocol`; the fd, or minus errno. */
int can_socket(int type, int protocol);
/* Binds to an interface, with ids for ISO-TP; 0, or minus errno. */
int can_bind(int fd, int index, uint32_t rx_id, uint32_t tx_id);

#endif
