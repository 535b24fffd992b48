/* Settings for freed memory in the C library. */
#include "addon.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

/* limitMalloc(arenas, keptBytes): limits the number of heaps that threads share; free memory beyond `keptBytes` is
 * returned to the kernel, blocks of at least that size immediately. -ENOSYS if the C library has no such setting. */
static int64_t limit_malloc(napi_env env, napi_value *args) {
    int32_t arenas, kept;
    if (!addon_number(env, args[0], &arenas) || !addon_number(env, args[1], &kept) || arenas < 1 || kept < 4096)
        return -EINVAL;
#ifdef __GLIBC__
    int done = mallopt(M_ARENA_MAX, arenas) & mallopt(M_TRIM_THRESHOLD, kept) & mallopt(M_MMAP_THRESHOLD, kept);
    return done ? 0 : -EINVAL;
#else
    return -ENOSYS;
#endif
}

/* trimMalloc() → 1 when unused pages were returned to the kernel, else 0. */
static int64_t trim_malloc(napi_env env, napi_value *args) {
#ifdef __GLIBC__
    return malloc_trim(0);
#else
    return 0;
#endif
}

void addon_memory(napi_env env, napi_value exports) {
    addon_export(env, exports, "limitMalloc", limit_malloc);
    addon_export(env, exports, "trimMalloc", trim_malloc);
}
