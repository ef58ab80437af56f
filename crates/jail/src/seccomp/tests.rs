//! The compiled program against the reviewed table: in an interpreter over all numbers and random
//! arguments, and in the kernel under a real Python.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use pretty_assertions::assert_eq;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::policy::{Action, Condition, Errno, Policy, Refusal, SystemCall};
use super::program::{self, Instruction, verdict};
use super::{Architecture, Purpose, X32_BIT, compile, compile_for, name_of};

/// What the kernel gives to a filter.
#[derive(Debug, Clone, Copy)]
struct Call {
    architecture: u32,
    number: u32,
    arguments: [u64; 6],
}

impl Call {
    /// The word at an offset of `struct seccomp_data`.
    fn word(&self, offset: u32) -> u32 {
        match offset {
            0 => self.number,
            4 => self.architecture,
            16..64 if offset.is_multiple_of(4) => {
                let argument = self.arguments[(offset as usize - 16) / 8];
                (argument >> (8 * (offset % 8))) as u32
            }
            _ => panic!("load at {offset}"),
        }
    }
}

/// Runs a filter as the kernel does. Returns its verdict and the number of instructions executed.
fn interpret(program: &[Instruction], call: &Call) -> (u32, usize) {
    let (mut accumulator, mut at, mut steps) = (0, 0, 0);
    loop {
        let Instruction { code, jump_if_true, jump_if_false, operand } = program[at];
        steps += 1;
        at += 1;
        match code {
            0x20 => accumulator = call.word(operand),
            0x54 => accumulator &= operand,
            0x05 => at += operand as usize,
            0x15 if accumulator == operand => at += usize::from(jump_if_true),
            0x35 if accumulator >= operand => at += usize::from(jump_if_true),
            0x15 | 0x35 => at += usize::from(jump_if_false),
            0x06 => return (operand, steps),
            _ => panic!("instruction {code:#x}"),
        }
    }
}

/// The table's answer, found without any of the compiler.
fn expected(policy: &Policy, architecture: Architecture, purpose: Purpose, call: &Call) -> u32 {
    if call.architecture != architecture.audit_value() {
        return program::KILL_PROCESS;
    }
    if architecture == Architecture::X86_64 && call.number >= X32_BIT {
        return program::TRAP;
    }
    let mut known = policy.calls.iter();
    let Some((_, group)) = known.find(|(it, _)| architecture.number(it) == Some(call.number))
    else {
        return verdict(Action::Errno(Errno::ENOSYS), purpose);
    };
    let group = &policy.groups[*group];
    let action = match &group.condition {
        Some(Condition { argument, mask, equals, otherwise })
            if !equals.contains(&(call.arguments[usize::from(*argument)] as u32 & mask)) =>
        {
            *otherwise
        }
        Some(_) | None => group.action,
    };
    verdict(action, purpose)
}

const PURPOSES: [Purpose; 2] = [Purpose::Call, Purpose::Session];
const BOTH: [Architecture; 2] = [Architecture::X86_64, Architecture::Aarch64];

/// Values that conditions look for, their neighbours, and the same with high bits set.
fn argument(policy: &Policy) -> impl Strategy<Value = u64> + use<> {
    let conditions = policy.groups.iter().filter_map(|group| group.condition.as_ref());
    let values: Vec<u64> =
        conditions.flat_map(|it| it.equals.iter().copied().map(u64::from)).collect();
    let near = (prop::sample::select(values), -1_i64..=1, prop::bool::ANY);
    prop_oneof![
        near.prop_map(|(value, step, high)| {
            value.wrapping_add_signed(step) | if high { 1 << 32 } else { 0 }
        }),
        (0_u32..64).prop_map(|bit| 1 << bit),
        any::<u64>(),
    ]
}

/// A call on one of both architectures; `None` stands for the architecture's own word.
fn call(policy: &Policy) -> impl Strategy<Value = (usize, Option<u32>, u32, [u64; 6])> + use<> {
    let foreign = prop_oneof![9 => Just(None), 1 => any::<u32>().prop_map(Some)];
    let number = prop_oneof![8 => 0_u32..600, 1 => X32_BIT..X32_BIT + 600, 1 => any::<u32>()];
    (0..BOTH.len(), foreign, number, prop::array::uniform6(argument(policy)))
}

#[test]
fn the_program_decides_as_the_table_does() {
    let policy = Policy::read().unwrap();
    let programs = BOTH
        .map(|architecture| PURPOSES.map(|purpose| compile_for(&policy, architecture, purpose)));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(20_000));
    let outcome = runner.run(&call(&policy), |(index, foreign, number, arguments)| {
        let architecture = foreign.unwrap_or_else(|| BOTH[index].audit_value());
        let call = Call { architecture, number, arguments };
        for (purpose, program) in PURPOSES.iter().zip(&programs[index]) {
            let decided = interpret(program, &call).0;
            prop_assert_eq!(decided, expected(&policy, BOTH[index], *purpose, &call));
        }
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn every_known_number_is_decided_without_arguments_too() {
    let policy = Policy::read().unwrap();
    for (architecture, purpose) in BOTH.into_iter().flat_map(|it| PURPOSES.map(|to| (it, to))) {
        let program = compile_for(&policy, architecture, purpose);
        for number in 0..2048 {
            let architecture_word = architecture.audit_value();
            let call = Call { architecture: architecture_word, number, arguments: [0; 6] };
            let (decided, steps) = interpret(&program, &call);
            assert_eq!(decided, expected(&policy, architecture, purpose, &call), "{call:?}");
            // The search is as shallow as its number of ranges allows; a list of values comes last.
            assert!(steps <= 50, "{steps} instructions for {call:?}");
        }
        assert!(program.len() <= 4096, "the kernel takes at most 4096 instructions");
    }
}

#[test]
fn names_are_those_of_this_machine() {
    assert_eq!(name_of(425).as_deref(), Some("io_uring_setup"));
    assert_eq!(name_of(100_000), None);
    #[cfg(target_arch = "x86_64")]
    {
        assert_eq!(name_of(101).as_deref(), Some("ptrace"));
        assert_eq!(name_of(X32_BIT | 39).as_deref(), Some("getpid (x32)"));
        assert_eq!(name_of(u32::MAX).as_deref(), Some("x32 call 0xffffffff"));
    }
}

/// The numbers agree with the C library's for the calls that a mistake would hurt most.
#[test]
fn numbers_agree_with_libc() {
    for (name, number) in [
        ("ptrace", libc::SYS_ptrace),
        ("clone", libc::SYS_clone),
        ("clone3", libc::SYS_clone3),
        ("unshare", libc::SYS_unshare),
        ("mount", libc::SYS_mount),
        ("bpf", libc::SYS_bpf),
        ("keyctl", libc::SYS_keyctl),
        ("openat", libc::SYS_openat),
        ("execve", libc::SYS_execve),
        ("prlimit64", libc::SYS_prlimit64),
        ("socket", libc::SYS_socket),
        ("ioctl", libc::SYS_ioctl),
        ("prctl", libc::SYS_prctl),
    ] {
        assert_eq!(name_of(u32::try_from(number).unwrap()).as_deref(), Some(name));
    }
}

/// Installs the real program in a real Python: what programs need works, what they must not do
/// fails in the way that the table says.
#[test]
fn python_works_under_the_filter() {
    let filter = compile(Purpose::Call).unwrap();
    let hexadecimal = filter.program.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    });
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/seccomp/under_filter.py");
    let python = std::env::var("ROCSTAR_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let output = Command::new(python).arg(script).arg(hexadecimal).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}{stderr}");
    for skipped in stdout.lines().filter(|line| line.starts_with("skip")) {
        println!("SKIP: {skipped} is not installed");
    }
    let done = stdout.lines().filter(|line| line.starts_with("ok ") || line.starts_with("skip "));
    assert_eq!(done.count(), 12, "{stdout}{stderr}");
}

#[test]
fn the_document_shows_the_policy() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/seccomp.md");
    let document = document(&Policy::read().unwrap());
    if std::env::var_os("ROCSTAR_REFRESH").is_some() {
        std::fs::write(&path, &document).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == document,
        "docs/seccomp.md is stale; refresh it: \
         ROCSTAR_REFRESH=1 cargo test -p rocstar-jail the_document_shows_the_policy"
    );
}

fn document(policy: &Policy) -> String {
    let mut text = format!(
        "# System calls that a program may make\n\n\
         Generated from `crates/jail/policy/seccomp.toml`; refresh with \
         `ROCSTAR_REFRESH=1 cargo test -p rocstar-jail the_document_shows_the_policy`.\n\n\
         Every one of the {} system calls that Linux had at version 7.0 stands in one row. A number \
         that is in no row fails with `ENOSYS`. A call through the 32-bit entry kills the program; \
         one with an x32 number traps. `trap` ends the program with the outcome `denied`, which \
         names the call. What *asks the supervisor* is a step of branching a live session, which \
         lets it pass only while it was told to branch and answers `EPERM` otherwise. *(x)* marks \
         calls that exist on x86_64 only.\n\n\
         | Group | What happens | Why | Calls |\n|---|---|---|---|\n",
        policy.calls.len()
    );
    for (index, group) in policy.groups.iter().enumerate() {
        let members = policy.calls.iter().filter(|(_, it)| *it == index).map(|(call, _)| call);
        let mut members: Vec<&SystemCall> = members.collect();
        members.sort_by_key(|call| call.name);
        let members: Vec<String> = members
            .into_iter()
            .map(|call| match call.aarch64 {
                Some(_) => format!("`{}`", call.name),
                None => format!("`{}` *(x)*", call.name),
            })
            .collect();
        let action = describe(group.action, group.condition.as_ref());
        let calls = members.join(", ");
        writeln!(text, "| {} | {action} | {} | {calls} |", group.name, group.reason).unwrap();
    }
    text
}

fn describe(action: Action, condition: Option<&Condition>) -> String {
    let name = |action: Action| match action {
        Action::Allow => "allowed".to_owned(),
        Action::Errno(errno) => format!("`{errno:?}`"),
        Action::Trap => "trap".to_owned(),
        Action::Fork(Refusal::Errno(errno)) => {
            format!("`{errno:?}` (in a session: asks the supervisor)")
        }
        Action::Fork(Refusal::Trap) => "trap (in a session: asks the supervisor)".to_owned(),
    };
    let Some(Condition { argument, mask, equals, otherwise }) = condition else {
        return name(action);
    };
    let values: Vec<String> = equals.iter().map(|value| format!("{value:#x}")).collect();
    let masked = if *mask == u32::MAX { String::new() } else { format!(" & {mask:#x}") };
    format!(
        "{} where argument {argument}{masked} is {}; otherwise {}",
        name(action),
        values.join(", "),
        name(*otherwise)
    )
}

#[test]
fn an_unknown_action_is_refused() {
    assert_eq!(Action::try_from("errno:EPERM".to_owned()), Ok(Action::Errno(Errno::EPERM)));
    let fork = Action::Fork(Refusal::Errno(Errno::EPERM));
    assert_eq!(Action::try_from("fork:errno:EPERM".to_owned()), Ok(fork));
    for wrong in ["errno:EWHATEVER", "permit", "", "fork:", "fork:allow", "fork:EPERM"] {
        assert!(Action::try_from(wrong.to_owned()).is_err(), "{wrong}");
    }
}
