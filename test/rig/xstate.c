/* Preloaded by test/rig/run. The rig's kernel keeps 2,696 bytes of extended processor state for each of its processes. A host whose processor has
 * more (AMX: 11 KB) takes only all of it: PTRACE_SETREGSET answers EFAULT to less. What is missing is then that of the process itself. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static uint8_t whole[1 << 16];

static long set_state(pid_t pid, const struct iovec *given) {
    struct iovec state = {whole, sizeof whole};
    if (syscall(SYS_ptrace, PTRACE_GETREGSET, pid, NT_X86_XSTATE, &state) < 0)
        return -1;
    memcpy(whole, given->iov_base, given->iov_len < state.iov_len ? given->iov_len : state.iov_len);
    return syscall(SYS_ptrace, PTRACE_SETREGSET, pid, NT_X86_XSTATE, &state);
}

long ptrace(enum __ptrace_request request, ...) {
    va_list args;
    va_start(args, request);
    pid_t pid = va_arg(args, pid_t);
    uintptr_t address = va_arg(args, uintptr_t);
    void *data = va_arg(args, void *);
    va_end(args);
    if (request == PTRACE_SETREGSET && address == NT_X86_XSTATE)
        return set_state(pid, data);
    /* the system call stores what a peek reads */
    int peeks = request == PTRACE_PEEKTEXT || request == PTRACE_PEEKDATA || request == PTRACE_PEEKUSER;
    long word;
    long result = syscall(SYS_ptrace, request, pid, address, peeks ? &word : data);
    if (!peeks || result < 0)
        return result;
    errno = 0;
    return word;
}
