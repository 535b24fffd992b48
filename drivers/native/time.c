/* The accuracy of the kernel's clock, as its time service (chrony, ntpd, systemd-timesyncd) reported it. Read only. */
#include "addon.h"

#include <string.h>
#include <sys/timex.h>

/* ntpState(Float64Array(4)) → the clock's state (0 … 5, TIME_OK … TIME_ERROR); fills offset µs, maxerror µs, esterror µs, status */
static int64_t ntp_state(napi_env env, napi_value *args) {
    void *data;
    size_t bytes;
    struct timex tx;
    if (!addon_bytes(env, args[0], sizeof(double), &data, &bytes) || bytes < 4 * sizeof(double))
        return -EINVAL;
    memset(&tx, 0, sizeof tx);
    int state = adjtimex(&tx);
    if (state < 0)
        return -errno;
    double out[4] = {(double)tx.offset / ((tx.status & STA_NANO) != 0 ? 1000.0 : 1.0), (double)tx.maxerror,
                     (double)tx.esterror, (double)tx.status};
    memcpy(data, out, sizeof out);
    return state;
}

void addon_time(napi_env env, napi_value exports) {
    addon_export(env, exports, "ntpState", ntp_state);
}
