//! The driver: whether it is there, its errors, and the few handles that we own.
//!
//! All calls of the driver library stand in this folder. `cudarc` panics where the library is missing, so [`present`]
//! is asked before the first call, by [`count`], which [`Context::open`] calls; every other type here is made from a
//! `Context`.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys;

use crate::device::Error;

/// The oldest driver whose interface we use (`cuLaunchKernelEx`): CUDA 11.8.
const OLDEST_DRIVER: c_int = 11_080;
/// Bytes of each of the JIT's log buffers.
const LOG_BYTES: usize = 16 * 1024;

/// Whether the driver library is on this machine.
fn present() -> bool {
    // SAFETY: only tries to open the library; opening libcuda runs no code of ours and has no precondition.
    unsafe { sys::is_culib_present() }
}

/// The name and the sentence of a driver's error.
fn describe(code: sys::CUresult) -> (String, String) {
    let text = |get: unsafe fn(sys::CUresult, *mut *const c_char) -> sys::CUresult| {
        let mut text = ptr::null();
        // SAFETY: both functions write a pointer to a static string, or null for a code they do not know.
        let found = unsafe { get(code, &raw mut text) } == sys::CUresult::CUDA_SUCCESS && !text.is_null();
        // SAFETY: it points to a static string that ends in NUL.
        found.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    };
    let name = text(sys::cuGetErrorName).unwrap_or_else(|| format!("{code:?}"));
    (name, text(sys::cuGetErrorString).unwrap_or_default())
}

/// Turns the result of the driver's function `call` into ours.
pub(super) fn check(call: &'static str, result: sys::CUresult) -> Result<(), Error> {
    if result == sys::CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let (code, text) = describe(result);
    Err(Error::Driver { call, code, text })
}

/// Calls a function of the driver by its name and checks its result.
macro_rules! driver {
    ($function:ident($($argument:expr),* $(,)?)) => {
        $crate::device::gpu::driver::check(
            stringify!($function),
            ::cudarc::driver::sys::$function($($argument),*),
        )
    };
}
pub(super) use driver;

/// How many cards the driver sees. Every way to the driver starts here.
pub(super) fn count() -> Result<usize, Error> {
    if !present() {
        return Err(Error::NoDriver);
    }
    // SAFETY: the library is there; `cuInit` may be called any number of times, from any thread.
    match unsafe { sys::cuInit(0) } {
        sys::CUresult::CUDA_ERROR_NO_DEVICE => return Ok(0),
        result => check("cuInit", result)?,
    }
    let (mut version, mut count) = (0, 0);
    // SAFETY: the driver writes one int to each pointer.
    unsafe {
        driver!(cuDriverGetVersion(&raw mut version))?;
        if version < OLDEST_DRIVER {
            return Err(Error::DriverTooOld { found: version, needed: OLDEST_DRIVER });
        }
        driver!(cuDeviceGetCount(&raw mut count))?;
    }
    Ok(usize::try_from(count).unwrap_or(0))
}

/// The primary context of one card, held until dropped.
#[derive(Debug)]
pub(super) struct Context {
    device: sys::CUdevice,
    raw: sys::CUcontext,
}

// SAFETY: the driver's contexts may be used from any thread; each call makes it current first.
unsafe impl Send for Context {}
// SAFETY: as above; the driver locks what it shares.
unsafe impl Sync for Context {}

impl Context {
    /// The primary context of the card `ordinal`.
    pub(super) fn open(ordinal: usize) -> Result<Arc<Self>, Error> {
        let count = count()?;
        let index = c_int::try_from(ordinal).ok().filter(|_| ordinal < count);
        let Some(index) = index else { return Err(Error::NoDevice { ordinal, count }) };
        let mut device = 0;
        let mut raw = ptr::null_mut();
        // SAFETY: the ordinal is one that the driver has; it writes the handles.
        unsafe {
            driver!(cuDeviceGet(&raw mut device, index))?;
            driver!(cuDevicePrimaryCtxRetain(&raw mut raw, device))?;
        }
        Ok(Arc::new(Self { device, raw }))
    }

    /// Makes the context current on this thread until the guard goes; then the one before is current again.
    pub(super) fn enter(&self) -> Result<Entered, Error> {
        let mut current = ptr::null_mut();
        // SAFETY: the driver is initialised; it writes one handle.
        unsafe { driver!(cuCtxGetCurrent(&raw mut current))? };
        let pushed = current != self.raw;
        if pushed {
            // SAFETY: the context is held by `self`, which outlives the guard's uses in this module.
            unsafe { driver!(cuCtxPushCurrent_v2(self.raw))? };
        }
        Ok(Entered { pushed, not_send: PhantomData })
    }

    /// The raw handle, to compare with a stream's.
    pub(super) fn raw(&self) -> sys::CUcontext {
        self.raw
    }

    /// One attribute of the card.
    pub(super) fn attribute(&self, attribute: sys::CUdevice_attribute) -> Result<u32, Error> {
        let mut value = 0;
        // SAFETY: the device handle came from the driver; it writes one int.
        unsafe { driver!(cuDeviceGetAttribute(&raw mut value, attribute, self.device))? };
        Ok(u32::try_from(value).unwrap_or(0))
    }

    /// The card's name.
    pub(super) fn name(&self) -> Result<String, Error> {
        let mut text = [0u8; 256];
        // SAFETY: the driver writes at most the length given, the closing NUL included.
        unsafe { driver!(cuDeviceGetName(text.as_mut_ptr().cast(), text.len() as c_int, self.device))? };
        Ok(CStr::from_bytes_until_nul(&text).map_or_else(|_| "GPU".to_owned(), |name| name.to_string_lossy().into()))
    }

    /// The card's memory in bytes.
    pub(super) fn memory_bytes(&self) -> Result<u64, Error> {
        let mut bytes = 0;
        // SAFETY: the driver writes one size.
        unsafe { driver!(cuDeviceTotalMem_v2(&raw mut bytes, self.device))? };
        Ok(bytes as u64)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: retained once in `open`. Nobody is there to hear of a failure.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// A context made current on this thread; see [`Context::enter`].
#[must_use]
pub(super) struct Entered {
    pushed: bool,
    /// It is taken off on the thread that put it on.
    not_send: PhantomData<*mut ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if self.pushed {
            let mut popped = ptr::null_mut();
            // SAFETY: takes off what `enter` put on, on the same thread.
            let _ = unsafe { sys::cuCtxPopCurrent_v2(&raw mut popped) };
        }
    }
}

/// A stream: one of ours, destroyed when dropped, or a caller's, left alone.
#[derive(Debug)]
pub(super) struct Stream {
    context: Arc<Context>,
    raw: sys::CUstream,
    owned: bool,
}

// SAFETY: the driver's streams may be used from any thread.
unsafe impl Send for Stream {}
// SAFETY: as above; calls on one stream are serialised by the driver.
unsafe impl Sync for Stream {}

impl Stream {
    /// A new stream that does not wait for the legacy default stream.
    pub(super) fn new(context: &Arc<Context>) -> Result<Self, Error> {
        let _entered = context.enter()?;
        let mut raw = ptr::null_mut();
        // SAFETY: the context is current; the driver writes one handle.
        unsafe {
            driver!(cuStreamCreate(&raw mut raw, sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32))?;
        }
        Ok(Self { context: Arc::clone(context), raw, owned: true })
    }

    /// A caller's stream.
    ///
    /// # Safety
    /// `raw` is a live stream of the driver, or null for the legacy default stream, and stays so for as long as this.
    pub(super) unsafe fn borrow(context: &Arc<Context>, raw: *mut c_void) -> Result<Self, Error> {
        let _entered = context.enter()?;
        let raw: sys::CUstream = raw.cast();
        let mut home = ptr::null_mut();
        // SAFETY: the caller says that the stream is alive; the context is current for the null stream.
        unsafe { driver!(cuStreamGetCtx(raw, &raw mut home))? };
        if home != context.raw() {
            return Err(Error::Borrow {
                address: raw as u64,
                rule: "the stream must belong to the primary context of the device".to_owned(),
            });
        }
        Ok(Self { context: Arc::clone(context), raw, owned: false })
    }

    /// The raw handle.
    pub(super) fn raw(&self) -> sys::CUstream {
        self.raw
    }

    /// Its context.
    pub(super) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Refuses `what` while the stream's owner captures it: a copy from or to the host would be recorded with an
    /// address that does not outlive the call, and replayed.
    pub(super) fn refuse_capture(&self, what: &str) -> Result<(), Error> {
        let _entered = self.context.enter()?;
        let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the stream is alive; the driver writes one enumerator.
        unsafe { driver!(cuStreamIsCapturing(self.raw, &raw mut status))? };
        if status == sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE {
            return Ok(());
        }
        Err(Error::Capturing { what: what.to_owned() })
    }

    /// Waits for all that was queued.
    pub(super) fn synchronize(&self) -> Result<(), Error> {
        let _entered = self.context.enter()?;
        // SAFETY: the stream is alive.
        unsafe { driver!(cuStreamSynchronize(self.raw)) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.owned
            && let Ok(_entered) = self.context.enter()
        {
            // SAFETY: made by `new`, destroyed once; the driver finishes what is queued first.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.raw) };
        }
    }
}

/// A point in a stream that can be timed.
pub(super) struct Event {
    context: Arc<Context>,
    raw: sys::CUevent,
}

impl Event {
    /// A new event.
    pub(super) fn new(context: &Arc<Context>) -> Result<Self, Error> {
        let _entered = context.enter()?;
        let mut raw = ptr::null_mut();
        // SAFETY: the context is current; the driver writes one handle.
        unsafe { driver!(cuEventCreate(&raw mut raw, sys::CUevent_flags::CU_EVENT_DEFAULT as u32))? };
        Ok(Self { context: Arc::clone(context), raw })
    }

    /// Places it at the end of the queue.
    pub(super) fn record(&self, stream: &Stream) -> Result<(), Error> {
        let _entered = self.context.enter()?;
        // SAFETY: both are alive and of one context.
        unsafe { driver!(cuEventRecord(self.raw, stream.raw())) }
    }

    /// Waits until the queue has come to it.
    pub(super) fn synchronize(&self) -> Result<(), Error> {
        let _entered = self.context.enter()?;
        // SAFETY: the event is alive.
        unsafe { driver!(cuEventSynchronize(self.raw)) }
    }

    /// Milliseconds from `start` to this; both must have been reached.
    pub(super) fn milliseconds_since(&self, start: &Event) -> Result<f32, Error> {
        let _entered = self.context.enter()?;
        let mut milliseconds = 0.0;
        // SAFETY: both events are alive; the driver writes one float. (The form without `_v2` is in every driver.)
        unsafe { driver!(cuEventElapsedTime(&raw mut milliseconds, start.raw, self.raw))? };
        Ok(milliseconds)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_entered) = self.context.enter() {
            // SAFETY: made by `new`, destroyed once.
            let _ = unsafe { sys::cuEventDestroy_v2(self.raw) };
        }
    }
}

/// A module that the driver has compiled.
#[derive(Debug)]
pub(super) struct DriverModule {
    stream: Arc<Stream>,
    raw: sys::CUmodule,
}

// SAFETY: the driver's modules may be used from any thread.
unsafe impl Send for DriverModule {}
// SAFETY: as above.
unsafe impl Sync for DriverModule {}

impl DriverModule {
    /// Compiles `ptx` for the card. The error carries the driver's log.
    pub(super) fn load(stream: &Arc<Stream>, ptx: &str, kernels: &str) -> Result<Self, Error> {
        let failed = |code: String, log: String| Err(Error::Module { kernels: kernels.to_owned(), code, log });
        let Ok(text) = CString::new(ptx) else {
            return failed("not PTX".to_owned(), "the text holds a NUL byte".to_owned());
        };
        let _entered = stream.context().enter()?;
        let (mut info, mut errors) = (vec![0u8; LOG_BYTES], vec![0u8; LOG_BYTES]);
        let mut options = [
            sys::CUjit_option::CU_JIT_INFO_LOG_BUFFER,
            sys::CUjit_option::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            sys::CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        // The driver takes sizes as values in the place of pointers.
        let size = || ptr::without_provenance_mut::<c_void>(LOG_BYTES);
        let mut values = [info.as_mut_ptr().cast(), size(), errors.as_mut_ptr().cast(), size()];
        let mut raw = ptr::null_mut();
        // SAFETY: the context is current; the text ends in NUL; options and values have the same length, and the
        // buffers have the sizes stated and outlive the call.
        let result = unsafe {
            sys::cuModuleLoadDataEx(
                &raw mut raw,
                text.as_ptr().cast(),
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        if result != sys::CUresult::CUDA_SUCCESS {
            let (code, sentence) = describe(result);
            let logs = [&errors, &info].map(|log| log_text(log));
            let said: Vec<&str> = logs.iter().map(|log| log.trim()).filter(|log| !log.is_empty()).collect();
            return failed(code, if said.is_empty() { sentence } else { said.join("\n") });
        }
        Ok(Self { stream: Arc::clone(stream), raw })
    }

    /// The kernel `name`, allowed `shared` bytes of dynamic shared memory.
    pub(super) fn function(self: &Arc<Self>, name: &str, shared: u32) -> Result<Function, Error> {
        let _entered = self.stream.context().enter()?;
        let text = CString::new(name).map_err(|_| Error::Internal(format!("kernel name {name:?} holds a NUL")))?;
        let mut raw = ptr::null_mut();
        // SAFETY: the module is loaded and the name ends in NUL; the driver writes one handle.
        unsafe { driver!(cuModuleGetFunction(&raw mut raw, self.raw, text.as_ptr()))? };
        if shared > 0 {
            let bytes = c_int::try_from(shared).unwrap_or(c_int::MAX);
            let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function belongs to the loaded module. Above 48 KiB a launch needs this opt-in.
            unsafe { driver!(cuFuncSetAttribute(raw, attribute, bytes))? };
        }
        Ok(Function { _module: Arc::clone(self), raw })
    }
}

impl Drop for DriverModule {
    fn drop(&mut self) {
        // A kernel of it may still be queued: unloading waits for none, so we do.
        let _ = self.stream.synchronize();
        if let Ok(_entered) = self.stream.context().enter() {
            // SAFETY: loaded once, unloaded once; nothing of it runs any more.
            let _ = unsafe { sys::cuModuleUnload(self.raw) };
        }
    }
}

/// A kernel of a loaded module, which it keeps loaded.
#[derive(Debug)]
pub(super) struct Function {
    /// Held so that it stays loaded.
    _module: Arc<DriverModule>,
    raw: sys::CUfunction,
}

// SAFETY: the driver's functions may be launched from any thread.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Function {
    /// The raw handle.
    pub(super) fn raw(&self) -> sys::CUfunction {
        self.raw
    }
}

/// What the JIT wrote into one of its buffers.
fn log_text(log: &[u8]) -> String {
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    String::from_utf8_lossy(&log[..end]).into_owned()
}
