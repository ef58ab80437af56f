//! The system call allow-list: reviewed data in, one filter program for the kernel out.
//!
//! Pure: nothing here installs anything. The data is `policy/seccomp.toml` (groups, each with its
//! reason) over `policy/system_calls.txt` (names and numbers); `docs/seccomp.md` shows it as a
//! table.
//!
//! Invariants, each kept by a property test that runs the compiled program in an interpreter:
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
#[cfg(test)]
mod tests;

use policy::{Action, Decision, Errno, Policy, SystemCall};
use program::Range;

pub(crate) use policy::PolicyError;

/// Bit that marks a number as one of the x32 ABI, on x86_64.
const X32_BIT: u32 = 0x4000_0000;

/// Filter for calls newer than the table and for gaps in it.
const UNKNOWN: Decision = Decision { action: Action::Errno(Errno::ENOSYS), condition: None };
const X32: Decision = Decision { action: Action::Trap, condition: None };

/// Who runs under a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// One program: what the policy calls a step of branching is refused by the kernel.
    Call,
    /// A live session: for such a step the kernel asks whoever holds the filter's listener.
    Session,
}

/// The program to give to `seccomp(SECCOMP_SET_MODE_FILTER)`, once `no_new_privs` is set.
#[derive(Debug)]
pub(crate) struct Filter {
    /// An array of `struct sock_filter`, as bytes in this machine's order.
    pub(crate) program: Vec<u8>,
}

/// Compiles the allow-list for the architecture that this binary runs on.
///
/// # Errors
/// The embedded policy is not consistent; the tests of this module exclude it.
pub(crate) fn compile(purpose: Purpose) -> Result<Filter, PolicyError> {
    let instructions = compile_for(&Policy::read()?, Architecture::HERE, purpose);
    let program = instructions.into_iter().flat_map(program::Instruction::to_bytes).collect();
    Ok(Filter { program })
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

fn compile_for(
    policy: &Policy,
    architecture: Architecture,
    purpose: Purpose,
) -> Vec<program::Instruction> {
    let decisions: Vec<Decision> = policy
        .groups
        .iter()
        .map(|group| Decision { action: group.action, condition: group.condition.clone() })
        .collect();
    let mut numbered: Vec<(u32, &Decision)> = policy
        .calls
        .iter()
        .filter_map(|(call, group)| Some((architecture.number(call)?, &decisions[*group])))
        .collect();
    numbered.sort_by_key(|(number, _)| *number);
    let mut ranges = ranges(&numbered);
    if architecture == Architecture::X86_64 {
        // The architecture word does not tell x32 from x86_64; the number does.
        ranges.push(Range { first: X32_BIT, decision: &X32 });
    }
    program::assemble(architecture.audit_value(), purpose, &ranges)
}

/// Joins neighbours with the same decision and fills the gaps, from 0 to the end.
fn ranges<'a>(numbered: &[(u32, &'a Decision)]) -> Vec<Range<'a>> {
    let mut ranges: Vec<Range<'a>> = Vec::new();
    let mut next = 0;
    let mut push = |first: u32, decision: &'a Decision| {
        if ranges.last().is_none_or(|last| last.decision != decision) {
            ranges.push(Range { first, decision });
        }
    };
    for &(number, decision) in numbered {
        if number > next {
            push(next, &UNKNOWN);
        }
        push(number, decision);
        next = number + 1;
    }
    push(next, &UNKNOWN);
    ranges
}
