//! Makes a branch's surroundings: a fresh `/tmp` in its mount namespace, with a copy of the files.
//!
//! Done by a process of its own, forked from the keeper with the keeper's privileges, because
//! entering another mount namespace can't be undone; and moved into the branch's control groups by
//! the jail first, so that the memory of the copies counts there. The branch waits meanwhile, but
//! threads of the session may go on and change what is copied. Invariant: whatever they do, no link
//! is followed and nothing outside the old `/tmp` is read; nothing outside the new one is written.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_int};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{
    FileExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _, chown, lchown, symlink,
};
use std::path::{Path, PathBuf};

use crate::enter::{fault, mount};
use crate::sys::{self, check, errno};
use crate::wire::{self, Spawn};
use crate::{Failure, child};

/// What is to be done, and for whom.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    pub(crate) spawn: Spawn,
    pub(crate) privileged: bool,
    /// The branch's process, as a descriptor.
    pub(crate) branch: c_int,
    /// The branch's socket to the jail.
    pub(crate) socket: c_int,
}

/// Starts the copier: its process id and a descriptor that becomes readable at its end. It exits
/// with 0 if all went well and has told the jail itself otherwise.
pub(crate) fn start(order: &Order) -> Result<(sys::pid_t, c_int), Failure> {
    // SAFETY: single-threaded. The copier runs no Python.
    let pid = unsafe { sys::fork() };
    if pid == 0 {
        let status = match furnish(order) {
            Ok(()) => 0,
            Err((what, error)) => {
                child::send_failure(order.socket, what, error);
                1
            }
        };
        // SAFETY: ends this process.
        unsafe { sys::_exit(status) };
    }
    check("fork the copier", pid)?;
    let end = crate::family::open_pidfd(pid)?;
    Ok((pid, end))
}

fn furnish(order: &Order) -> Result<(), Failure> {
    // SAFETY: a plain system call: this process ends with its keeper.
    unsafe { sys::prctl(sys::PR_SET_PDEATHSIG, sys::SIGKILL) };
    // The jail moves the sender of this message into the branch's control groups, and answers.
    check("say hello", child::send(order.socket, &[wire::HELLO], &[]))?;
    if child::receive(order.socket, &mut [0; wire::MAX_MESSAGE_BYTES], &mut []) <= 0 {
        return Err(("the jail is gone", sys::EPERM));
    }
    let directory = sys::O_RDONLY | sys::O_DIRECTORY | sys::O_CLOEXEC;
    // SAFETY: valid paths, our own descriptors.
    let old = unsafe {
        check("enter the branch's file tree", sys::setns(order.branch, sys::CLONE_NEWNS))?;
        let old = check("open the old /tmp", sys::open(c"/tmp".as_ptr(), directory))?;
        File::from_raw_fd(old)
    };
    let metadata = old.metadata().map_err(|error| fault("look at the old /tmp", &error))?;
    let user = if order.privileged { order.spawn.uid } else { 0 };
    let options = format!(
        "mode={:o},size={},nr_inodes={},uid={user},gid={user}",
        metadata.mode() & 0o777,
        order.spawn.tmp_bytes,
        child::inodes(order.spawn.tmp_bytes)
    );
    mount(Some("tmp"), "/tmp", Some("tmpfs"), sys::MS_NOSUID | sys::MS_NODEV, Some(&options))?;
    let mut copy = Copy { old, user, links: HashMap::new() };
    copy.all().map_err(|error| fault("copy the files of /tmp", &error))?;
    // SAFETY: a valid path.
    let new = unsafe { check("open the new /tmp", sys::open(c"/tmp".as_ptr(), directory))? };
    let sent = child::send(order.socket, &[wire::BRANCHED], &[new, order.branch]);
    check("report the branch's surroundings", sent).map(|_| ())
}

struct Copy {
    /// The old `/tmp`.
    old: File,
    user: u32,
    /// Where files with several names were copied to, by inode.
    links: HashMap<u64, PathBuf>,
}

impl Copy {
    fn all(&mut self) -> io::Result<()> {
        // Paths below `/tmp`; a parent is made before its children are looked for.
        let mut waiting = vec![PathBuf::from(".")];
        while let Some(directory) = waiting.pop() {
            let source = self.open(&directory, sys::O_RDONLY | sys::O_DIRECTORY)?;
            let mut names = Vec::new();
            let listed = sys::for_each_entry(source.as_raw_fd(), &mut |name| {
                if name != c"." && name != c".." {
                    names.push(name.to_bytes().to_vec());
                }
            });
            if !listed {
                return Err(io::Error::last_os_error());
            }
            for name in names {
                let path = directory.join(std::ffi::OsString::from_vec(name));
                match self.one(&path) {
                    Ok(true) => waiting.push(path),
                    Ok(false) => {}
                    // Removed meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Copies one entry. True: it is a directory, whose content is still missing.
    fn one(&mut self, path: &Path) -> io::Result<bool> {
        const O_PATH: c_int = 0o10_000_000;
        let source = self.open(path, O_PATH)?;
        let metadata = source.metadata()?;
        let kind = metadata.file_type();
        let target = Path::new("/tmp").join(path);
        if kind.is_symlink() {
            symlink(link_text(&source)?, &target)?;
            lchown(&target, Some(self.user), Some(self.user))?;
            return Ok(false);
        }
        if kind.is_dir() {
            fs::create_dir(&target)?;
        } else if kind.is_file() {
            if let Some(first) = self.links.get(&metadata.ino()) {
                return fs::hard_link(first, &target).map(|()| false);
            }
            self.content(path, &metadata, &target)?;
            if metadata.nlink() > 1 {
                self.links.insert(metadata.ino(), target.clone());
            }
        } else if kind.is_fifo() {
            make_fifo(&target)?;
        } else {
            // A socket's other end is the session; there are no devices.
            return Ok(false);
        }
        chown(&target, Some(self.user), Some(self.user))?;
        fs::set_permissions(&target, Permissions::from_mode(metadata.mode() & 0o7777))?;
        Ok(kind.is_dir())
    }

    /// Copies what a file holds; holes stay holes.
    fn content(&self, path: &Path, metadata: &fs::Metadata, target: &Path) -> io::Result<()> {
        const O_NONBLOCK: c_int = 0o4000;
        const SEEK_DATA: c_int = 3;
        const SEEK_HOLE: c_int = 4;
        let source = self.open(path, sys::O_RDONLY | O_NONBLOCK)?;
        if source.metadata()?.ino() != metadata.ino() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let copy = OpenOptions::new().write(true).create_new(true).open(target)?;
        copy.set_len(metadata.len())?;
        let mut buffer = vec![0; 256 << 10];
        // SAFETY: a plain system call on an open descriptor.
        let seek =
            |from, what| u64::try_from(unsafe { sys::lseek(source.as_raw_fd(), from, what) });
        let mut at = 0;
        while let Ok(data) = seek(at, SEEK_DATA)
            && let Ok(hole) = seek(data as i64, SEEK_HOLE)
        {
            let length = usize::try_from(hole - data).unwrap_or(usize::MAX).min(buffer.len());
            let got = source.read_at(&mut buffer[..length], data)?;
            if got == 0 {
                break;
            }
            copy.write_all_at(&buffer[..got], data)?;
            at = data as i64 + got as i64;
        }
        copy.set_modified(metadata.modified()?)
    }

    /// Opens below the old `/tmp`, through no link (a link itself, with `O_PATH`).
    fn open(&self, path: &Path, flags: c_int) -> io::Result<File> {
        const O_NOFOLLOW: c_int = if cfg!(target_arch = "x86_64") { 0o400_000 } else { 0o100_000 };
        let path = CString::new(path.as_os_str().as_bytes())?;
        let how = sys::open_how {
            flags: (flags | O_NOFOLLOW | sys::O_CLOEXEC) as u64,
            mode: 0,
            resolve: sys::RESOLVE_BENEATH | sys::RESOLVE_NO_SYMLINKS,
        };
        // SAFETY: valid path and structure, of the size given; the descriptor is ours alone.
        unsafe {
            let fd = sys::syscall(
                sys::OPENAT2,
                self.old.as_raw_fd(),
                path.as_ptr(),
                &raw const how,
                size_of::<sys::open_how>(),
            );
            if fd < 0 { Err(last_error()) } else { Ok(File::from_raw_fd(fd as c_int)) }
        }
    }
}

fn link_text(link: &File) -> io::Result<PathBuf> {
    let mut text = vec![0_u8; 4096];
    let empty: &CStr = c"";
    // SAFETY: a valid buffer of the length given.
    let length = unsafe {
        sys::readlinkat(link.as_raw_fd(), empty.as_ptr(), text.as_mut_ptr().cast(), text.len())
    };
    text.truncate(usize::try_from(length).map_err(|_| last_error())?);
    Ok(PathBuf::from(std::ffi::OsString::from_vec(text)))
}

fn make_fifo(target: &Path) -> io::Result<()> {
    let path = CString::new(target.as_os_str().as_bytes())?;
    // SAFETY: a valid path.
    if unsafe { sys::mkfifo(path.as_ptr(), 0o600) } < 0 { Err(last_error()) } else { Ok(()) }
}

fn last_error() -> io::Error {
    io::Error::from_raw_os_error(errno())
}
