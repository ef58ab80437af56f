//! The zygote's own view of the machine: namespaces that all its children share, and a file tree
//! that holds only what Python needs.
//!
//! The tree is built on a fresh tmpfs from a list that the jail sends (see `view.rs` there), made
//! read-only, and becomes the root; the old root is detached, so that no descriptor-free path
//! leads back. Children copy this mount namespace and add their own `/tmp` and `/proc`.

use std::ffi::{CString, c_int};
use std::fs;
use std::io::Read as _;
use std::os::fd::FromRawFd as _;
use std::path::Path;

use crate::python::{PyOS_AfterFork_Child, PyOS_AfterFork_Parent, PyOS_BeforeFork};
use crate::sys::{self, check, errno};
use crate::{Failure, State, child};

/// Places where the new tree may be put together; the first that exists is hidden by it, so none
/// may be the source of a bind mount.
const STAGING: [&str; 4] = ["/sys", "/mnt", "/srv", "/media"];

/// See `enter` in `python.rs`.
pub(crate) fn enter(state: &mut State, control: c_int) -> Result<(), Failure> {
    let mut descriptors = [-1];
    child::receive(control, &mut [0; 8], &mut descriptors);
    check("receive the configuration", descriptors[0])?;
    let mut text = String::new();
    // SAFETY: the jail handed this descriptor over for us to read and close.
    let mut config = unsafe { fs::File::from_raw_fd(descriptors[0]) };
    config.read_to_string(&mut text).map_err(|error| fault("read configuration", &error))?;
    drop(config);

    let has = |word| text.lines().any(|line| line == word);
    state.privileged = has("mode privileged");
    state.degraded = has("degraded");
    if state.degraded {
        let filter = text.lines().find_map(|line| line.strip_prefix("filter\t"));
        state.filter = filter.map(unhex).unwrap_or_default();
        return Ok(());
    }
    let own = c"/proc/self/ns/pid";
    let mut flags = sys::CLONE_NEWNS | sys::CLONE_NEWNET | sys::CLONE_NEWIPC | sys::CLONE_NEWUTS;
    if state.privileged {
        // SAFETY: a valid path.
        let fd = unsafe { sys::open(own.as_ptr(), sys::O_RDONLY | sys::O_CLOEXEC) };
        state.own_pid_namespace = check("open /proc/self/ns/pid", fd)?;
    } else {
        flags |= sys::CLONE_NEWUSER | sys::CLONE_NEWPID;
    }
    // SAFETY: plain system calls on valid values.
    unsafe {
        let (uid, gid) = (sys::getuid(), sys::getgid());
        check("unshare namespaces", sys::unshare(flags))?;
        if !state.privileged {
            map_ids("0", uid, gid)?;
            // A process changes its pid namespace only by birth.
            become_first_process()?;
            let fd = sys::open(own.as_ptr(), sys::O_RDONLY | sys::O_CLOEXEC);
            state.own_pid_namespace = check("open own pid namespace", fd)?;
        }
        check("sethostname", sys::sethostname(c"sandbox".as_ptr(), 7))?;
    }
    mount(None, "/", None, sys::MS_REC | sys::MS_PRIVATE, None)?;
    build(state, &text)
}

/// Maps one id of this user namespace to the caller's own.
pub(crate) fn map_ids(inside: &str, uid: u32, gid: u32) -> Result<(), Failure> {
    let write = |path: &'static str, text: String| {
        fs::write(path, text).map_err(|error| fault(path, &error))
    };
    write("/proc/self/setgroups", "deny".to_owned())?;
    write("/proc/self/gid_map", format!("{inside} {gid} 1"))?;
    write("/proc/self/uid_map", format!("{inside} {uid} 1"))
}

/// Forks; the parent only waits, passes the end on and goes when it goes.
fn become_first_process() -> Result<(), Failure> {
    // SAFETY: single-threaded; the interpreter's own fork hooks are called around it.
    unsafe {
        PyOS_BeforeFork();
        let pid = sys::fork();
        if pid == 0 {
            PyOS_AfterFork_Child();
            sys::prctl(sys::PR_SET_PDEATHSIG, sys::SIGKILL);
            return Ok(());
        }
        if pid < 0 {
            let error = errno();
            PyOS_AfterFork_Parent();
            return Err(("fork the zygote into its namespace", error));
        }
        // Hold nothing open that others wait on.
        sys::syscall(sys::CLOSE_RANGE, 0_u32, u32::MAX, 0_u32);
        sys::wait4(pid, std::ptr::null_mut(), 0, std::ptr::null_mut());
        sys::_exit(0)
    }
}

fn build(state: &mut State, text: &str) -> Result<(), Failure> {
    let staging = STAGING
        .into_iter()
        .find(|path| Path::new(path).is_dir())
        .ok_or(("no directory to build the file tree on (/sys, /mnt, /srv, /media)", 2))?;
    let options = "mode=0755,size=16m";
    mount(Some("rocstar"), staging, Some("tmpfs"), sys::MS_NOSUID, Some(options))?;
    for line in text.lines() {
        let mut words = line.split('\t');
        let word = words.next().unwrap_or_default();
        let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        match word {
            "dir" => make_directory(&format!("{staging}{first}"))?,
            "link" => {
                let at = format!("{staging}{second}");
                make_parent(&at)?;
                std::os::unix::fs::symlink(first, &at)
                    .map_err(|error| fault("make a link of the file tree", &error))?;
            }
            "file" => {
                let at = format!("{staging}{first}");
                make_parent(&at)?;
                fs::write(at, unhex(second))
                    .map_err(|error| fault("write a file of the file tree", &error))?;
            }
            "bind" => bind(first, &format!("{staging}{first}"), sys::MOUNT_ATTR_NODEV)?,
            "device" => bind(first, &format!("{staging}{first}"), 0)?,
            "filter" => state.filter = unhex(first),
            "session_filter" => state.session_filter = unhex(first),
            // `mode` was read before; the jail and this library are built together, so there are
            // no other words.
            _ => {}
        }
    }
    make_directory(&format!("{staging}/tmp"))?;
    make_directory(&format!("{staging}/proc"))?;
    if !state.privileged {
        // The kernel lets a user namespace mount its own /proc only where one is visible already.
        let at = format!("{staging}/proc");
        let flags = sys::MS_NOSUID | sys::MS_NODEV | sys::MS_NOEXEC;
        mount(Some("proc"), &at, Some("proc"), flags, None)?;
    }
    set_attributes(staging, sys::MOUNT_ATTR_NODEV, 0)?;
    change_root(staging)
}

/// Binds `source`, with everything below it, read-only and without set-uid.
fn bind(source: &str, target: &str, more: u64) -> Result<(), Failure> {
    if Path::new(source).is_dir() {
        make_directory(target)?;
    } else {
        make_parent(target)?;
        fs::write(target, []).map_err(|error| fault("make a mount point", &error))?;
    }
    mount(Some(source), target, None, sys::MS_BIND | sys::MS_REC, None)?;
    set_attributes(target, more, sys::AT_RECURSIVE)
}

fn set_attributes(target: &str, more: u64, flags: c_int) -> Result<(), Failure> {
    let attributes = sys::mount_attr {
        set: sys::MOUNT_ATTR_RDONLY | sys::MOUNT_ATTR_NOSUID | more,
        clear: 0,
        propagation: 0,
        user_namespace: 0,
    };
    let target = c_string(target)?;
    // SAFETY: valid path and structure, of the size given.
    let result = unsafe {
        sys::syscall(
            sys::MOUNT_SETATTR,
            sys::AT_FDCWD,
            target.as_ptr(),
            flags,
            &raw const attributes,
            size_of::<sys::mount_attr>(),
        )
    };
    check("make a mount read-only (needs Linux 5.12)", result).map(|_| ())
}

fn change_root(staging: &str) -> Result<(), Failure> {
    let staging = c_string(staging)?;
    // SAFETY: valid paths. The two-dot-free form of pivot_root(2): the new root and the place of
    // the old one are the same directory, and the old one is then detached.
    unsafe {
        check("enter the file tree", sys::chdir(staging.as_ptr()))?;
        let dot = c".".as_ptr();
        check("pivot_root", sys::syscall(sys::number::PIVOT_ROOT, dot, dot))?;
        check("detach the old root", sys::umount2(dot, sys::MNT_DETACH))?;
        check("enter the root", sys::chdir(c"/".as_ptr()))?;
    }
    Ok(())
}

/// See `settle` in `python.rs`.
pub(crate) fn settle(state: &State) -> Result<(), Failure> {
    let limits = [
        (sys::RLIMIT_CORE, 0),
        (sys::RLIMIT_MEMLOCK, 0),
        (sys::RLIMIT_SIGPENDING, 1024),
        (sys::RLIMIT_MSGQUEUE, 0),
        (sys::RLIMIT_NICE, 0),
        (sys::RLIMIT_RTPRIO, 0),
    ];
    // SAFETY: plain system calls on valid values.
    unsafe {
        for (resource, value) in limits {
            let limit = sys::rlimit { soft: value, hard: value };
            check("setrlimit", sys::setrlimit(resource, &raw const limit))?;
        }
        check("no_new_privs", sys::prctl(sys::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        if state.privileged {
            drop_bounding_set()?;
        }
        sys::prctl(sys::PR_SET_DUMPABLE, 0);
    }
    Ok(())
}

/// Empties the capability bounding set: no later `exec` can gain any.
pub(crate) fn drop_bounding_set() -> Result<(), Failure> {
    for capability in 0..64 {
        // SAFETY: a plain system call. The first unknown capability number ends the list.
        if unsafe { sys::prctl(sys::PR_CAPBSET_DROP, capability, 0, 0, 0) } < 0 {
            return match errno() {
                22 if capability > 0 => Ok(()),
                error => Err(("drop the capability bounding set", error)),
            };
        }
    }
    Ok(())
}

fn make_directory(path: &str) -> Result<(), Failure> {
    fs::create_dir_all(path).map_err(|error| fault("make a directory of the file tree", &error))
}

fn make_parent(path: &str) -> Result<(), Failure> {
    Path::new(path).parent().and_then(Path::to_str).map_or(Ok(()), make_directory)
}

pub(crate) fn mount(
    source: Option<&str>,
    target: &str,
    kind: Option<&str>,
    flags: sys::c_ulong,
    options: Option<&str>,
) -> Result<(), Failure> {
    let source = source.map(c_string).transpose()?;
    let target_text = c_string(target)?;
    let kind = kind.map(c_string).transpose()?;
    let options = options.map(c_string).transpose()?;
    let pointer = |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |t| t.as_ptr());
    // SAFETY: every pointer is null or a string that lives past the call.
    let result = unsafe {
        sys::mount(pointer(&source), target_text.as_ptr(), pointer(&kind), flags, pointer(&options))
    };
    check("mount", result).map(|_| ()).inspect_err(|_| {
        let line = format!("rocstar: mount on {target} (flags {flags:#x})\n");
        // SAFETY: a valid buffer.
        unsafe { sys::write(2, line.as_ptr().cast(), line.len()) };
    })
}

fn c_string(text: &str) -> Result<CString, Failure> {
    CString::new(text).map_err(|_| ("a path holds a NUL byte", 22))
}

pub(crate) fn fault(what: &'static str, error: &std::io::Error) -> Failure {
    (what, error.raw_os_error().unwrap_or(5))
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).unwrap_or(0) as u8;
    text.as_bytes().chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}
