/* @{ name }@: see @{ name }@.h. Made by tilewright; do not edit. */
#include "@{ name }@.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef _WIN32
#include <windows.h>
static SRWLOCK tw_mutex = SRWLOCK_INIT;
static void tw_lock(void) { AcquireSRWLockExclusive(&tw_mutex); }
static void tw_unlock(void) { ReleaseSRWLockExclusive(&tw_mutex); }
#else
#include <pthread.h>
static pthread_mutex_t tw_mutex = PTHREAD_MUTEX_INITIALIZER;
static void tw_lock(void) { pthread_mutex_lock(&tw_mutex); }
static void tw_unlock(void) { pthread_mutex_unlock(&tw_mutex); }
#endif

enum { TW_VARIANTS = @{ variants.len() }@ };
//% for variant in variants %//
/* Specialisation @{ variant.index }@. */
static const char tw_ptx_@{ variant.index }@[] =
//%- for line in variant.lines %//
    "@{ line }@\n"
//%- endfor %//
    ;
//% endfor %//
typedef struct {
    const char *ptx;
    const char *entry;
    /* Compute capability; any later one will do where `exact` is 0. */
    int major, minor, exact;
    unsigned threads;
    unsigned shared;
} tw_variant;

static const tw_variant tw_variants[TW_VARIANTS] = {
//%- for variant in variants %//
    {tw_ptx_@{ variant.index }@, "@{ variant.meta.name }@", @{ variant.major() }@, @{ variant.minor() }@, @{ variant.exact() }@, @{ variant.meta.num_warps * 32 }@, @{ variant.meta.shared }@},
//%- endfor %//
};

/* What is loaded in one context. Contexts are told apart by their number: an address may be used again. */
typedef struct tw_context {
    unsigned long long id;
    int major, minor;
    CUmodule modules[TW_VARIANTS];
    CUfunction functions[TW_VARIANTS];
    struct tw_context *next;
} tw_context;

static tw_context *tw_contexts;

const char *@{ name }@_status_name(@{ name }@_status status) {
    switch (status) {
    case @{ upper }@_OK: return "@{ upper }@_OK";
    case @{ upper }@_NO_SPECIALISATION: return "@{ upper }@_NO_SPECIALISATION";
    case @{ upper }@_NO_TARGET: return "@{ upper }@_NO_TARGET";
    case @{ upper }@_NO_MEMORY: return "@{ upper }@_NO_MEMORY";
    case @{ upper }@_DRIVER: return "@{ upper }@_DRIVER";
    }
    return "unknown status";
}

static @{ name }@_status tw_fail(@{ name }@_error *error, @{ name }@_status status, const char *text) {
    if (error) {
        error->status = status;
        error->driver = CUDA_SUCCESS;
        snprintf(error->text, sizeof error->text, "@{ name }@: %s", text);
    }
    return status;
}

static @{ name }@_status tw_driver(@{ name }@_error *error, CUresult result, const char *call) {
    if (error) {
        const char *code = NULL, *text = NULL;
        if (cuGetErrorName(result, &code) != CUDA_SUCCESS || !code) code = "unknown error";
        if (cuGetErrorString(result, &text) != CUDA_SUCCESS || !text) text = "no description";
        error->status = @{ upper }@_DRIVER;
        error->driver = result;
        snprintf(error->text, sizeof error->text, "@{ name }@: %s: %s (%s)", call, code, text);
    }
    return @{ upper }@_DRIVER;
}

#define TW_TRY(call, name) \
    do { \
        CUresult tw_result = (call); \
        if (tw_result != CUDA_SUCCESS) return tw_driver(error, tw_result, name); \
    } while (0)

/* The entry of the current context, made where there is none. The lock is held. */
static @{ name }@_status tw_current(tw_context **found, @{ name }@_error *error) {
    CUcontext context = NULL;
    CUdevice device;
    unsigned long long id = 0;
    tw_context *entry;
    TW_TRY(cuCtxGetCurrent(&context), "cuCtxGetCurrent");
    if (!context) return tw_driver(error, CUDA_ERROR_INVALID_CONTEXT, "no context is current");
    TW_TRY(cuCtxGetId(context, &id), "cuCtxGetId");
    for (entry = tw_contexts; entry; entry = entry->next) {
        if (entry->id == id) {
            *found = entry;
            return @{ upper }@_OK;
        }
    }
    int major = 0, minor = 0;
    TW_TRY(cuCtxGetDevice(&device), "cuCtxGetDevice");
    TW_TRY(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device), "cuDeviceGetAttribute");
    TW_TRY(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device), "cuDeviceGetAttribute");
    entry = calloc(1, sizeof *entry);
    if (!entry) return tw_fail(error, @{ upper }@_NO_MEMORY, "out of memory");
    entry->id = id;
    entry->major = major;
    entry->minor = minor;
    entry->next = tw_contexts;
    tw_contexts = entry;
    *found = entry;
    return @{ upper }@_OK;
}

static int tw_runs(const tw_variant *variant, const tw_context *context) {
    if (variant->exact) return context->major == variant->major && context->minor == variant->minor;
    return context->major > variant->major || (context->major == variant->major && context->minor >= variant->minor);
}

/* Loads one specialisation into a context that is current. The lock is held. */
static @{ name }@_status tw_load(tw_context *context, int index, @{ name }@_error *error) {
    const tw_variant *variant = &tw_variants[index];
    CUmodule module;
    CUfunction function;
    CUresult result;
    if (context->functions[index]) return @{ upper }@_OK;
    TW_TRY(cuModuleLoadData(&module, variant->ptx), "cuModuleLoadData");
    result = cuModuleGetFunction(&function, module, variant->entry);
    if (result != CUDA_SUCCESS) {
        cuModuleUnload(module);
        return tw_driver(error, result, "cuModuleGetFunction");
    }
    /* More than 48 KiB of dynamic shared memory must be asked for. */
    if (variant->shared > 48 * 1024) {
        result = cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)variant->shared);
        if (result != CUDA_SUCCESS) {
            cuModuleUnload(module);
            return tw_driver(error, result, "cuFuncSetAttribute");
        }
    }
    context->modules[index] = module;
    context->functions[index] = function;
    return @{ upper }@_OK;
}

@{ name }@_status @{ name }@_load(@{ name }@_error *error) {
    tw_context *context;
    @{ name }@_status status;
    int index, any = 0;
    tw_lock();
    status = tw_current(&context, error);
    for (index = 0; status == @{ upper }@_OK && index < TW_VARIANTS; index++) {
        if (!tw_runs(&tw_variants[index], context)) continue;
        any = 1;
        status = tw_load(context, index, error);
    }
    tw_unlock();
    if (status == @{ upper }@_OK && !any) {
        return tw_fail(error, @{ upper }@_NO_TARGET, "no specialisation runs on the current device");
    }
    return status;
}

@{ name }@_status @{ name }@_unload(@{ name }@_error *error) {
    tw_context *context, **link;
    @{ name }@_status status;
    int index;
    tw_lock();
    status = tw_current(&context, error);
    if (status == @{ upper }@_OK) {
        for (index = 0; index < TW_VARIANTS; index++) {
            CUresult result = context->modules[index] ? cuModuleUnload(context->modules[index]) : CUDA_SUCCESS;
            if (result != CUDA_SUCCESS) status = tw_driver(error, result, "cuModuleUnload");
        }
        for (link = &tw_contexts; *link != context; link = &(*link)->next) {}
        *link = context->next;
        free(context);
    }
    tw_unlock();
    return status;
}

@{ name }@_status @{ name }@(
    CUstream stream,
    unsigned grid_x,
    unsigned grid_y,
    unsigned grid_z,
//%- for param in params %//
    @{ param.ty }@ @{ param.name }@,
//%- endfor %//
    @{ name }@_error *error) {
    /* Whether each specialisation takes the arguments. */
    const int tw_takes[TW_VARIANTS] = {
//%- for variant in variants %//
        @{ variant.condition }@,
//%- endfor %//
    };
    tw_context *tw_here;
    CUfunction tw_function = NULL;
    @{ name }@_status tw_status;
    int tw_index, tw_any = 0, tw_chosen = -1;
    if (grid_x == 0 || grid_y == 0 || grid_z == 0) return @{ upper }@_OK;
    tw_lock();
    tw_status = tw_current(&tw_here, error);
    for (tw_index = 0; tw_status == @{ upper }@_OK && tw_chosen < 0 && tw_index < TW_VARIANTS; tw_index++) {
        if (!tw_runs(&tw_variants[tw_index], tw_here)) continue;
        tw_any = 1;
        if (!tw_takes[tw_index]) continue;
        tw_chosen = tw_index;
        tw_status = tw_load(tw_here, tw_index, error);
        tw_function = tw_here->functions[tw_index];
    }
    tw_unlock();
    if (tw_status != @{ upper }@_OK) return tw_status;
    if (!tw_any) return tw_fail(error, @{ upper }@_NO_TARGET, "no specialisation runs on the current device");
    if (tw_chosen < 0) {
        return tw_fail(error, @{ upper }@_NO_SPECIALISATION, "no specialisation takes these arguments; each needs:@{ needs }@");
    }
//%- if scratch %//
    /* The pointers of the global and of the profiling scratch, of which the kernel has none. */
    CUdeviceptr tw_global_scratch = 0, tw_profile_scratch = 0;
//%- endif %//
    void *tw_args[] = {
//%- for param in params %//
        &@{ param.name }@,
//%- endfor %//
//%- if scratch %//
        &tw_global_scratch,
        &tw_profile_scratch,
//%- endif %//
    };
    TW_TRY(cuLaunchKernel(tw_function, grid_x, grid_y, grid_z, tw_variants[tw_chosen].threads, 1, 1, tw_variants[tw_chosen].shared, stream, tw_args, NULL), "cuLaunchKernel");
    return @{ upper }@_OK;
}
