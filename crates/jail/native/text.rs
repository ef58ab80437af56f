//! Program text in anonymous memory.
//!
//! `fork` does not copy the page table entries of file mappings: every child would fault in, 64 KiB
//! at a time, the same pages of the interpreter. Copied into anonymous memory, on huge pages where
//! it is large enough, text is there when the child starts. For the interpreter and the C library
//! all of it is copied; for other libraries only what fills whole huge pages, since each further
//! entry has to be copied and freed with every child.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::sys::{self, madvise, mmap, munmap};

const HUGE: usize = 2 << 20;
const PAGE: usize = 4096;

const PT_LOAD: u32 = 1;
const PF_W: u32 = 2;

#[repr(C)]
struct ProgramHeader {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    file_bytes: u64,
    memory_bytes: u64,
    align: u64,
}

#[repr(C)]
struct LoadedObject {
    base: usize,
    name: *const c_char,
    headers: *const ProgramHeader,
    header_count: u16,
}

unsafe extern "C" {
    fn dl_iterate_phdr(
        visit: unsafe extern "C" fn(*const LoadedObject, usize, *mut c_void) -> c_int,
        context: *mut c_void,
    ) -> c_int;
    fn mprotect(address: *mut c_void, length: usize, protection: c_int) -> c_int;
    fn mremap(from: *mut c_void, old: usize, new: usize, flags: c_int, ...) -> *mut c_void;
}

const PROT_EXEC: c_int = 4;
const MREMAP_MAYMOVE: c_int = 1;
const MREMAP_FIXED: c_int = 2;

/// A stretch of text and constants: start, length.
type Stretch = (usize, usize);

/// Does it for everything that is loaded now.
pub(crate) fn make_anonymous() {
    let mut stretches: Vec<Stretch> = Vec::new();
    // SAFETY: the callback gets the vector, which outlives the call. Nothing is moved while the
    // list of loaded objects is walked.
    unsafe { dl_iterate_phdr(collect, (&raw mut stretches).cast()) };
    for (start, length) in stretches {
        // SAFETY: the stretch is mapped, read-only, and page-aligned; nothing writes to it.
        unsafe { replace(start, length) };
    }
}

unsafe extern "C" fn collect(object: *const LoadedObject, _: usize, context: *mut c_void) -> c_int {
    // SAFETY: glibc passes a valid description; the context is the caller's vector.
    let (object, stretches) = unsafe { (&*object, &mut *context.cast::<Vec<Stretch>>()) };
    // SAFETY: glibc's names are valid strings; the headers are an array of the given length.
    let (name, headers) = unsafe {
        (
            CStr::from_ptr(object.name).to_bytes(),
            std::slice::from_raw_parts(object.headers, object.header_count.into()),
        )
    };
    if name.starts_with(b"linux-vdso") || name.starts_with(b"linux-gate") {
        return 0;
    }
    let base_name = name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    // The executable itself has an empty name.
    let whole = name.is_empty()
        || ["libpython", "libc.so"].iter().any(|prefix| base_name.starts_with(prefix.as_bytes()));
    let mut previous: Option<Stretch> = None;
    for header in headers {
        if header.kind != PT_LOAD || header.flags & PF_W != 0 {
            continue;
        }
        let start = (object.base + header.address as usize) & !(PAGE - 1);
        let end =
            (object.base + (header.address + header.memory_bytes) as usize).next_multiple_of(PAGE);
        match &mut previous {
            // Constants next to code become executable like it: one mapping can lie on huge pages,
            // three small ones can't, and a program may map executable memory as it likes anyway.
            Some((from, length)) if *from + *length == start => *length = end - *from,
            _ => stretches.extend(previous.replace((start, end - start)).and_then(cut(whole))),
        }
    }
    stretches.extend(previous.and_then(cut(whole)));
    0
}

/// The part of a stretch that is worth moving.
fn cut(whole: bool) -> impl Fn(Stretch) -> Option<Stretch> {
    move |(start, length)| {
        let end = start + length;
        let (start, end) =
            if whole { (start, end) } else { (start.next_multiple_of(HUGE), end & !(HUGE - 1)) };
        (start < end).then_some((start, end.wrapping_sub(start)))
    }
}

/// # Safety
/// The stretch is mapped and readable, and nobody writes to it.
unsafe fn replace(start: usize, length: usize) {
    // SAFETY: the copy is made in fresh memory and then moved over the original in one step; its
    // bytes are the same, so even code that runs from it does not notice.
    unsafe {
        let room = length + 2 * HUGE;
        let fresh = mmap(
            std::ptr::null_mut(),
            room,
            sys::PROT_READ | sys::PROT_WRITE,
            sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE,
            -1,
            0,
        );
        if fresh as isize == -1 {
            return; // The file mapping stays: slower, not wrong.
        }
        // Huge pages move whole only between addresses that are alike modulo their size.
        let copy = (fresh as usize).next_multiple_of(HUGE) + start % HUGE;
        madvise(copy as *mut c_void, length, sys::MADV_HUGEPAGE);
        std::ptr::copy_nonoverlapping(start as *const u8, copy as *mut u8, length);
        let moved = mprotect(copy as *mut c_void, length, sys::PROT_READ | PROT_EXEC) == 0
            && mremap(
                copy as *mut c_void,
                length,
                length,
                MREMAP_MAYMOVE | MREMAP_FIXED,
                start as *mut c_void,
            ) as isize
                != -1;
        munmap(fresh, copy - fresh as usize);
        let after = copy + length;
        if !moved {
            munmap(copy as *mut c_void, length);
        }
        munmap(after as *mut c_void, fresh as usize + room - after);
    }
}
