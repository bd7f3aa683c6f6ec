//! The binary's allocator, which counts: what a case holds at most is known, however briefly it held it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Beyond this an allocation fails, and the process with it: better than the machine.
const HARD: usize = 6 << 30;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Meter;

#[global_allocator]
static METER: Meter = Meter;

fn taken(bytes: usize) {
    PEAK.fetch_max(LIVE.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

fn is_too_much(bytes: usize) -> bool {
    LIVE.load(Relaxed).saturating_add(bytes) > HARD
}

// SAFETY: every call goes to the system's allocator as it came, or answers null, as an allocator may.
unsafe impl GlobalAlloc for Meter {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_too_much(layout.size()) {
            return std::ptr::null_mut();
        }
        taken(layout.size());
        // SAFETY: the caller's promise is that of this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_too_much(layout.size()) {
            return std::ptr::null_mut();
        }
        taken(layout.size());
        // SAFETY: the caller's promise is that of this function.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise is that of this function.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        if is_too_much(bytes.saturating_sub(layout.size())) {
            return std::ptr::null_mut();
        }
        // Both are held while one is copied to the other.
        taken(bytes);
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise is that of this function.
        unsafe { System.realloc(pointer, layout, bytes) }
    }
}

/// Bytes that are held now; the peak starts from them.
pub fn start() -> usize {
    let live = LIVE.load(Relaxed);
    PEAK.store(live, Relaxed);
    live
}

/// The most bytes that were held since [`start`] gave `live`, beyond those.
pub fn peak_since(live: usize) -> usize {
    PEAK.load(Relaxed).saturating_sub(live)
}
