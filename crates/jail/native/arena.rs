//! Python's memory on huge pages.
//!
//! Forking a process copies its page tables: a warmed scientific interpreter has 30,000 pages of
//! 4 KiB, and copying and freeing their entries costs milliseconds for each call. On 2 MiB pages
//! it costs a twentieth. CPython asks for arenas of 1 MiB (256 KiB before 3.10); this allocator
//! carves them from one region that is marked for huge pages. After [`settle`], fresh arenas come
//! from ordinary pages: a child that needs a little memory must not clear 2 MiB for it.

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::python::PyObject_SetArenaAllocator;
use crate::sys::{
    MADV_HUGEPAGE, MADV_NOHUGEPAGE, MAP_ANONYMOUS, MAP_NORESERVE, MAP_PRIVATE, PROT_READ,
    PROT_WRITE, c_void, madvise, mmap, munmap,
};

const HUGE: usize = 2 << 20;
/// Room for what a zygote may allocate while it warms. Only touched pages cost memory.
const REGION: usize = 1 << 30;

const PAGE: usize = 4096;
const MADV_COLLAPSE: c_int = 25;

/// glibc's `struct mallinfo`.
#[repr(C)]
struct HeapFigures {
    unused: [c_int; 8],
    /// `fordblks`: bytes in free pieces, the top one included.
    free_bytes: c_int,
    /// `keepcost`: bytes in the top piece.
    top_bytes: c_int,
}

unsafe extern "C" {
    fn sbrk(increment: isize) -> *mut c_void;
    fn malloc(size: usize) -> *mut c_void;
    fn mallinfo() -> HeapFigures;
    fn PyObject_Malloc(size: usize) -> *mut c_void;
    fn PyObject_Free(object: *mut c_void);
}

/// Where the C library's heap begins. 0: not known.
static HEAP_START: AtomicUsize = AtomicUsize::new(0);
static NEXT: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);

/// CPython's `PyObjectArenaAllocator`.
#[repr(C)]
struct ArenaAllocator {
    context: *mut c_void,
    allocate: extern "C" fn(*mut c_void, usize) -> *mut c_void,
    free: extern "C" fn(*mut c_void, *mut c_void, usize),
}

/// Reserves the region and hands the allocator to CPython.
///
/// # Safety
/// The interpreter is initialised and this is its only thread.
pub(crate) unsafe fn install() {
    HEAP_START.store(heap_start().unwrap_or(0), Ordering::Relaxed);
    // SAFETY: a fresh private mapping; its address is checked before use.
    unsafe {
        let region = mmap(
            std::ptr::null_mut(),
            REGION + HUGE,
            PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
            -1,
            0,
        );
        if region as isize == -1 {
            return; // CPython's own allocator stays: slower, not wrong.
        }
        let start = (region as usize).next_multiple_of(HUGE);
        madvise(start as *mut c_void, REGION, MADV_HUGEPAGE);
        NEXT.store(start, Ordering::Relaxed);
        END.store(start + REGION, Ordering::Relaxed);
        let allocator = ArenaAllocator { context: std::ptr::null_mut(), allocate, free };
        PyObject_SetArenaAllocator((&raw const allocator).cast());
    }
}

/// Start of the C library's heap; needs `/proc`, so it is asked before the view changes.
fn heap_start() -> Option<usize> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let heap = maps.lines().find(|line| line.ends_with("[heap]"))?;
    usize::from_str_radix(heap.split('-').next()?, 16).ok()
}

/// From now on, memory comes from ordinary pages. What the C library's heap holds by now is
/// gathered on huge pages as far as it goes.
pub(crate) fn settle() {
    fill_holes();
    gather_heap();
    let end = END.load(Ordering::Relaxed);
    let start = NEXT.load(Ordering::Relaxed).next_multiple_of(HUGE);
    if start < end {
        // SAFETY: the range is inside our own region, past everything that was handed out.
        unsafe {
            madvise(start as *mut c_void, end - start, MADV_NOHUGEPAGE);
            munmap(start as *mut c_void, end - start);
        }
    }
    END.store(NEXT.load(Ordering::Relaxed), Ordering::Relaxed);
}

/// Uses up the free places between the zygote's objects, for ever. A child that took its memory
/// from there would dirty a page for almost every object; what it gets now lies together.
fn fill_holes() {
    // SAFETY: allocates, and frees only what it allocated.
    unsafe {
        // CPython's pools of 16 KiB: one size each, in steps of 16 bytes, objects after a head of
        // 48 bytes. The first object of a fresh pool says that no older pool of its size has room.
        const POOL: usize = 16 << 10;
        const POOL_HEAD: usize = 48;
        for size in (16..=512).step_by(16) {
            for _ in 0..MOST_HOLES {
                let object = PyObject_Malloc(size);
                if object.is_null() || object as usize % POOL == POOL_HEAD {
                    PyObject_Free(object);
                    break;
                }
            }
        }
        // The C library's: per-thread lists of up to seven small pieces a size, then the bins.
        for size in (24..=1032).step_by(16) {
            for _ in 0..8 {
                malloc(size);
            }
        }
        for size in [1 << 16, 1 << 14, 1 << 12, 2048, 1024, 512, 256, 128, 64, 24] {
            for _ in 0..MOST_HOLES {
                let heap = mallinfo();
                if heap.free_bytes - heap.top_bytes < size || malloc(size as usize).is_null() {
                    break;
                }
            }
        }
    }
}

/// Where the allocators are not built as they are known here, filling stops after this many.
const MOST_HOLES: usize = 20_000;

fn gather_heap() {
    let heap_start = HEAP_START.load(Ordering::Relaxed);
    // SAFETY: only asks where the heap ends.
    let heap_end = unsafe { sbrk(0) } as usize & !(PAGE - 1);
    let (start, end) = (heap_start.next_multiple_of(HUGE), heap_end & !(HUGE - 1));
    if heap_start == 0 || start >= end {
        return;
    }
    // SAFETY: the range is this process's heap. Both calls are advice: where the kernel doesn't
    // know the second one (before Linux 6.1), the heap stays as it is.
    unsafe {
        madvise(heap_start as *mut c_void, heap_end - heap_start, MADV_HUGEPAGE);
        madvise(start as *mut c_void, end - start, MADV_COLLAPSE);
    }
}

extern "C" fn allocate(_: *mut c_void, size: usize) -> *mut c_void {
    let start = NEXT.load(Ordering::Relaxed);
    if start + size <= END.load(Ordering::Relaxed) {
        NEXT.store(start + size, Ordering::Relaxed);
        return start as *mut c_void;
    }
    // SAFETY: a fresh private mapping.
    let fresh = unsafe {
        mmap(std::ptr::null_mut(), size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
    };
    if fresh as isize == -1 { std::ptr::null_mut() } else { fresh }
}

extern "C" fn free(_: *mut c_void, address: *mut c_void, size: usize) {
    // SAFETY: CPython gives back an arena that it took, from us or from its own `mmap`; unmapping
    // is right for both.
    unsafe { munmap(address, size) };
}
