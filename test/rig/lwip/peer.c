/*
 * A board with the lwIP stack (Debian's liblwip), for tests: peer slip DEVICE OWN PEER, or peer tap NAME OWN PEER; OWN and PEER
 * are IPv4 addresses. It listens at UDP port 8080 and prints each payload as a line of hex; a line of hex on its standard
 * input is sent to PEER's port 8080, and packets received by that socket are printed with `< ` before it.
 * The Debian library has no SLIP interface, so framing is in this file; IP, UDP and their checksums are lwIP's.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "lwip/api.h"
#include "lwip/ip4.h"
#include "lwip/netif.h"
#include "lwip/sys.h"
#include "lwip/tcpip.h"
#include "netif/tapif.h"

enum { END = 0xc0, ESC = 0xdb, ESC_END = 0xdc, ESC_ESC = 0xdd, MTU = 296, PORT = 8080 };
static int line;
static struct netif netif;
static struct netconn *server, *client;
static ip_addr_t peer;

static void put(const void *bytes, size_t size) {
    if (write(line, bytes, size) != (ssize_t)size)
        exit(3);
}

static err_t slip_output(struct netif *self, struct pbuf *p, const ip4_addr_t *to) {
    (void)self;
    (void)to;
    unsigned char out[2 * 1500 + 2];
    size_t at = 0;
    out[at++] = END;
    for (; p != NULL; p = p->next)
        for (unsigned k = 0; k < p->len; k++) {
            unsigned char byte = ((unsigned char *)p->payload)[k];
            if (byte == END || byte == ESC) {
                out[at++] = ESC;
                out[at++] = byte == END ? ESC_END : ESC_ESC;
            } else
                out[at++] = byte;
        }
    out[at++] = END;
    put(out, at);
    return ERR_OK;
}

static void slip_read(void *unused) {
    (void)unused;
    unsigned char frame[1500], byte;
    size_t used = 0;
    int escaped = 0;
    while (read(line, &byte, 1) == 1) {
        if (byte == END) {
            struct pbuf *p = used > 0 ? pbuf_alloc(PBUF_LINK, used, PBUF_POOL) : NULL;
            if (p != NULL && pbuf_take(p, frame, used) == ERR_OK && netif.input(p, &netif) != ERR_OK)
                pbuf_free(p);
            used = 0;
        } else if (byte == ESC) {
            escaped = 1;
            continue;
        } else if (used < sizeof frame)
            frame[used++] = !escaped ? byte : byte == ESC_END ? END : ESC;
        escaped = 0;
    }
    exit(4);
}

static err_t slip_init(struct netif *self) {
    self->name[0] = 's';
    self->name[1] = 'l';
    self->mtu = MTU;
    self->output = slip_output;
    self->flags = NETIF_FLAG_LINK_UP;
    sys_thread_new("slip", slip_read, NULL, DEFAULT_THREAD_STACKSIZE, DEFAULT_THREAD_PRIO);
    return ERR_OK;
}

static void print_all(void *data) {
    struct netconn *from = data;
    struct netbuf *buf;
    while (netconn_recv(from, &buf) == ERR_OK) {
        void *bytes;
        u16_t size;
        netbuf_data(buf, &bytes, &size);
        flockfile(stdout);
        if (from == client)
            printf("< ");
        for (unsigned k = 0; k < size; k++)
            printf("%02x", ((unsigned char *)bytes)[k]);
        printf("\n");
        fflush(stdout);
        funlockfile(stdout);
        netbuf_delete(buf);
    }
}

static struct netconn *bound(u16_t port) {
    struct netconn *conn = netconn_new(NETCONN_UDP);
    if (conn == NULL || netconn_bind(conn, IP4_ADDR_ANY, port) != ERR_OK)
        exit(5);
    sys_thread_new("receive", print_all, conn, DEFAULT_THREAD_STACKSIZE, DEFAULT_THREAD_PRIO);
    return conn;
}

static sys_sem_t started;
static int is_tap;
static ip4_addr_t own, mask, gateway;

static void start(void *unused) {
    (void)unused;
    netif_add(&netif, &own, &mask, &gateway, NULL, is_tap ? tapif_init : slip_init, tcpip_input);
    netif_set_default(&netif);
    netif_set_link_up(&netif);
    netif_set_up(&netif);
    sys_sem_signal(&started);
}

int main(int count, char **words) {
    if (count != 5 || !ip4addr_aton(words[3], &own) || !ip4addr_aton(words[4], ip_2_ip4(&peer)))
        return 2;
    IP_SET_TYPE(&peer, IPADDR_TYPE_V4);
    is_tap = strcmp(words[1], "tap") == 0;
    IP4_ADDR(&mask, 255, 255, 255, 0);
    gateway = *ip_2_ip4(&peer);
    if (is_tap)
        setenv("PRECONFIGURED_TAPIF", words[2], 1);
    else {
        struct termios raw;
        line = open(words[2], O_RDWR | O_NOCTTY);
        if (line < 0 || tcgetattr(line, &raw) < 0)
            return 3;
        cfmakeraw(&raw);
        tcsetattr(line, TCSANOW, &raw);
    }
    sys_sem_new(&started, 0);
    tcpip_init(start, NULL);
    sys_sem_wait(&started);
    server = bound(PORT);
    client = bound(0);
    puts("ready");
    fflush(stdout);
    char text[4096];
    while (fgets(text, sizeof text, stdin) != NULL) {
        unsigned char bytes[2048];
        unsigned size = 0, byte;
        while (sscanf(text + 2 * size, "%2x", &byte) == 1)
            bytes[size++] = byte;
        struct netbuf *buf = netbuf_new();
        memcpy(netbuf_alloc(buf, size), bytes, size);
        err_t sent = netconn_sendto(client, buf, &peer, PORT);
        if (sent != ERR_OK)
            fprintf(stderr, "lwip: %d\n", sent);
        netbuf_delete(buf);
    }
    return 0;
}
