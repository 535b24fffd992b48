/* read DEVICE COUNT: reads register 0x42 of an SPI chip COUNT times, one ioctl each; µs per read to stdout. */
#include <fcntl.h>
#include <linux/spi/spidev.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>

int main(int count, char **arguments) {
    uint8_t tx[2] = {0x42, 0}, rx[2];
    struct spi_ioc_transfer one = {.tx_buf = (uintptr_t)tx, .rx_buf = (uintptr_t)rx, .len = 2};
    struct timespec from, to;
    int fd = count == 3 ? open(arguments[1], O_RDWR) : -1;
    if (fd < 0)
        return 1;
    int times = atoi(arguments[2]);
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int k = 0; k < times; k++)
        if (ioctl(fd, SPI_IOC_MESSAGE(1), &one) != 2 || rx[1] != 0x12)
            return 2;
    clock_gettime(CLOCK_MONOTONIC, &to);
    printf("%f\n", ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / 1e3 / times);
    return 0;
}
