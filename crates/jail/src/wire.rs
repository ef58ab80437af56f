//! What passes between the jail and the processes it runs: byte layouts, nothing else.
//!
//! This file is compiled twice: into the jail, and into the small library that the zygote loads
//! (`native/lib.rs`). Invariant: decoding never reads outside its input and never panics, whatever
//! the bytes; whatever a hostile program can write (the status page) is decoded on the jail's side
//! as untrusted. All integers are little-endian.

// Each side uses its own half.
#![allow(dead_code)]

/// Jail to keeper, on the slot's socket: end the program and all that it started. Like the next
/// three it is an [`Order`]: it names the child that it is meant for, since that one may be gone
/// when the order arrives, and another be parked in its place.
pub(crate) const KILL: u8 = 1;
/// Jail to keeper: lowest priority from now on.
pub(crate) const DEMOTE: u8 = 2;
/// Jail to keeper: interrupt the program (`SIGINT`).
pub(crate) const INTERRUPT: u8 = 3;
/// Jail to keeper: replace the parked child by one with another size of `/tmp` (the order's value).
pub(crate) const RESPAWN: u8 = 4;
/// Jail to keeper: the session on this socket is about to branch (an [`Order`] too); carries the
/// branch's own socket, on which the jail later says [`HELLO`] to let the branch go on.
pub(crate) const BRANCH: u8 = 5;

/// Child to jail: parked and isolated; its number follows (`u32`), descriptors come along (see
/// [`READY_DESCRIPTORS`]).
pub(crate) const READY: u8 = 16;
/// Keeper to jail: the program and all that it started are gone; an [`Exit`] follows.
pub(crate) const EXIT: u8 = 17;
/// Child to jail: could not be set up; text follows.
pub(crate) const FAILED: u8 = 18;
/// Keeper to jail: born. The kernel's credentials on the message name its process id.
pub(crate) const HELLO: u8 = 19;
/// Child to jail, on the channel for requests, live sessions only: the cell has ended.
pub(crate) const CELL_DONE: u8 = 20;
/// Child to jail, on the channel for requests, calls only: the program starts now. The channel is
/// closed with it, so that no program can take the word back and have itself run again.
pub(crate) const STARTED: u8 = 21;
/// Copier to jail, on a branch's socket: its surroundings are made; carries its private directory
/// and a descriptor of its process.
pub(crate) const BRANCHED: u8 = 21;

/// Descriptors that travel with [`READY`]: read ends of stdout and stderr, the channel for
/// requests, the private directory.
pub(crate) const READY_DESCRIPTORS: usize = 4;

/// Longest message on a slot's socket, in bytes.
pub(crate) const MAX_MESSAGE_BYTES: usize = 512;

/// What the jail asks a zygote for, with the slot's socket and status page attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spawn {
    /// User id that programs run under (privileged mode only).
    pub(crate) uid: u32,
    /// 1 for a live session, else 0.
    pub(crate) session: u32,
    /// Size of the private `/tmp`.
    pub(crate) tmp_bytes: u64,
}

impl Spawn {
    /// Length on the wire.
    pub(crate) const BYTES: usize = 16;

    pub(crate) fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.uid.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.session.to_le_bytes());
        bytes[8..].copy_from_slice(&self.tmp_bytes.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let spawn = Self { uid: reader.u32()?, session: reader.u32()?, tmp_bytes: reader.u64()? };
        reader.0.is_empty().then_some(spawn)
    }
}

/// What the jail tells a keeper to do with a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    /// [`KILL`], [`DEMOTE`], [`INTERRUPT`], [`RESPAWN`] or [`BRANCH`].
    pub(crate) kind: u8,
    /// The child's number, from its [`READY`].
    pub(crate) child: u32,
    /// See [`RESPAWN`].
    pub(crate) value: u64,
}

impl Order {
    pub(crate) const BYTES: usize = 1 + 4 + 8;

    pub(crate) fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0] = self.kind;
        bytes[1..5].copy_from_slice(&self.child.to_le_bytes());
        bytes[5..].copy_from_slice(&self.value.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let order = Self { kind: reader.u8()?, child: reader.u32()?, value: reader.u64()? };
        ((KILL..=BRANCH).contains(&order.kind) && reader.0.is_empty()).then_some(order)
    }
}

/// How a child ended, as its keeper saw it from `wait4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit {
    /// Wait status.
    pub(crate) status: i32,
    /// User plus system time of the child and the descendants it waited for, in microseconds.
    pub(crate) cpu_us: u64,
    /// Largest resident set, in KiB, pages shared with the zygote included.
    pub(crate) resident_kib: u64,
    /// Page faults that needed no input or output.
    pub(crate) minor_faults: u64,
}

impl Exit {
    pub(crate) const BYTES: usize = 1 + 4 + 8 + 8 + 8;

    pub(crate) fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0] = EXIT;
        bytes[1..5].copy_from_slice(&self.status.to_le_bytes());
        bytes[5..13].copy_from_slice(&self.cpu_us.to_le_bytes());
        bytes[13..21].copy_from_slice(&self.resident_kib.to_le_bytes());
        bytes[21..].copy_from_slice(&self.minor_faults.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        if reader.u8()? != EXIT {
            return None;
        }
        Some(Self {
            status: i32::from_le_bytes(reader.take(4)?.try_into().ok()?),
            cpu_us: reader.u64()?,
            resident_kib: reader.u64()?,
            minor_faults: reader.u64()?,
        })
    }
}

/// Fixed head of a request on its way to a parked child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestHead {
    /// Bytes after the head.
    pub(crate) body_bytes: u64,
    /// Proves on the status page that the trusted end of the run wrote it.
    pub(crate) nonce: [u8; 16],
    /// `RLIMIT_CPU`, in seconds.
    pub(crate) cpu_seconds: u64,
    /// `RLIMIT_AS`: the zygote's own address space is part of it.
    pub(crate) address_space_bytes: u64,
    /// `RLIMIT_FSIZE`.
    pub(crate) file_bytes: u64,
    /// `RLIMIT_NPROC`.
    pub(crate) processes: u64,
    /// See the `FLAG_` constants.
    pub(crate) flags: u32,
}

/// `RLIM_INFINITY`.
pub(crate) const UNLIMITED: u64 = u64::MAX;

/// Report the last expression.
pub(crate) const FLAG_LAST_EXPRESSION: u32 = 1;
/// There is a standard input.
pub(crate) const FLAG_STDIN: u32 = 2;
/// Live sessions only, without a body: branch. Descriptors come along (see
/// [`BRANCH_DESCRIPTORS`]).
pub(crate) const FLAG_BRANCH: u32 = 4;
/// With [`FLAG_BRANCH`]: the session shuts itself off from what it leaves behind.
pub(crate) const FLAG_SCOPE_ORIGIN: u32 = 8;
/// With [`FLAG_BRANCH`]: the branch shuts itself off from what it came from.
pub(crate) const FLAG_SCOPE_BRANCH: u32 = 16;

/// Descriptors that travel with [`FLAG_BRANCH`]: the branch's ends of stdout, stderr and the
/// channel for requests, and its status page.
pub(crate) const BRANCH_DESCRIPTORS: usize = 4;

impl RequestHead {
    pub(crate) const BYTES: usize = 8 + 16 + 4 * 8 + 4;

    pub(crate) fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[8..24].copy_from_slice(&self.nonce);
        bytes[24..32].copy_from_slice(&self.cpu_seconds.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.address_space_bytes.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.file_bytes.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.processes.to_le_bytes());
        bytes[56..].copy_from_slice(&self.flags.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        Some(Self {
            body_bytes: reader.u64()?,
            nonce: reader.take(16)?.try_into().ok()?,
            cpu_seconds: reader.u64()?,
            address_space_bytes: reader.u64()?,
            file_bytes: reader.u64()?,
            processes: reader.u64()?,
            flags: reader.u32()?,
        })
    }
}

/// The body of a request: program, arguments, standard input, files, each with its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestBody<'a> {
    pub(crate) program: &'a [u8],
    /// Arguments, each ended by a NUL byte.
    pub(crate) arguments: &'a [u8],
    pub(crate) stdin: &'a [u8],
    /// Pairs of path and content, each with its length; [`RequestBody::next_file`] takes them off.
    pub(crate) files: &'a [u8],
}

impl<'a> RequestBody<'a> {
    /// Splits a body.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        Some(Self {
            program: reader.part()?,
            arguments: reader.part()?,
            stdin: reader.part()?,
            files: reader.0,
        })
    }

    /// Takes the next file off `files`.
    pub(crate) fn next_file(files: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let mut reader = Reader(files);
        let file = (reader.part()?, reader.part()?);
        *files = reader.0;
        Some(file)
    }
}

/// What the trusted end of a run says about it. Written by the program's own process, so decoded
/// as untrusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said<'a> {
    /// One of the `SAID_` constants.
    pub(crate) kind: u8,
    /// 1-based; 0: unknown.
    pub(crate) line: u32,
    /// Exception class.
    pub(crate) name: &'a [u8],
    /// Exception text.
    pub(crate) message: &'a [u8],
    /// Value of the last expression.
    pub(crate) value: Option<&'a [u8]>,
}

/// The program ran to its end.
pub(crate) const SAID_OK: u8 = 1;
/// An exception reached the top.
pub(crate) const SAID_EXCEPTION: u8 = 2;
/// `sys.exit`.
pub(crate) const SAID_EXIT: u8 = 3;
/// `MemoryError` reached the top.
pub(crate) const SAID_MEMORY: u8 = 4;
/// `OSError` with `ENOSPC` or `EDQUOT` reached the top.
pub(crate) const SAID_TMP_FULL: u8 = 5;
/// `OSError` with `EFBIG` reached the top.
pub(crate) const SAID_FILE_TOO_BIG: u8 = 6;
/// `fork` or a new thread failed with `EAGAIN`, and that reached the top.
pub(crate) const SAID_PROCESSES: u8 = 7;

/// Size of the status page, in bytes.
pub(crate) const STATUS_BYTES: usize = 256 << 10;
/// Offset of the number of a trapped system call plus one, of the nonce, and of what was said.
pub(crate) const STATUS_TRAPPED: usize = 4;
pub(crate) const STATUS_NONCE: usize = 8;
pub(crate) const STATUS_SAID: usize = 24;
/// Longest part of what is said (name, message, value), in bytes.
pub(crate) const MAX_SAID_BYTES: usize = 64 << 10;

impl<'a> Said<'a> {
    /// Decodes `page[STATUS_SAID..]`.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        let kind = reader.u8()?;
        if !(SAID_OK..=SAID_PROCESSES).contains(&kind) {
            return None;
        }
        let line = reader.u32()?;
        let name = reader.part()?;
        let message = reader.part()?;
        let value = match reader.u8()? {
            0 => None,
            _ => Some(reader.part()?),
        };
        Some(Self { kind, line, name, message, value })
    }

    /// Writes to `out` and gives the length, or nothing where it does not fit.
    pub(crate) fn encode(&self, out: &mut [u8]) -> Option<usize> {
        let mut writer = Writer { out, at: 0 };
        writer.put(&[self.kind])?;
        writer.put(&self.line.to_le_bytes())?;
        writer.part(self.name)?;
        writer.part(self.message)?;
        match self.value {
            None => writer.put(&[0])?,
            Some(value) => {
                writer.put(&[1])?;
                writer.part(value)?;
            }
        }
        Some(writer.at)
    }
}

struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.at.checked_add(bytes.len())?;
        self.out.get_mut(self.at..end)?.copy_from_slice(bytes);
        self.at = end;
        Some(())
    }

    fn part(&mut self, bytes: &[u8]) -> Option<()> {
        self.put(&u32::try_from(bytes.len()).ok()?.to_le_bytes())?;
        self.put(bytes)
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(count)?;
        self.0 = tail;
        Some(head)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    /// A `u32` length, then that many bytes.
    fn part(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.u32()?).ok()?;
        self.take(length)
    }
}
