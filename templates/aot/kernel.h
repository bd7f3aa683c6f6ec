/* @{ name }@: a launcher of @{ variants.len() }@ specialisation(s) over the CUDA driver API. Made by tilewright; do not edit. */
#ifndef @{ guard }@
#define @{ guard }@

#include <cuda.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a call came to. */
typedef enum @{ name }@_status {
    @{ upper }@_OK = 0,
    /* No specialisation takes these arguments: one of their alignments or divisors is asked for by each. */
    @{ upper }@_NO_SPECIALISATION = 1,
    /* No specialisation runs on the current device. */
    @{ upper }@_NO_TARGET = 2,
    /* The host is out of memory. */
    @{ upper }@_NO_MEMORY = 3,
    /* A call of the driver failed: see the error's `driver` and `text`. */
    @{ upper }@_DRIVER = 4
} @{ name }@_status;

/* What went wrong, in words; filled in where a call fails. */
typedef struct @{ name }@_error {
    @{ name }@_status status;
    CUresult driver;
    char text[512];
} @{ name }@_error;

/* `@{ upper }@_OK` and so on. */
const char *@{ name }@_status_name(@{ name }@_status status);

/* Loads every specialisation that runs on the device of the current context. A launch does it for the one it needs;
 * call this before a graph is captured. `error` may be null. */
@{ name }@_status @{ name }@_load(@{ name }@_error *error);

/* Unloads what was loaded in the current context, none of which may be running. `error` may be null. */
@{ name }@_status @{ name }@_unload(@{ name }@_error *error);

/* Launches the most special specialisation that takes the arguments, in the current context. A grid with an extent of 0
 * launches nothing. Any thread may call it. `error` may be null.
 *
 * Specialisations, in the order in which they are tried:
//%- for variant in variants %//
 *   @{ variant.index }@: @{ variant.arch }@, @{ variant.meta.num_warps }@ warp(s)@{ variant.promises() }@
//%- endfor %//
 */
@{ name }@_status @{ name }@(
    CUstream stream,
    unsigned grid_x,
    unsigned grid_y,
    unsigned grid_z,
//%- for param in params %//
    @{ param.ty }@ @{ param.name }@,
//%- endfor %//
    @{ name }@_error *error);

#ifdef __cplusplus
}
#endif

#endif
