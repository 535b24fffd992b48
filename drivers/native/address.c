/* Addresses: text to the kernel's form when a socket is opened, and back when a peer is new. */
#define _GNU_SOURCE
#include "address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(sizeof(union address) == ADDRESS_SIZE, "slots hold exactly a sockaddr_in6");

static uint32_t scope_of(const char *name) {
    char *end;
    unsigned long number = strtoul(name, &end, 10);
    return *name != '\0' && *end == '\0' ? (uint32_t)number : if_nametoindex(name);
}

int address_parse(const char *text, int family, uint16_t port, union address *out) {
    char plain[INET6_ADDRSTRLEN];
    const char *scope = strchr(text, '%');
    size_t length = scope != NULL ? (size_t)(scope - text) : strlen(text);
    memset(out, 0, sizeof *out);
    if (length >= sizeof plain)
        return -EINVAL;
    memcpy(plain, text, length);
    plain[length] = '\0';
    if (family == AF_INET) {
        out->v4.sin_family = AF_INET;
        out->v4.sin_port = htons(port);
        return inet_pton(AF_INET, text, &out->v4.sin_addr) == 1 ? 0 : -EINVAL;
    }
    out->v6.sin6_family = AF_INET6;
    out->v6.sin6_port = htons(port);
    if (inet_pton(AF_INET6, plain, &out->v6.sin6_addr) != 1)
        return -EINVAL;
    if (scope == NULL)
        return 0;
    out->v6.sin6_scope_id = scope_of(scope + 1);
    return out->v6.sin6_scope_id == 0 ? -ENODEV : 0;
}

socklen_t address_length(const union address *address) {
    return address->any.sa_family == AF_INET ? sizeof address->v4 : sizeof address->v6;
}

void address_clean(uint8_t *slot, socklen_t length) {
    union address address;
    if (length > ADDRESS_SIZE)
        length = 0; /* another address family */
    memset(slot + length, 0, ADDRESS_SIZE - length);
    memcpy(&address, slot, sizeof address);
    if (address.any.sa_family != AF_INET6 || address.v6.sin6_flowinfo == 0)
        return;
    address.v6.sin6_flowinfo = 0;
    memcpy(slot, &address, sizeof address);
}

/* addressText(addresses, slot) → '192.0.2.1', '::1', 'fe80::1%eth0'; '' for anything else */
static napi_value address_text(napi_env env, napi_callback_info info) {
    char text[INET6_ADDRSTRLEN + 1 + IF_NAMESIZE] = "";
    napi_value args[2] = {NULL, NULL}, out;
    size_t count = 2;
    union address address;
    void *data;
    size_t bytes;
    int32_t slot;
    napi_get_cb_info(env, info, &count, args, NULL, NULL);
    if (addon_bytes(env, args[0], 0, &data, &bytes) && addon_number(env, args[1], &slot) && slot >= 0 &&
        (size_t)slot < bytes / ADDRESS_SIZE) {
        memcpy(&address, (uint8_t *)data + (size_t)slot * ADDRESS_SIZE, sizeof address);
        if (address.any.sa_family == AF_INET)
            inet_ntop(AF_INET, &address.v4.sin_addr, text, sizeof text);
        else if (address.any.sa_family == AF_INET6)
            inet_ntop(AF_INET6, &address.v6.sin6_addr, text, sizeof text);
        uint32_t scope = address.any.sa_family == AF_INET6 ? address.v6.sin6_scope_id : 0;
        if (scope != 0) {
            char name[IF_NAMESIZE];
            size_t used = strlen(text);
            if (if_indextoname(scope, name) != NULL)
                snprintf(text + used, sizeof text - used, "%%%s", name);
            else
                snprintf(text + used, sizeof text - used, "%%%u", scope);
        }
    }
    napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &out);
    return out;
}

void addon_address(napi_env env, napi_value exports) {
    addon_export_raw(env, exports, "addressText", address_text, NULL);
}
