/* I2C by the kernel's i2c-dev: one write, one read, or a write and a read without a stop in between. For an adapter
 * that supports only SMBus, the SMBus calls with the same bytes on the wire are used; without a matching call the
 * result is -EOPNOTSUPP. */
#define _GNU_SOURCE
#include "bus.h"

#include <fcntl.h>
#include <linux/i2c-dev.h>
#include <linux/i2c.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { ADDRESS, WRITES, WRITE_LENGTH, READS, READ_LENGTH };

/* The result is the adapter's functions (I2C_FUNC_…). */
static int64_t open_device(int *fd, struct bus_job *job) {
    unsigned long functions = 0;
    int opened = open((const char *)job->bytes, O_RDWR | O_CLOEXEC);
    if (opened < 0)
        return -errno;
    if (ioctl(opened, I2C_FUNCS, &functions) < 0) {
        int error = errno;
        close(opened);
        return -error;
    }
    *fd = opened;
    return (int64_t)(uint32_t)functions;
}

static int64_t plain(int fd, struct bus_job *job) {
    struct i2c_msg messages[2];
    struct i2c_rdwr_ioctl_data all = {.msgs = messages};
    const uint32_t *words = job->words;
    if (words[WRITES] != 0)
        messages[all.nmsgs++] =
            (struct i2c_msg){.addr = (uint16_t)words[ADDRESS], .len = (uint16_t)words[WRITE_LENGTH], .buf = job->bytes};
    if (words[READS] != 0)
        messages[all.nmsgs++] = (struct i2c_msg){.addr = (uint16_t)words[ADDRESS],
                                                 .flags = I2C_M_RD,
                                                 .len = (uint16_t)words[READ_LENGTH],
                                                 .buf = job->bytes + words[WRITE_LENGTH]};
    return ioctl(fd, I2C_RDWR, &all) < 0 ? -errno : (int64_t)words[READ_LENGTH];
}

static int smbus(int fd, uint8_t way, uint8_t command, uint32_t size, union i2c_smbus_data *data) {
    struct i2c_smbus_ioctl_data call = {.read_write = way, .command = command, .size = size, .data = data};
    return ioctl(fd, I2C_SMBUS, &call) < 0 ? -errno : 0;
}

static int smbus_write(int fd, unsigned long can, const uint8_t *bytes, size_t length) {
    union i2c_smbus_data data;
    if (length == 1 && (can & I2C_FUNC_SMBUS_WRITE_BYTE) != 0)
        return smbus(fd, I2C_SMBUS_WRITE, bytes[0], I2C_SMBUS_BYTE, NULL);
    if (length == 2 && (can & I2C_FUNC_SMBUS_WRITE_BYTE_DATA) != 0) {
        data.byte = bytes[1];
        return smbus(fd, I2C_SMBUS_WRITE, bytes[0], I2C_SMBUS_BYTE_DATA, &data);
    }
    if (length == 3 && (can & I2C_FUNC_SMBUS_WRITE_WORD_DATA) != 0) {
        data.word = (uint16_t)(bytes[1] | bytes[2] << 8);
        return smbus(fd, I2C_SMBUS_WRITE, bytes[0], I2C_SMBUS_WORD_DATA, &data);
    }
    if (length < 2 || length > I2C_SMBUS_BLOCK_MAX + 1 || (can & I2C_FUNC_SMBUS_WRITE_I2C_BLOCK) == 0)
        return -EOPNOTSUPP;
    data.block[0] = (uint8_t)(length - 1);
    memcpy(data.block + 1, bytes + 1, length - 1);
    return smbus(fd, I2C_SMBUS_WRITE, bytes[0], I2C_SMBUS_I2C_BLOCK_DATA, &data);
}

/* `command` NULL: a plain read */
static int smbus_read(int fd, unsigned long can, const uint8_t *command, uint8_t *bytes, size_t length) {
    union i2c_smbus_data data;
    int result;
    if (length == 1 && (can & (command == NULL ? I2C_FUNC_SMBUS_READ_BYTE : I2C_FUNC_SMBUS_READ_BYTE_DATA)) != 0) {
        result = smbus(fd, I2C_SMBUS_READ, command == NULL ? 0 : *command,
                       command == NULL ? I2C_SMBUS_BYTE : I2C_SMBUS_BYTE_DATA, &data);
        bytes[0] = data.byte;
    } else if (command == NULL)
        return -EOPNOTSUPP;
    else if (length == 2 && (can & I2C_FUNC_SMBUS_READ_WORD_DATA) != 0) {
        result = smbus(fd, I2C_SMBUS_READ, *command, I2C_SMBUS_WORD_DATA, &data);
        bytes[0] = (uint8_t)data.word;
        bytes[1] = (uint8_t)(data.word >> 8);
    } else if (length > 0 && length <= I2C_SMBUS_BLOCK_MAX && (can & I2C_FUNC_SMBUS_READ_I2C_BLOCK) != 0) {
        data.block[0] = (uint8_t)length;
        result = smbus(fd, I2C_SMBUS_READ, *command, I2C_SMBUS_I2C_BLOCK_DATA, &data);
        if (result == 0 && data.block[0] != length)
            result = -EIO;
        memcpy(bytes, data.block + 1, length);
    } else
        return -EOPNOTSUPP;
    return result;
}

static int64_t transfer(int *fd, struct bus_job *job) {
    unsigned long can = 0;
    const uint32_t *words = job->words;
    if (*fd < 0 || ioctl(*fd, I2C_FUNCS, &can) < 0)
        return *fd < 0 ? -EBADF : -errno;
    if ((can & I2C_FUNC_I2C) != 0)
        return plain(*fd, job);
    if (ioctl(*fd, I2C_SLAVE, (unsigned long)words[ADDRESS]) < 0)
        return -errno;
    if (words[READS] == 0) {
        int result = smbus_write(*fd, can, job->bytes, words[WRITE_LENGTH]);
        return result < 0 ? result : 0;
    }
    if (words[WRITES] != 0 && words[WRITE_LENGTH] != 1)
        return -EOPNOTSUPP;
    int result = smbus_read(*fd, can, words[WRITES] != 0 ? job->bytes : NULL, job->bytes + words[WRITE_LENGTH],
                            words[READ_LENGTH]);
    return result < 0 ? result : (int64_t)words[READ_LENGTH];
}

/* i2cOpen(bus, path) → job; its result is the adapter's functions */
static int64_t i2c_open(napi_env env, napi_value *args) {
    int error;
    struct bus_job *job = bus_take_path(env, args[0], args[1], &error);
    return job == NULL ? error : bus_queue(env, args[0], job, open_device);
}

/* i2cTransfer(bus, address, write: Uint8Array | null, readLength) → job; readLength -1: no read. The answer is the
 * bytes read, the result their number. */
static int64_t i2c_transfer(napi_env env, napi_value *args) {
    void *write = NULL;
    size_t length = 0;
    int32_t address, read;
    int error;
    bool writes = addon_bytes(env, args[2], 1, &write, &length);
    if (!addon_number(env, args[1], &address) || address < 0 || address > 0x7f || !addon_number(env, args[3], &read) ||
        (!writes && read < 0) || length > UINT16_MAX || read > UINT16_MAX)
        return -EINVAL;
    size_t answer = read < 0 ? 0 : (size_t)read;
    struct bus_job *job = bus_take(env, args[0], length + answer, &error);
    if (job == NULL)
        return error;
    job->words[ADDRESS] = (uint32_t)address;
    job->words[WRITES] = writes ? 1 : 0;
    job->words[WRITE_LENGTH] = (uint32_t)length;
    job->words[READS] = read >= 0 ? 1 : 0;
    job->words[READ_LENGTH] = (uint32_t)answer;
    if (length > 0)
        memcpy(job->bytes, write, length);
    if (answer > 0)
        memset(job->bytes + length, 0, answer);
    job->answer_at = length;
    job->answer_length = answer;
    return bus_queue(env, args[0], job, transfer);
}

void addon_i2c(napi_env env, napi_value exports) {
    addon_export(env, exports, "i2cOpen", i2c_open);
    addon_export(env, exports, "i2cTransfer", i2c_transfer);
}
