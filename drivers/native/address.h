/* Addresses in the kernel's form, in slots of equal size, so that JavaScript can compare them without parsing them. */
#ifndef OS_NODE_ADDRESS_H
#define OS_NODE_ADDRESS_H

#include "addon.h"

#include <netinet/in.h>
#include <sys/socket.h>

/* room for IPv4 or IPv6; unused bytes are zero */
enum { ADDRESS_SIZE = 28 };

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    uint8_t bytes[ADDRESS_SIZE];
};

/* `text` is 192.0.2.1, ::1 or fe80::1%eth0 of that family (AF_INET, AF_INET6); returns 0 or minus errno. */
int address_parse(const char *text, int family, uint16_t port, union address *out);
socklen_t address_length(const union address *address);
/* Makes a slot of `length` bytes from the kernel comparable: zeroes the bytes that do not identify the peer. */
void address_clean(uint8_t *slot, socklen_t length);

#endif
