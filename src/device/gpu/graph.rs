//! Launches on a stream, and captured ones as a CUDA graph.

use std::ffi::c_void;
use std::fmt;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys;

use super::driver::{Function, Stream, driver};
use crate::device::{Error, PreparedLaunch, Replay};

/// Queues `launch` on `stream`.
pub(super) fn start(stream: &Stream, launch: &PreparedLaunch) -> Result<(), Error> {
    let function = launch
        .kernel
        .native
        .downcast_ref::<Function>()
        .ok_or_else(|| Error::Internal(format!("kernel {} was not loaded on a GPU", launch.kernel.meta().name)))?;
    let block = launch.params.as_bytes();
    // The driver takes one pointer for each parameter and copies the values before it returns.
    let mut params: Vec<*mut c_void> =
        launch.params.offsets().iter().map(|&offset| block[offset..].as_ptr().cast_mut().cast()).collect();
    let [grid_x, grid_y, grid_z] = launch.config.grid;
    let [block_x, block_y, block_z] = launch.config.block;
    let [x, y, z] = launch.config.cluster;
    let mut cluster = sys::CUlaunchAttribute {
        id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        pad: [0; 4],
        value: sys::CUlaunchAttributeValue { clusterDim: sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z } },
    };
    let config = sys::CUlaunchConfig {
        gridDimX: grid_x,
        gridDimY: grid_y,
        gridDimZ: grid_z,
        blockDimX: block_x,
        blockDimY: block_y,
        blockDimZ: block_z,
        sharedMemBytes: launch.config.shared,
        hStream: stream.raw(),
        attrs: &raw mut cluster,
        // Cards before Hopper know no clusters, so the attribute is left out where there is none.
        numAttrs: u32::from(launch.config.cluster != [1, 1, 1]),
    };
    let _entered = stream.context().enter()?;
    // SAFETY: the function is loaded in this context; the parameters' number and sizes are those of its metadata, and
    // their pointers are into a block that outlives the call. What the kernel does with them is the kernel's contract.
    unsafe { driver!(cuLaunchKernelEx(&raw const config, function.raw(), params.as_mut_ptr(), ptr::null_mut())) }
}

/// A plan as a CUDA graph.
pub(super) struct Graph {
    stream: Arc<Stream>,
    raw: sys::CUgraph,
    executable: sys::CUgraphExec,
    /// Held for as long as the graph names their memory and kernels.
    launches: Vec<PreparedLaunch>,
}

// SAFETY: the driver's graphs may move between threads; `replay` and `drop` take the graph alone.
unsafe impl Send for Graph {}

impl Graph {
    /// Captures `launches`; they will be replayed on `stream`.
    pub(super) fn capture(stream: &Arc<Stream>, launches: Vec<PreparedLaunch>) -> Result<Self, Error> {
        let mut graph =
            Self { stream: Arc::clone(stream), raw: ptr::null_mut(), executable: ptr::null_mut(), launches };
        if graph.launches.is_empty() {
            return Ok(graph);
        }
        let _entered = stream.context().enter()?;
        // A stream of its own, so that what other threads queue meanwhile is not captured with it.
        let capture = Stream::new(stream.context())?;
        // SAFETY: the stream is new and captures nothing yet.
        unsafe {
            driver!(cuStreamBeginCapture_v2(
                capture.raw(),
                sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
            ))?;
        }
        let queued = graph.launches.iter().try_for_each(|launch| start(&capture, launch));
        // SAFETY: the capture was begun on this stream by this thread; it is ended whatever happened in between.
        let ended = unsafe { driver!(cuStreamEndCapture(capture.raw(), &raw mut graph.raw)) };
        queued?;
        ended?;
        // SAFETY: the graph is complete; the driver writes one handle.
        unsafe { driver!(cuGraphInstantiateWithFlags(&raw mut graph.executable, graph.raw, 0))? };
        Ok(graph)
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Graph of {} launch(es)", self.launches.len())
    }
}

impl Replay for Graph {
    fn replay(&mut self) -> Result<(), Error> {
        if self.executable.is_null() {
            return Ok(());
        }
        let _entered = self.stream.context().enter()?;
        // SAFETY: instantiated above and alive; `&mut self` keeps other threads from it.
        unsafe { driver!(cuGraphLaunch(self.executable, self.stream.raw())) }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.raw.is_null() {
            return;
        }
        // A replay may still be running.
        let _ = self.stream.synchronize();
        let Ok(_entered) = self.stream.context().enter() else { return };
        // SAFETY: each handle was made once by `capture` and is destroyed once; nothing of it runs any more.
        unsafe {
            if !self.executable.is_null() {
                let _ = driver!(cuGraphExecDestroy(self.executable));
            }
            let _ = driver!(cuGraphDestroy(self.raw));
        }
    }
}
