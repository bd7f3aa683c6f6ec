/* A driver that runs nothing: it prints what it is asked for, so that a test can compare it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "driver.h"

struct CUctx_st {
    unsigned long long id;
    int major, minor;
};
struct CUmod_st {
    char first_line[64];
};
struct CUfunc_st {
    CUmodule module;
};

static struct CUctx_st contexts[4];
static CUcontext current;
static const char *failing = "";
static CUresult failure;

void fake_context(int number, int major, int minor) {
    contexts[number].id = (unsigned long long)number + 100;
    contexts[number].major = major;
    contexts[number].minor = minor;
    current = &contexts[number];
    printf("context %d: %d.%d\n", number, major, minor);
}

void fake_no_context(void) { current = NULL; }

void fake_failure(const char *call, CUresult result) {
    failing = call;
    failure = result;
}

#define CALL(name) \
    if (strcmp(failing, name) == 0) return failure

CUresult cuGetErrorName(CUresult error, const char **text) {
    *text = error == CUDA_ERROR_INVALID_PTX ? "CUDA_ERROR_INVALID_PTX" : error == CUDA_ERROR_INVALID_CONTEXT ? "CUDA_ERROR_INVALID_CONTEXT" : "CUDA_ERROR_OTHER";
    return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
    (void)error;
    *text = "a description";
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context) {
    CALL("cuCtxGetCurrent");
    *context = current;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long *id) {
    CALL("cuCtxGetId");
    *id = context->id;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
    CALL("cuCtxGetDevice");
    *device = (CUdevice)(current - contexts);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    CALL("cuDeviceGetAttribute");
    *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? contexts[device].major : contexts[device].minor;
    return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    CALL("cuModuleLoadData");
    *module = calloc(1, sizeof **module);
    snprintf((*module)->first_line, sizeof (*module)->first_line, "%.*s", (int)strcspn(image, "\n"), (const char *)image);
    printf("load %s (%zu bytes)\n", (*module)->first_line, strlen(image));
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
    CALL("cuModuleUnload");
    printf("unload %s\n", module->first_line);
    free(module);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    CALL("cuModuleGetFunction");
    printf("function %s\n", name);
    *function = calloc(1, sizeof **function);
    (*function)->module = module;
    return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    CALL("cuFuncSetAttribute");
    printf("attribute %d of %s = %d\n", (int)attribute, function->module->first_line, value);
    return CUDA_SUCCESS;
}

/* The arguments are those of the test's kernel: *fp32 x, i32 n, fp32 a, i64 stride, bf16 b, u8 flag, two scratch pointers. */
CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void **args, void **extra) {
    CALL("cuLaunchKernel");
    printf("launch %s grid %u %u %u block %u %u %u shared %u stream %lx args %llx %d %g %lld %x %d scratch %llx %llx%s\n",
           function->module->first_line, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared,
           (unsigned long)(uintptr_t)stream, *(CUdeviceptr *)args[0], *(int32_t *)args[1], *(float *)args[2],
           (long long)*(int64_t *)args[3], *(uint16_t *)args[4], *(uint8_t *)args[5], *(CUdeviceptr *)args[6],
           *(CUdeviceptr *)args[7], extra ? " extra" : "");
    return CUDA_SUCCESS;
}
