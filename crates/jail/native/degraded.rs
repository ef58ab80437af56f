//! What is left where the host gives no namespaces, for servers that were told to go on so.
//!
//! The system call filter, the resource limits, the unprivileged user (where the server is root)
//! and the clean environment hold as everywhere. The file tree, the processes and the network of
//! the host are visible as far as the user may see them, and the private directory is an ordinary
//! one below the host's `/tmp`. Every report of such a server says `degraded`.
//!
//! Without a process id namespace, the keeper finds what a program left behind as its own
//! children: it adopts orphans, and kills until it has none.

use std::ffi::{CString, c_int};
use std::fs;
use std::path::PathBuf;

use crate::enter::fault;
use crate::sys::{self, check};
use crate::{Failure, State};

const PR_SET_CHILD_SUBREAPER: c_int = 36;

/// Makes this keeper the parent of whatever its programs orphan.
pub(crate) fn adopt_orphans() {
    // SAFETY: a plain system call.
    unsafe { sys::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

/// Kills and reaps every process that the keeper is the parent of, until there is none.
pub(crate) fn end_everything() {
    // SAFETY: a plain system call.
    let own = unsafe { sys::getpid() };
    let list = format!("/proc/{own}/task/{own}/children");
    loop {
        for child in fs::read_to_string(&list).unwrap_or_default().split_whitespace() {
            if let Ok(pid) = child.parse() {
                // SAFETY: our own, unreaped child.
                unsafe { sys::kill(pid, sys::SIGKILL) };
            }
        }
        // SAFETY: a plain system call; fails when there is no child.
        if unsafe { sys::wait4(-1, std::ptr::null_mut(), 0, std::ptr::null_mut()) } < 0 {
            return;
        }
    }
}

/// The private directory of the keeper's child with this number.
fn directory(number: u32) -> PathBuf {
    // SAFETY: a plain system call. In a child it is called before the fork.
    let keeper = unsafe { sys::getpid() };
    PathBuf::from(format!("/tmp/rocstar-{keeper}-{number}"))
}

/// Makes the private directory, before the fork.
pub(crate) fn make_directory(state: &State, uid: u32, number: u32) -> Result<PathBuf, Failure> {
    let path = directory(number);
    fs::create_dir(&path).map_err(|error| fault("make the private directory", &error))?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(&path, mode)
        .map_err(|error| fault("protect the private directory", &error))?;
    if state.privileged {
        std::os::unix::fs::chown(&path, Some(uid), Some(uid))
            .map_err(|error| fault("give the private directory away", &error))?;
    }
    Ok(path)
}

/// Enters the private directory, in the child; gives a descriptor of it.
pub(crate) fn enter(path: &std::path::Path) -> Result<c_int, Failure> {
    let path = CString::new(path.as_os_str().as_encoded_bytes())
        .map_err(|_| ("name of the private directory", 22))?;
    let flags = sys::O_RDONLY | sys::O_DIRECTORY | sys::O_CLOEXEC;
    // SAFETY: a valid path.
    unsafe {
        check("enter the private directory", sys::chdir(path.as_ptr()))?;
        check("open the private directory", sys::open(path.as_ptr(), flags))
    }
}
