//! The system interface of the zygote's library: constants and calls, declared by hand.
//!
//! The library is compiled by `build.rs` straight with `rustc`, without any crate, so that nothing
//! but this file and glibc stands between it and the kernel. Wrappers return the call's value or
//! the error number.

#![allow(non_camel_case_types)]

use std::ffi::CStr;
pub(crate) use std::ffi::{c_char, c_int, c_long, c_ulong, c_void};

pub(crate) type pid_t = c_int;

pub(crate) const SIGINT: c_int = 2;
pub(crate) const SIGKILL: c_int = 9;
pub(crate) const SIGCHLD: c_int = 17;
pub(crate) const SIGSYS: c_int = 31;
pub(crate) const SIG_IGN: usize = 1;

pub(crate) const CLONE_VM: c_int = 0x100;
pub(crate) const CLONE_FS: c_int = 0x200;
pub(crate) const CLONE_FILES: c_int = 0x400;
pub(crate) const CLONE_PARENT: c_int = 0x8000;
pub(crate) const CLONE_CHILD_CLEARTID: c_int = 0x20_0000;
pub(crate) const CLONE_CHILD_SETTID: c_int = 0x0100_0000;
pub(crate) const CLONE_NEWNS: c_int = 0x0002_0000;
pub(crate) const CLONE_NEWUTS: c_int = 0x0400_0000;
pub(crate) const CLONE_NEWIPC: c_int = 0x0800_0000;
pub(crate) const CLONE_NEWUSER: c_int = 0x1000_0000;
pub(crate) const CLONE_NEWPID: c_int = 0x2000_0000;
pub(crate) const CLONE_NEWNET: c_int = 0x4000_0000;

pub(crate) const MS_NOSUID: c_ulong = 2;
pub(crate) const MS_NODEV: c_ulong = 4;
pub(crate) const MS_NOEXEC: c_ulong = 8;
pub(crate) const MS_BIND: c_ulong = 4096;
pub(crate) const MS_REC: c_ulong = 16384;
pub(crate) const MS_PRIVATE: c_ulong = 1 << 18;
pub(crate) const MNT_DETACH: c_int = 2;

pub(crate) const O_RDONLY: c_int = 0;
pub(crate) const O_WRONLY: c_int = 1;
pub(crate) const O_CREAT: c_int = 0o100;
pub(crate) const O_TRUNC: c_int = 0o1000;
pub(crate) const O_CLOEXEC: c_int = 0o2_000_000;
#[cfg(target_arch = "x86_64")]
pub(crate) const O_DIRECTORY: c_int = 0o200_000;
#[cfg(target_arch = "aarch64")]
pub(crate) const O_DIRECTORY: c_int = 0o40_000;

pub(crate) const PR_SET_PDEATHSIG: c_int = 1;
pub(crate) const PR_SET_DUMPABLE: c_int = 4;
pub(crate) const PR_SET_SECCOMP: c_int = 22;
pub(crate) const PR_GET_TID_ADDRESS: c_int = 40;
pub(crate) const PR_CAPBSET_DROP: c_int = 24;
pub(crate) const PR_SET_NO_NEW_PRIVS: c_int = 38;
pub(crate) const PR_SET_THP_DISABLE: c_int = 41;
pub(crate) const SECCOMP_MODE_FILTER: c_ulong = 2;
pub(crate) const SECCOMP_SET_MODE_FILTER: c_ulong = 1;
pub(crate) const SECCOMP_FILTER_FLAG_NEW_LISTENER: c_ulong = 8;
/// `ioctl`s of a filter's listener, and the flag of an answer that lets the call run.
pub(crate) const SECCOMP_NOTIF_RECV: c_ulong = 0xc050_2100;
pub(crate) const SECCOMP_NOTIF_SEND: c_ulong = 0xc018_2101;
pub(crate) const SECCOMP_CONTINUE: u32 = 1;
/// `ioctl` of a process descriptor: its mount namespace, as a descriptor.
pub(crate) const PIDFD_GET_MNT_NAMESPACE: c_ulong = 0xff03;
pub(crate) const LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET: u64 = 1;
pub(crate) const LANDLOCK_SCOPE_SIGNAL: u64 = 2;

pub(crate) const RLIMIT_CPU: c_int = 0;
pub(crate) const RLIMIT_FSIZE: c_int = 1;
pub(crate) const RLIMIT_CORE: c_int = 4;
pub(crate) const RLIMIT_NPROC: c_int = 6;
pub(crate) const RLIMIT_NOFILE: c_int = 7;
pub(crate) const RLIMIT_MEMLOCK: c_int = 8;
pub(crate) const RLIMIT_AS: c_int = 9;
pub(crate) const RLIMIT_SIGPENDING: c_int = 11;
pub(crate) const RLIMIT_MSGQUEUE: c_int = 12;
pub(crate) const RLIMIT_NICE: c_int = 13;
pub(crate) const RLIMIT_RTPRIO: c_int = 14;

pub(crate) const AF_UNIX: c_int = 1;
pub(crate) const SOCK_STREAM: c_int = 1;
pub(crate) const SOCK_CLOEXEC: c_int = O_CLOEXEC;
pub(crate) const SOL_SOCKET: c_int = 1;
pub(crate) const SCM_RIGHTS: c_int = 1;
pub(crate) const MSG_CMSG_CLOEXEC: c_int = 0x4000_0000;
pub(crate) const MSG_NOSIGNAL: c_int = 0x4000;
pub(crate) const POLLIN: i16 = 1;

pub(crate) const PROT_READ: c_int = 1;
pub(crate) const PROT_WRITE: c_int = 2;
pub(crate) const MAP_SHARED: c_int = 1;
pub(crate) const MAP_PRIVATE: c_int = 2;
pub(crate) const MAP_ANONYMOUS: c_int = 0x20;
pub(crate) const MAP_NORESERVE: c_int = 0x4000;
pub(crate) const MADV_DONTFORK: c_int = 10;
pub(crate) const MADV_HUGEPAGE: c_int = 14;
pub(crate) const MADV_NOHUGEPAGE: c_int = 15;

pub(crate) const PRIO_PGRP: c_int = 1;
pub(crate) const PRIO_USER: c_int = 2;
pub(crate) const MFD_CLOEXEC: u32 = 1;
pub(crate) const EPERM: c_int = 1;
pub(crate) const ENOENT: c_int = 2;
pub(crate) const EINTR: c_int = 4;
pub(crate) const EAGAIN: c_int = 11;

#[cfg(target_arch = "x86_64")]
pub(crate) mod number {
    use super::c_long;
    pub(crate) const PAUSE: c_long = 34;
    pub(crate) const CLONE: c_long = 56;
    pub(crate) const UNSHARE: c_long = 272;
    pub(crate) const SECCOMP: c_long = 317;
    pub(crate) const NEWFSTATAT: c_long = 262;
    pub(crate) const GETDENTS64: c_long = 217;
    pub(crate) const RT_SIGACTION: c_long = 13;
    pub(crate) const PRCTL: c_long = 157;
    pub(crate) const CAPSET: c_long = 126;
    pub(crate) const PIVOT_ROOT: c_long = 155;
    pub(crate) const SETRESUID: c_long = 117;
    pub(crate) const SETRESGID: c_long = 119;
    pub(crate) const SETGROUPS: c_long = 116;
}
#[cfg(target_arch = "aarch64")]
pub(crate) mod number {
    use super::c_long;
    pub(crate) const RT_SIGACTION: c_long = 134;
    pub(crate) const CLONE: c_long = 220;
    pub(crate) const UNSHARE: c_long = 97;
    pub(crate) const SECCOMP: c_long = 277;
    pub(crate) const NEWFSTATAT: c_long = 79;
    pub(crate) const GETDENTS64: c_long = 61;
    pub(crate) const PRCTL: c_long = 167;
    pub(crate) const CAPSET: c_long = 91;
    pub(crate) const PIVOT_ROOT: c_long = 41;
    pub(crate) const SETRESUID: c_long = 147;
    pub(crate) const SETRESGID: c_long = 149;
    pub(crate) const SETGROUPS: c_long = 159;
}
/// Calls whose numbers all architectures share.
pub(crate) const PIDFD_SEND_SIGNAL: c_long = 424;
pub(crate) const PIDFD_OPEN: c_long = 434;
pub(crate) const CLOSE_RANGE: c_long = 436;
pub(crate) const OPENAT2: c_long = 437;
pub(crate) const MOUNT_SETATTR: c_long = 442;
pub(crate) const LANDLOCK_CREATE_RULESET: c_long = 444;
pub(crate) const LANDLOCK_RESTRICT_SELF: c_long = 446;

#[repr(C)]
pub(crate) struct rlimit {
    pub(crate) soft: u64,
    pub(crate) hard: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct timeval {
    pub(crate) seconds: i64,
    pub(crate) microseconds: i64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct rusage {
    pub(crate) user: timeval,
    pub(crate) system: timeval,
    pub(crate) max_resident_kib: c_long,
    pub(crate) unused: [c_long; 3],
    pub(crate) minor_faults: c_long,
    pub(crate) rest: [c_long; 9],
}

#[repr(C)]
pub(crate) struct pollfd {
    pub(crate) fd: c_int,
    pub(crate) events: i16,
    pub(crate) revents: i16,
}

#[repr(C)]
pub(crate) struct iovec {
    pub(crate) base: *mut c_void,
    pub(crate) length: usize,
}

#[repr(C)]
pub(crate) struct msghdr {
    pub(crate) name: *mut c_void,
    pub(crate) name_length: u32,
    pub(crate) iov: *mut iovec,
    pub(crate) iov_length: usize,
    pub(crate) control: *mut c_void,
    pub(crate) control_length: usize,
    pub(crate) flags: c_int,
}

/// A control message with room for eight descriptors.
#[repr(C)]
pub(crate) struct Rights {
    pub(crate) length: usize,
    pub(crate) level: c_int,
    pub(crate) kind: c_int,
    pub(crate) descriptors: [c_int; 8],
}

/// Bytes of [`Rights`] before the descriptors.
pub(crate) const RIGHTS_HEAD: usize = 16;

#[repr(C)]
pub(crate) struct open_how {
    pub(crate) flags: u64,
    pub(crate) mode: u64,
    pub(crate) resolve: u64,
}
pub(crate) const RESOLVE_NO_SYMLINKS: u64 = 0x04;
pub(crate) const RESOLVE_BENEATH: u64 = 0x08;

#[repr(C)]
pub(crate) struct mount_attr {
    pub(crate) set: u64,
    pub(crate) clear: u64,
    pub(crate) propagation: u64,
    pub(crate) user_namespace: u64,
}
pub(crate) const MOUNT_ATTR_RDONLY: u64 = 1;
pub(crate) const MOUNT_ATTR_NOSUID: u64 = 2;
pub(crate) const MOUNT_ATTR_NODEV: u64 = 4;
pub(crate) const AT_RECURSIVE: c_int = 0x8000;
pub(crate) const AT_FDCWD: c_int = -100;

#[repr(C)]
pub(crate) struct sock_fprog {
    pub(crate) length: u16,
    pub(crate) filter: *const c_void,
}

/// A call that a filter stopped, as its listener sees it.
#[repr(C)]
#[derive(Default)]
pub(crate) struct seccomp_notif {
    pub(crate) id: u64,
    /// The calling thread, in the reader's process id namespace.
    pub(crate) pid: pid_t,
    pub(crate) flags: u32,
    pub(crate) number: c_int,
    pub(crate) architecture: u32,
    pub(crate) instruction: u64,
    pub(crate) arguments: [u64; 6],
}

#[repr(C)]
pub(crate) struct seccomp_notif_resp {
    pub(crate) id: u64,
    pub(crate) value: i64,
    pub(crate) error: c_int,
    pub(crate) flags: u32,
}

#[repr(C)]
pub(crate) struct landlock_ruleset_attr {
    pub(crate) handled_access_fs: u64,
    pub(crate) handled_access_net: u64,
    pub(crate) scoped: u64,
}

/// glibc's `struct sigaction`.
#[repr(C)]
pub(crate) struct sigaction_t {
    pub(crate) handler: usize,
    pub(crate) mask: [u64; 16],
    pub(crate) flags: c_int,
    pub(crate) restorer: usize,
}
pub(crate) const SA_SIGINFO: c_int = 4;
pub(crate) const SA_NODEFER: c_int = 0x4000_0000;
pub(crate) const SA_RESETHAND: c_int = 0x8000_0000_u32.cast_signed();

unsafe extern "C" {
    pub(crate) fn syscall(number: c_long, ...) -> c_long;
    pub(crate) fn __errno_location() -> *mut c_int;
    pub(crate) fn fork() -> pid_t;
    pub(crate) fn clone(
        body: extern "C" fn(*mut c_void) -> c_int,
        stack_top: *mut c_void,
        flags: c_int,
        argument: *mut c_void,
    ) -> c_int;
    pub(crate) fn wait4(
        pid: pid_t,
        status: *mut c_int,
        options: c_int,
        usage: *mut rusage,
    ) -> pid_t;
    pub(crate) fn waitid(
        kind: c_int,
        id: pid_t,
        information: *mut [u64; 16],
        options: c_int,
    ) -> c_int;
    pub(crate) fn kill(pid: pid_t, signal: c_int) -> c_int;
    pub(crate) fn getpid() -> pid_t;
    pub(crate) fn getuid() -> u32;
    pub(crate) fn getgid() -> u32;
    pub(crate) fn setsid() -> pid_t;
    pub(crate) fn unshare(flags: c_int) -> c_int;
    pub(crate) fn setns(fd: c_int, flags: c_int) -> c_int;
    pub(crate) fn sethostname(name: *const c_char, length: usize) -> c_int;
    pub(crate) fn mount(
        source: *const c_char,
        target: *const c_char,
        kind: *const c_char,
        flags: c_ulong,
        data: *const c_char,
    ) -> c_int;
    pub(crate) fn umount2(target: *const c_char, flags: c_int) -> c_int;
    pub(crate) fn chdir(path: *const c_char) -> c_int;
    pub(crate) fn open(path: *const c_char, flags: c_int, ...) -> c_int;
    pub(crate) fn openat(directory: c_int, path: *const c_char, flags: c_int, ...) -> c_int;
    pub(crate) fn readlinkat(
        directory: c_int,
        path: *const c_char,
        into: *mut c_char,
        count: usize,
    ) -> isize;
    pub(crate) fn mkfifo(path: *const c_char, mode: u32) -> c_int;
    pub(crate) fn ioctl(fd: c_int, request: c_ulong, ...) -> c_int;
    pub(crate) fn fcntl(fd: c_int, command: c_int, ...) -> c_int;
    pub(crate) fn close(fd: c_int) -> c_int;
    pub(crate) fn read(fd: c_int, into: *mut c_void, count: usize) -> isize;
    pub(crate) fn write(fd: c_int, from: *const c_void, count: usize) -> isize;
    pub(crate) fn lseek(fd: c_int, offset: i64, whence: c_int) -> i64;
    pub(crate) fn dup2(from: c_int, to: c_int) -> c_int;
    pub(crate) fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int;
    pub(crate) fn pipe2(ends: *mut c_int, flags: c_int) -> c_int;
    pub(crate) fn socketpair(
        family: c_int,
        kind: c_int,
        protocol: c_int,
        ends: *mut c_int,
    ) -> c_int;
    pub(crate) fn memfd_create(name: *const c_char, flags: u32) -> c_int;
    pub(crate) fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> isize;
    pub(crate) fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> isize;
    pub(crate) fn poll(fds: *mut pollfd, count: c_ulong, timeout_ms: c_int) -> c_int;
    pub(crate) fn mmap(
        address: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        fd: c_int,
        offset: i64,
    ) -> *mut c_void;
    pub(crate) fn mremap(
        address: *mut c_void,
        old_length: usize,
        new_length: usize,
        flags: c_int,
        ...
    ) -> *mut c_void;
    pub(crate) fn mprotect(address: *mut c_void, length: usize, protection: c_int) -> c_int;
    pub(crate) fn munmap(address: *mut c_void, length: usize) -> c_int;
    pub(crate) fn madvise(address: *mut c_void, length: usize, advice: c_int) -> c_int;
    pub(crate) fn setrlimit(resource: c_int, limit: *const rlimit) -> c_int;
    pub(crate) fn setpriority(which: c_int, who: u32, priority: c_int) -> c_int;
    pub(crate) fn prctl(option: c_int, ...) -> c_int;
    pub(crate) fn sigaction(signal: c_int, new: *const sigaction_t, old: *mut sigaction_t)
    -> c_int;
    pub(crate) fn sigfillset(set: *mut [u64; 16]) -> c_int;
    pub(crate) fn sigprocmask(how: c_int, new: *const [u64; 16], old: *mut [u64; 16]) -> c_int;
    pub(crate) fn sigtimedwait(
        set: *const [u64; 16],
        information: *mut c_void,
        time: *const [i64; 2],
    ) -> c_int;
    pub(crate) fn raise(signal: c_int) -> c_int;
    pub(crate) fn _exit(status: c_int) -> !;
}
pub(crate) const F_SETFL: c_int = 4;
pub(crate) const SIG_SETMASK: c_int = 2;
pub(crate) const SIG_BLOCK: c_int = 0;

/// The error number of the last failed call.
pub(crate) fn errno() -> c_int {
    // SAFETY: glibc gives a valid pointer to this thread's error number.
    unsafe { *__errno_location() }
}

/// Inode of the file at `path`, following links; of `directory` itself where `path` is empty.
pub(crate) fn inode_at(directory: c_int, path: &CStr) -> Option<u64> {
    const AT_EMPTY_PATH: c_int = 0x1000;
    // `struct stat` starts with the device and the inode on both architectures, 64 bits each.
    let mut stat = [0_u64; 32];
    // SAFETY: valid path, and more room than any `struct stat` takes.
    let result = unsafe {
        syscall(number::NEWFSTATAT, directory, path.as_ptr(), stat.as_mut_ptr(), AT_EMPTY_PATH)
    };
    (result >= 0).then_some(stat[1])
}

/// Calls `visit` with each name in an open directory, from its beginning. False: it can't be read.
pub(crate) fn for_each_entry(directory: c_int, visit: &mut dyn FnMut(&CStr)) -> bool {
    /// Bytes of `struct linux_dirent64` before the name; its length stands at 16.
    const NAME: usize = 19;
    let mut buffer = [0_u8; 8 << 10];
    // SAFETY: our own descriptor.
    unsafe { lseek(directory, 0, 0) };
    loop {
        // SAFETY: a valid buffer of the length given.
        let length =
            unsafe { syscall(number::GETDENTS64, directory, buffer.as_mut_ptr(), buffer.len()) };
        let Ok(length) = usize::try_from(length) else { return false };
        if length == 0 {
            return true;
        }
        let mut rest = &buffer[..length];
        while let Some(entry) = rest.get(NAME..) {
            if let Ok(name) = CStr::from_bytes_until_nul(entry) {
                visit(name);
            }
            rest = &rest[usize::from(u16::from_le_bytes([rest[16], rest[17]])).max(1)..];
        }
    }
}

/// Whether a process is this one's own child, alive or not yet waited for.
pub(crate) fn is_own_child(pid: pid_t) -> bool {
    const P_PID: c_int = 1;
    const WNOHANG: c_int = 1;
    const WEXITED: c_int = 4;
    const WNOWAIT: c_int = 0x0100_0000;
    let mut information = [0; 16];
    // SAFETY: room for a `siginfo_t`.
    unsafe { waitid(P_PID, pid, &raw mut information, WEXITED | WNOHANG | WNOWAIT) >= 0 }
}

/// Turns a call's return value into a result, naming what was tried.
pub(crate) fn check<T: PartialOrd + From<i8>>(
    what: &'static str,
    value: T,
) -> Result<T, (&'static str, c_int)> {
    if value < T::from(0) { Err((what, errno())) } else { Ok(value) }
}
