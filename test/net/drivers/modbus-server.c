/* A Modbus slave with libmodbus for the tests: third-party code at the other end.
   modbus-server tcp PORT | rtu DEVICE SLAVE
   Holding register n holds n * 3, input register n holds 1000 + n, coil n is on where n is even, discrete input n where n
   divides by three; 200 of each. Whoever reads holding register 150 waits 700 ms for the answer; reading 151 ends the
   connection. Holding registers 100..103 hold 123.456 as f32 ABCD and CDAB. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <modbus.h>
#include <poll.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#define COUNT 200

static int asks_for(const uint8_t *query, int offset, int address) {
  int first = query[offset + 1] << 8 | query[offset + 2];
  int count = query[offset + 3] << 8 | query[offset + 4];
  return query[offset] == 3 && address >= first && address < first + count;
}

/* libmodbus takes the bytes after a request to another slave for that slave's answer, and so loses the next request when the
   other one is dead. So requests to others are filtered out here. Returns the name of the terminal that it should use. */
static const char *behind_a_filter(const char *device, int slave) {
  static char name[64];
  int inner, outer = open(device, O_RDWR | O_NOCTTY), terminal;
  if (outer < 0 || openpty(&inner, &terminal, name, NULL, NULL)) return NULL;
  struct termios raw;
  tcgetattr(terminal, &raw);
  cfmakeraw(&raw);
  tcsetattr(terminal, TCSANOW, &raw);
  if (fork() == 0) {
    close(inner);
    return name;
  }
  uint8_t bytes[256];
  int length = 0;
  struct pollfd wait[2] = {{outer, POLLIN, 0}, {inner, POLLIN, 0}};
  for (;;) {
    int ready = poll(wait, 2, 10);
    if (wait[0].revents & POLLIN) length += read(outer, bytes + length, sizeof bytes - length);
    if (length >= 8 || (ready == 0 && length > 0)) {
      if ((bytes[0] == slave || length != 8) && write(inner, bytes, length) != length) _exit(1);
      length = 0;
    }
    if (wait[1].revents & POLLIN) {
      uint8_t answer[256];
      int size = read(inner, answer, sizeof answer);
      if (size <= 0 || write(outer, answer, size) != size) _exit(0);
    }
    if ((wait[0].revents | wait[1].revents) & (POLLHUP | POLLERR)) _exit(0);
  }
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  int tcp = strcmp(argv[1], "tcp") == 0;
  const char *device = tcp ? argv[2] : behind_a_filter(argv[2], atoi(argv[3]));
  if (!device) return 1;
  modbus_t *bus = tcp ? modbus_new_tcp("127.0.0.1", atoi(device)) : modbus_new_rtu(device, 19200, 'N', 8, 1);
  modbus_mapping_t *map = modbus_mapping_new(COUNT, COUNT, COUNT, COUNT);
  if (!bus || !map) return 1;
  for (int n = 0; n < COUNT; n++) {
    map->tab_bits[n] = n % 2 == 0;
    map->tab_input_bits[n] = n % 3 == 0;
    map->tab_registers[n] = n * 3;
    map->tab_input_registers[n] = 1000 + n;
  }
  map->tab_registers[100] = map->tab_registers[103] = 0x42f6;
  map->tab_registers[101] = map->tab_registers[102] = 0xe979;
  int listening = -1;
  if (tcp) {
    listening = modbus_tcp_listen(bus, 1);
    if (listening < 0) return 1;
  } else if (modbus_set_slave(bus, atoi(argv[3])) || modbus_connect(bus))
    return 1;
  puts("ready");
  fflush(stdout);
  int header = modbus_get_header_length(bus);
  uint8_t query[MODBUS_TCP_MAX_ADU_LENGTH];
  for (;;) {
    if (tcp && modbus_tcp_accept(bus, &listening) < 0) return 1;
    for (;;) {
      int length = modbus_receive(bus, query);
      if (length < 0 && tcp) break;
      if (length <= 0) {
        if (length < 0 && (errno == EIO || errno == ENODEV || errno == EBADF || errno == ECONNRESET)) return 0;
        continue;
      }
      if (asks_for(query, header, 151)) break;
      if (asks_for(query, header, 150)) usleep(700000);
      modbus_reply(bus, query, length, map);
    }
    modbus_close(bus);
    if (!tcp) return 0;
  }
}
