//! Message sockets between the jail and the processes it runs.
//!
//! Each message is one packet, carries descriptors where needed, and arrives with the sender's
//! process id as the kernel knows it (so the jail sees ids of its own namespace, and no child can
//! name another's).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
    sockopt,
};

use crate::wire;

/// One end of a packet socket. The other end is another process.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

/// A message that arrived.
#[derive(Debug, Default)]
pub(crate) struct Message {
    /// The bytes; empty: the other end is closed.
    pub(crate) bytes: Vec<u8>,
    /// Descriptors that came along, closed on `exec`.
    pub(crate) descriptors: Vec<OwnedFd>,
    /// The sender's process id.
    pub(crate) sender: Option<u32>,
}

impl Socket {
    /// A pair: our end, and the end to give away.
    pub(crate) fn pair() -> io::Result<(Self, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        sockopt::set_socket_passcred(&ours, true)?;
        Ok((Self(ours), theirs))
    }

    pub(crate) fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        send_on(&self.0, bytes, descriptors)
    }

    /// Waits for a message until `deadline`; an error of kind `TimedOut` after it.
    pub(crate) fn receive_before(&self, deadline: Instant) -> io::Result<Message> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.readable_within(left)? {
                return self.receive();
            }
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    /// Whether a message, or the end, is there within `time`.
    pub(crate) fn readable_within(&self, time: Duration) -> io::Result<bool> {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        match poll(&mut fds, Some(&timespec(time))) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the next message; blocks where there is none.
    pub(crate) fn receive(&self) -> io::Result<Message> {
        let mut bytes = [0; wire::MAX_MESSAGE_BYTES];
        let mut space =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8), ScmCredentials(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = loop {
            let mut into = [IoSliceMut::new(&mut bytes)];
            match recvmsg(&self.0, &mut into, &mut control, flags) {
                Err(rustix::io::Errno::INTR) => {}
                // The other end died with unread messages in its queue.
                Err(rustix::io::Errno::CONNRESET) => return Ok(Message::default()),
                other => break other?,
            }
        };
        let mut message = Message { bytes: bytes[..received.bytes].to_vec(), ..Message::default() };
        for part in control.drain() {
            match part {
                RecvAncillaryMessage::ScmRights(descriptors) => {
                    message.descriptors.extend(descriptors);
                }
                RecvAncillaryMessage::ScmCredentials(sender) => {
                    message.sender = u32::try_from(sender.pid.as_raw_nonzero().get()).ok();
                }
                _ => {}
            }
        }
        Ok(message)
    }
}

/// Sends one message with descriptors on any Unix socket.
pub(crate) fn send_on(
    socket: &OwnedFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::other("too many descriptors for one message"));
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A duration for `poll`.
pub(crate) fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}
