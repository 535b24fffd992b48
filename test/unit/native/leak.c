/* A module that leaks memory, so that a test knows that leaks are found. */
#include <node_api.h>
#include <stdlib.h>

NAPI_MODULE_INIT() {
    (void)env;
    volatile char *forgotten = malloc(77);
    forgotten[0] = 1;
    forgotten = NULL;
    return exports;
}
