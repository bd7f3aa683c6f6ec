/* Calls a generated launcher in every way that its test looks at. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "axpy.h"
#include "driver.h"

static CUstream stream = (CUstream)0x77;

static void call(CUdeviceptr x, int32_t n, unsigned grid_y) {
    axpy_error error;
    axpy_status status;
    memset(&error, 0, sizeof error);
    status = axpy(stream, 3, grid_y, 1, x, n, 0.5f, -5000000000LL, 0x3f80, 1, &error);
    printf("%s", axpy_status_name(status));
    if (status != AXPY_OK) printf(" %d %d %s", error.status == status, (int)error.driver, error.text);
    printf("\n");
}

static void *many(void *unused) {
    int i;
    for (i = 0; i < 1000; i++) {
        if (axpy_load(NULL) != AXPY_OK) printf("a thread failed\n");
    }
    return unused;
}

static void failing(const char *name, CUresult result) {
    fake_failure(name, result);
    call(0x1000, 32, 1);
    fake_failure("", CUDA_SUCCESS);
}

int main(void) {
    pthread_t threads[4];
    int i;
    call(0x1000, 32, 1);
    fake_context(0, 9, 0);
    call(0x1000, 32, 1);
    call(0x1000, 32, 2);
    call(0x1000, 33, 1);
    call(0x1008, 32, 1);
    call(0x1002, 32, 1);
    call(0x1000, 32, 0);
    fake_context(1, 8, 6);
    call(0x1000, 32, 1);
    call(0x1000, 33, 1);
    fake_context(0, 9, 0);
    call(0x1000, 32, 1);
    fake_context(2, 7, 5);
    call(0x1000, 32, 1);
    printf("%s\n", axpy_status_name(axpy_load(NULL)));
    fake_context(3, 12, 0);
    failing("cuModuleLoadData", CUDA_ERROR_INVALID_PTX);
    failing("cuModuleGetFunction", CUDA_ERROR_NOT_FOUND);
    failing("cuLaunchKernel", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    call(0x1000, 32, 1);
    printf("%s\n", axpy_status_name(axpy_unload(NULL)));
    for (i = 0; i < 4; i++) pthread_create(&threads[i], NULL, many, NULL);
    for (i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    fake_context(0, 9, 0);
    failing("cuFuncSetAttribute", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    printf("%s\n", axpy_status_name(axpy_unload(NULL)));
    failing("cuFuncSetAttribute", CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    fake_no_context();
    printf("%s\n", axpy_status_name(axpy_unload(NULL)));
    return 0;
}
