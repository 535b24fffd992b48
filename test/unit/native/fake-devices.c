/*
 * Fake devices for the addon, preloaded before the C library (LD_PRELOAD), so that the same calls run with
 * sanitizers: /fake/spi inverts what it is sent, /fake/i2c has an EEPROM of 256 bytes at 0x50 and a full I2C adapter,
 * /fake/rs485 is a port that accepts every setting and switches the direction, but cannot receive its own bytes. All other calls go to
 * the kernel.
 */
#define _GNU_SOURCE
#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/i2c-dev.h>
#include <linux/i2c.h>
#include <linux/serial.h>
#include <linux/spi/spidev.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST = 1024 };
static char kinds[MOST]; /* by descriptor: s, i, r, or 0 */
static uint8_t eeprom[256], place;
static struct serial_rs485 direction;
static struct termios2 settings;

int open(const char *path, int flags, ...) {
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    va_list more;
    va_start(more, flags);
    int mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(more, int) : 0;
    va_end(more);
    if (strncmp(path, "/fake/", 6) != 0)
        return real(path, flags, mode);
    /* a file of its own: another program may lock a device */
    int fd = memfd_create(path, MFD_CLOEXEC);
    if (fd >= 0 && fd < MOST)
        kinds[fd] = path[6];
    return fd;
}

int close(int fd) {
    int (*real)(int) = dlsym(RTLD_NEXT, "close");
    if (fd >= 0 && fd < MOST)
        kinds[fd] = 0;
    return real(fd);
}

static int fail(int error) {
    errno = error;
    return -1;
}

static int spi(unsigned long request, void *argument) {
    int total = 0;
    if (_IOC_TYPE(request) != SPI_IOC_MAGIC)
        return fail(ENOTTY);
    if (_IOC_NR(request) != 0)
        return 0;
    struct spi_ioc_transfer *segments = argument;
    for (unsigned k = 0; k < _IOC_SIZE(request) / sizeof *segments; k++) {
        uint8_t *rx = (uint8_t *)(uintptr_t)segments[k].rx_buf;
        const uint8_t *tx = (const uint8_t *)(uintptr_t)segments[k].tx_buf;
        for (unsigned n = 0; rx != NULL && n < segments[k].len; n++)
            rx[n] = (uint8_t) ~(tx != NULL ? tx[n] : 0);
        total += (int)segments[k].len;
    }
    return total;
}

static int i2c(unsigned long request, void *argument) {
    if (request == I2C_FUNCS) {
        *(unsigned long *)argument = I2C_FUNC_I2C;
        return 0;
    }
    if (request != I2C_RDWR)
        return fail(ENOTTY);
    struct i2c_rdwr_ioctl_data *all = argument;
    for (unsigned k = 0; k < all->nmsgs; k++) {
        struct i2c_msg *message = &all->msgs[k];
        if (message->addr != 0x50)
            return fail(EREMOTEIO);
        for (unsigned n = 0; n < message->len; n++)
            if ((message->flags & I2C_M_RD) != 0)
                message->buf[n] = eeprom[place++];
            else if (n == 0)
                place = message->buf[n];
            else
                eeprom[place++] = message->buf[n];
    }
    return (int)all->nmsgs;
}

static int rs485(unsigned long request, void *argument) {
    switch (request) {
    case TIOCSRS485:
        direction = *(struct serial_rs485 *)argument;
        direction.flags &= ~(unsigned)SER_RS485_RX_DURING_TX;
        return 0;
    case TIOCGRS485:
        *(struct serial_rs485 *)argument = direction;
        return 0;
    case TCGETS2:
        *(struct termios2 *)argument = settings;
        return 0;
    case TCSETS2:
        settings = *(struct termios2 *)argument;
        return 0;
    case TCFLSH:
    case TIOCEXCL:
    case TIOCNXCL:
        return 0;
    default:
        return fail(ENOTTY);
    }
}

int ioctl(int fd, unsigned long request, ...) {
    int (*real)(int, unsigned long, ...) = dlsym(RTLD_NEXT, "ioctl");
    va_list more;
    va_start(more, request);
    void *argument = va_arg(more, void *);
    va_end(more);
    switch (fd >= 0 && fd < MOST ? kinds[fd] : 0) {
    case 's':
        return spi(request, argument);
    case 'i':
        return i2c(request, argument);
    case 'r':
        return rs485(request, argument);
    default:
        return real(fd, request, argument);
    }
}
