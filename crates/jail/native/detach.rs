//! Cuts a branch off from whatever it still shares with the session it came from.
//!
//! A fork shares open files (with their offsets) and shared memory. Invariant: afterwards nothing
//! that the session holds, and no process of it, can be changed or read through a descriptor or a
//! mapping of the branch, nor the other way round.
//!
//! | what the branch holds | becomes |
//! |---|---|
//! | a file or directory in `/tmp` | the copy in the branch's own `/tmp`, at the same offset |
//! | a file that has no name any more, a memory file | a memory file with the same content |
//! | any other plain file or directory | opened again, at the same offset |
//! | stdout and stderr of the session, under whatever number | those of the branch |
//! | a device such as `/dev/null` | stays |
//! | a pipe, a socket, a file of `/proc`, an epoll or the like | a descriptor on which every use fails with `EBADF` |
//! | shared memory, a mapped file of `/tmp` | private memory with the same content |

use std::ffi::{CString, c_int};
use std::fs::{self, File, Metadata};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd as _, FromRawFd as _, IntoRawFd as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use crate::Failure;
use crate::enter::fault;
use crate::sys::{self, check};

const COPY_BYTES: usize = 256 << 10;

/// Puts every descriptor right except those in `keep` and the new streams. `streams`: for stdout and
/// stderr, the inode of the session's pipe and the branch's own pipe.
pub(crate) fn descriptors(
    old_tmp: u64,
    streams: [(u64, c_int); 2],
    keep: &[c_int],
) -> Result<(), Failure> {
    let is_kept = |it: &c_int| keep.contains(it) || streams.iter().any(|(_, own)| own == it);
    for descriptor in open_descriptors()?.into_iter().filter(|it| !is_kept(it)) {
        // SAFETY: open, and given back untouched.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) });
        let Ok(metadata) = file.metadata() else { continue };
        if metadata.file_type().is_char_device() {
            continue;
        }
        let stream = streams.iter().find(|(inode, _)| *inode == metadata.ino());
        let own = match stream.filter(|_| metadata.file_type().is_fifo()) {
            Some((_, own)) => Some(duplicate(*own)?),
            None => own_version(&file, &metadata, old_tmp)?,
        };
        let fresh = match own {
            Some(fresh) => fresh,
            None => dead()?,
        };
        replace(descriptor, fresh)?;
    }
    Ok(())
}

fn duplicate(descriptor: c_int) -> Result<File, Failure> {
    // SAFETY: open, and given back untouched.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) });
    file.try_clone().map_err(|error| fault("duplicate a stream", &error))
}

fn open_descriptors() -> Result<Vec<c_int>, Failure> {
    let entries = fs::read_dir("/proc/self/fd").map_err(|error| fault("list /proc", &error))?;
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    // The one that lists is closed by the time that it is looked at.
    Ok(entries.flatten().filter_map(number).collect())
}

/// A descriptor of the same file that shares nothing with the session; nothing where there is none.
fn own_version(file: &File, metadata: &Metadata, old_tmp: u64) -> Result<Option<File>, Failure> {
    if !metadata.is_file() && !metadata.is_dir() {
        return Ok(None);
    }
    let link = format!("/proc/self/fd/{}", file.as_raw_fd());
    let path = fs::read_link(&link).map_err(|error| fault("read a link of /proc", &error))?;
    let has_name = metadata.nlink() > 0 && path.is_absolute();
    let fresh = if metadata.is_file() && (!has_name || path.starts_with("/memfd:")) {
        Some(memory_copy(file, metadata)?)
    } else if has_name && !path.starts_with("/proc") {
        reopen(file, &path).filter(|fresh| is_right(fresh, metadata, old_tmp))
    } else {
        None
    };
    if let Some(fresh) = &fresh {
        // SAFETY: plain system calls on open descriptors. A directory's offset means nothing in a
        // copy.
        unsafe {
            if metadata.is_file() {
                sys::lseek(fresh.as_raw_fd(), sys::lseek(file.as_raw_fd(), 0, 1), 0);
            }
        }
    }
    Ok(fresh)
}

/// Never the session's own file in `/tmp`; elsewhere, the very same one.
fn is_right(fresh: &File, metadata: &Metadata, old_tmp: u64) -> bool {
    fresh.metadata().is_ok_and(|found| {
        let same = (found.dev(), found.ino()) == (metadata.dev(), metadata.ino());
        found.file_type() == metadata.file_type()
            && if metadata.dev() == old_tmp { found.dev() != old_tmp } else { same }
    })
}

/// Opens the path as the descriptor was opened.
fn reopen(file: &File, path: &Path) -> Option<File> {
    const F_GETFL: c_int = 3;
    // O_ACCMODE, O_APPEND, O_NONBLOCK, O_DSYNC, O_SYNC, O_PATH.
    const KEPT: c_int = 0o3 | 0o2000 | 0o4000 | 0o10000 | 0o4_010_000 | 0o10_000_000;
    let path = CString::new(path.as_os_str().to_owned().into_vec()).ok()?;
    // SAFETY: plain system calls; a valid path; the new descriptor is ours alone.
    unsafe {
        let flags = sys::fcntl(file.as_raw_fd(), F_GETFL) & KEPT;
        let fresh = sys::open(path.as_ptr(), flags | sys::O_CLOEXEC);
        (fresh >= 0).then(|| File::from_raw_fd(fresh))
    }
}

/// A memory file with the same content. (The content, and not the access mode, is what counts.)
fn memory_copy(file: &File, metadata: &Metadata) -> Result<File, Failure> {
    // SAFETY: a valid name; the descriptor is ours alone.
    let copy = unsafe {
        let fd = sys::memfd_create(c"branch".as_ptr(), sys::MFD_CLOEXEC);
        File::from_raw_fd(check("memfd_create", fd)?)
    };
    let failed = |error: std::io::Error| fault("copy an open file", &error);
    copy.set_len(metadata.len()).map_err(failed)?;
    // Through a descriptor of our own: the file may be open for writing only.
    let source = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(failed)?;
    let mut buffer = vec![0; COPY_BYTES];
    let mut at = 0;
    loop {
        let got = source.read_at(&mut buffer, at).map_err(failed)?;
        if got == 0 {
            return Ok(copy);
        }
        copy.write_all_at(&buffer[..got], at).map_err(failed)?;
        at += got as u64;
    }
}

/// A descriptor that keeps its number taken and fails every use. (Of no directory: that would still
/// lead somewhere.)
fn dead() -> Result<File, Failure> {
    const O_PATH: c_int = 0o10_000_000;
    // SAFETY: a valid path; the descriptor is ours alone.
    unsafe {
        let fd = sys::open(c"/dev/null".as_ptr(), O_PATH | sys::O_CLOEXEC);
        Ok(File::from_raw_fd(check("open /dev/null", fd)?))
    }
}

/// Puts `fresh` in the place of `descriptor`, inheritable if that was.
fn replace(descriptor: c_int, fresh: File) -> Result<(), Failure> {
    const F_GETFD: c_int = 1;
    let fresh_number = fresh.into_raw_fd();
    // SAFETY: plain system calls on open descriptors.
    unsafe {
        let is_closed_on_exec = sys::fcntl(descriptor, F_GETFD) & 1 != 0;
        let flags = if is_closed_on_exec { sys::O_CLOEXEC } else { 0 };
        check("dup3", sys::dup3(fresh_number, descriptor, flags))?;
        sys::close(fresh_number);
    }
    Ok(())
}

/// Makes private what is mapped as shared, or from a file that the session can still write.
pub(crate) fn mappings(old_tmp: u64) -> Result<(), Failure> {
    let failed = |error: std::io::Error| fault("read /proc/self/maps", &error);
    let text = fs::read_to_string("/proc/self/maps").map_err(failed)?;
    let memory = File::open("/proc/self/mem").map_err(failed)?;
    for mapping in text.lines().filter_map(Mapping::parse) {
        if mapping.is_exposed(old_tmp) {
            mapping.make_private(&memory)?;
        }
    }
    Ok(())
}

struct Mapping<'a> {
    start: usize,
    bytes: usize,
    /// For example `rw-s`.
    permissions: &'a str,
    device: u64,
    path: &'a str,
}

impl<'a> Mapping<'a> {
    /// A line of `/proc/self/maps`: `start-end permissions offset major:minor inode path`.
    fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let start = usize::from_str_radix(start, 16).ok()?;
        let bytes = usize::from_str_radix(end, 16).ok()?.checked_sub(start)?;
        let permissions = words.next()?;
        let (major, minor) = words.nth(1)?.split_once(':')?;
        let hexadecimal = |text| u64::from_str_radix(text, 16).ok();
        let (major, minor) = (hexadecimal(major)?, hexadecimal(minor)?);
        // As in `struct stat`: eight low bits of the minor number, twelve of the major, the rest.
        let device = minor & 0xff | (major & 0xfff) << 8 | (minor & !0xff) << 12;
        let path = words.nth(1).map_or("", str::trim);
        Some(Self { start, bytes, permissions, device, path })
    }

    fn is_exposed(&self, old_tmp: u64) -> bool {
        let is_ours = self.path.starts_with("/memfd:rocstar-");
        let is_memory_file = self.path.starts_with("/memfd:") && !is_ours;
        self.permissions.ends_with('s') || self.device == old_tmp || is_memory_file
    }

    /// Puts private memory with the same content in its place. What can't be read (past the end of
    /// a file) becomes zeros.
    fn make_private(&self, memory: &File) -> Result<(), Failure> {
        let private = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS;
        let access = sys::PROT_READ | sys::PROT_WRITE;
        let has = |letter, bit| if self.permissions.contains(letter) { bit } else { 0 };
        let wanted = has('r', sys::PROT_READ) | has('w', sys::PROT_WRITE) | has('x', 4);
        let place = self.start as *mut sys::c_void;
        // SAFETY: the old mapping is this process's own and nothing but its address is known to
        // the program; the copy is as long as it, and takes its place whole.
        unsafe {
            let copy = sys::mmap(std::ptr::null_mut(), self.bytes, access, private, -1, 0);
            if copy as isize == -1 {
                return Err(("copy shared memory", sys::errno()));
            }
            let content = std::slice::from_raw_parts_mut(copy.cast::<u8>(), self.bytes);
            for (index, page) in content.chunks_mut(4096).enumerate() {
                let _ = memory.read_exact_at(page, (self.start + index * 4096) as u64);
            }
            sys::mprotect(copy, self.bytes, wanted);
            let moved = sys::mremap(copy, self.bytes, self.bytes, MREMAP_TO, place);
            if moved as isize == -1 {
                return Err(("put a copy of shared memory in its place", sys::errno()));
            }
        }
        Ok(())
    }
}

/// `MREMAP_MAYMOVE | MREMAP_FIXED`
const MREMAP_TO: c_int = 3;
