/*
 * A serial port that can switch the direction of an RS485 transceiver, preloaded before the C library (LD_PRELOAD): every terminal
 * accepts TIOCSRS485 and stores it, as a UART's driver does. FAKE_RS485=off is a driver that accepts the call and leaves it
 * off, "turned" one with only one level of RTS, "hasty" one without delays. All other calls go to the kernel.
 */
#define _GNU_SOURCE
#include <asm/ioctls.h>
#include <dlfcn.h>
#include <linux/serial.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct serial_rs485 direction;

int ioctl(int fd, unsigned long request, ...) {
    int (*real)(int, unsigned long, ...) = dlsym(RTLD_NEXT, "ioctl");
    const char *how = getenv("FAKE_RS485");
    va_list more;
    va_start(more, request);
    void *argument = va_arg(more, void *);
    va_end(more);
    if (request != TIOCSRS485 && request != TIOCGRS485)
        return real(fd, request, argument);
    if (request == TIOCGRS485) {
        memcpy(argument, &direction, sizeof direction);
        return 0;
    }
    memcpy(&direction, argument, sizeof direction);
    if (how != NULL && strcmp(how, "off") == 0)
        direction.flags &= ~(unsigned)SER_RS485_ENABLED;
    if (how != NULL && strcmp(how, "turned") == 0)
        direction.flags ^= SER_RS485_RTS_ON_SEND | SER_RS485_RTS_AFTER_SEND;
    if (how != NULL && strcmp(how, "hasty") == 0)
        direction.delay_rts_before_send = direction.delay_rts_after_send = 0;
    return 0;
}
