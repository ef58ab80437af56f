//! The system call allow-list: reviewed data in, the filter's two programs for the
//! kernel out.
//!
//! Pure: nothing here installs anything. The data is `policy/seccomp.toml` (groups, each with its
//! reason) over `policy/system_calls.txt` (names and numbers); `docs/seccomp.md` shows it as a
//! table.
//!
//! Invariants, each kept by a property test that runs the compiled programs in an interpreter:
//! every known call gets the action of its one group, whatever its arguments; every unknown number
//! gets `ENOSYS`, so that C libraries fall back as on an older kernel; no call through another ABI
//! runs. Two kinds of death say so to the supervisor: a SIGSYS *with* a call number is a trap on
//! the listed calls and on x32 numbers ([`name_of`] names both); a SIGSYS *without* one is the
//! kernel's kill on a 32-bit call.
//!
//! What it does not do: a filter sees numbers and argument words, never memory. Paths, socket
//! addresses and clone3's flags are out of its sight; the namespaces answer for the first two, and
//! clone3 is refused.

mod policy;
mod program;
mod setup;
#[cfg(test)]
mod tests;

use policy::{Action, Decision, Errno, Group, Policy, SystemCall};
use program::{Instruction, Range};

pub(crate) use policy::PolicyError;

/// Bit that marks a number as one of the x32 ABI, on x86_64.
const X32_BIT: u32 = 0x4000_0000;

/// Filter for calls newer than the table and for gaps in it.
const UNKNOWN: Decision = Decision { action: Action::Errno(Errno::ENOSYS), condition: None };
const X32: Decision = Decision { action: Action::Trap, condition: None };

/// Programs to give to `prctl(PR_SET_SECCOMP)`, once `no_new_privs` is set: each an array of
/// `struct sock_filter`, as bytes in this machine's order. Only both together are the allow-list.
#[derive(Debug)]
pub(crate) struct Filter {
    /// For the zygote, which its forks inherit: all but what they still do themselves.
    pub(crate) shared: Vec<u8>,
    /// For each child, just before its program: the rest.
    pub(crate) child: Vec<u8>,
}

/// Compiles the allow-list for the architecture that this binary runs on.
///
/// # Errors
/// The embedded policy is not consistent; the tests of this module exclude it.
pub(crate) fn compile() -> Result<Filter, PolicyError> {
    let bytes =
        |program: Vec<Instruction>| program.into_iter().flat_map(Instruction::to_bytes).collect();
    let [shared, child] = compile_for(&Policy::read()?, Architecture::HERE).map(bytes);
    Ok(Filter { shared, child })
}

/// The name of a system call by the number that SIGSYS reports, for outcomes.
pub(crate) fn name_of(number: u32) -> Option<String> {
    let name_in_table = |wanted: u32| {
        let table = policy::system_calls().ok()?;
        let call = table.iter().find(|call| Architecture::HERE.number(call) == Some(wanted));
        call.map(|call| call.name.to_owned())
    };
    match Architecture::HERE {
        Architecture::X86_64 if number >= X32_BIT => Some(
            name_in_table(number & !X32_BIT)
                .map_or_else(|| format!("x32 call {number:#x}"), |name| format!("{name} (x32)")),
        ),
        Architecture::X86_64 | Architecture::Aarch64 => name_in_table(number),
    }
}

/// An architecture with its own numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(test), expect(dead_code, reason = "one is this machine's, tests take both"))]
enum Architecture {
    X86_64,
    Aarch64,
}

impl Architecture {
    #[cfg(target_arch = "x86_64")]
    const HERE: Self = Self::X86_64;
    #[cfg(target_arch = "aarch64")]
    const HERE: Self = Self::Aarch64;

    /// `AUDIT_ARCH_*` of linux/audit.h: ELF machine, 64-bit, little-endian.
    const fn audit_value(self) -> u32 {
        match self {
            Self::X86_64 => 0xc000_003e,
            Self::Aarch64 => 0xc000_00b7,
        }
    }

    const fn number(self, call: &SystemCall) -> Option<u32> {
        match self {
            Self::X86_64 => call.x86_64,
            Self::Aarch64 => call.aarch64,
        }
    }
}

/// The shared program and the child's.
fn compile_for(policy: &Policy, architecture: Architecture) -> [Vec<Instruction>; 2] {
    let decisions: Vec<Decision> = policy.groups.iter().map(Group::decision).collect();
    let (mut shared, mut child) = (Vec::new(), Vec::new());
    for (call, group) in &policy.calls {
        let Some(number) = architecture.number(call) else { continue };
        match policy.splits.get(call.name) {
            None => shared.push((number, &decisions[*group])),
            Some(split) => {
                shared.push((number, &split.shared));
                child.push((number, &split.child));
            }
        }
    }
    let mut shared = ranges(shared, &UNKNOWN);
    if architecture == Architecture::X86_64 {
        // The architecture word does not tell x32 from x86_64; the number does.
        shared.push(Range { first: X32_BIT, decision: &X32 });
    }
    [shared, ranges(child, &Decision::ALLOW)]
        .map(|ranges| program::assemble(architecture.audit_value(), &ranges))
}

/// Joins neighbours with the same decision and fills the gaps with `other`, from 0 to the end.
fn ranges<'a>(mut numbered: Vec<(u32, &'a Decision)>, other: &'a Decision) -> Vec<Range<'a>> {
    numbered.sort_by_key(|(number, _)| *number);
    let mut ranges: Vec<Range<'a>> = Vec::new();
    let mut next = 0;
    let mut push = |first: u32, decision: &'a Decision| {
        if ranges.last().is_none_or(|last| last.decision != decision) {
            ranges.push(Range { first, decision });
        }
    };
    for (number, decision) in numbered {
        if number > next {
            push(next, other);
        }
        push(number, decision);
        next = number + 1;
    }
    push(next, other);
    ranges
}
