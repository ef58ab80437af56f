//! The reviewed data (`policy/seccomp.toml`, `policy/system_calls.txt`) as checked values.
//!
//! Invariant: in a [`Policy`] that was read without an error, every system call of the table has
//! exactly one decision, and no decision names a call that is not in the table.

use std::collections::BTreeMap;

use serde::Deserialize;

const GROUPS: &str = include_str!("../../policy/seccomp.toml");
const SYSTEM_CALLS: &str = include_str!("../../policy/system_calls.txt");

/// What is wrong with the embedded policy. A build that passes its tests never returns one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PolicyError {
    #[error("seccomp.toml: {0}")]
    Groups(#[from] toml::de::Error),
    #[error("system_calls.txt, line {line}: `name number number` expected")]
    Table { line: usize },
    #[error("group `{group}`: a condition lists at least one value and an argument from 0 to 5")]
    Condition { group: String },
    #[error("`{call}` stands in group `{group}`, but in no row of system_calls.txt")]
    UnknownCall { call: String, group: String },
    #[error("`{call}` stands in two groups, `{first}` and `{second}`")]
    DecidedTwice { call: String, first: String, second: String },
    #[error("`{call}` stands in no group")]
    Undecided { call: &'static str },
}

/// Error codes that a refused call may return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::upper_case_acronyms, reason = "the kernel's names")]
pub(super) enum Errno {
    EPERM,
    EACCES,
    ENOTTY,
    ENOSYS,
    EOPNOTSUPP,
}

impl Errno {
    const ALL: [Self; 5] =
        [Self::EPERM, Self::EACCES, Self::ENOTTY, Self::ENOSYS, Self::EOPNOTSUPP];

    pub(super) const fn number(self) -> u16 {
        // As in asm-generic/errno.h, which both architectures use.
        match self {
            Self::EPERM => 1,
            Self::EACCES => 13,
            Self::ENOTTY => 25,
            Self::ENOSYS => 38,
            Self::EOPNOTSUPP => 95,
        }
    }
}

/// What the kernel does with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) enum Action {
    /// Runs under the kernel's own rules.
    Allow,
    /// Does not run; fails with this code.
    Errno(Errno),
    /// Does not run; the thread gets SIGSYS, which names the call.
    Trap,
    /// A step of branching a session: there the supervisor decides, elsewhere it is refused.
    Fork(Refusal),
}

/// What a step of branching meets where nothing branches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    Errno(Errno),
    Trap,
}

impl TryFrom<String> for Action {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "allow" => return Ok(Self::Allow),
            "trap" => return Ok(Self::Trap),
            _ => {}
        }
        let errno = |text: &str| {
            let name = text.strip_prefix("errno:")?;
            Errno::ALL.into_iter().find(|errno| format!("{errno:?}") == name)
        };
        let action = match text.strip_prefix("fork:") {
            Some("trap") => Some(Self::Fork(Refusal::Trap)),
            Some(refusal) => errno(refusal).map(|errno| Self::Fork(Refusal::Errno(errno))),
            None => errno(&text).map(Self::Errno),
        };
        action.ok_or_else(|| {
            format!("`{text}` is no action: allow, trap, errno:NAME, fork:trap or fork:errno:NAME")
        })
    }
}

/// Makes a decision depend on one argument.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Condition {
    /// Which argument, from 0.
    pub(super) argument: u8,
    /// Bits of its low word that count.
    #[serde(default = "all_bits")]
    pub(super) mask: u32,
    /// The action holds for these values.
    pub(super) equals: Vec<u32>,
    /// This one holds for all others.
    pub(super) otherwise: Action,
}

const fn all_bits() -> u32 {
    u32::MAX
}

/// What happens to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) action: Action,
    pub(super) condition: Option<Condition>,
}

/// Calls that are treated alike, and why.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    pub(super) name: String,
    /// Shown in `docs/seccomp.md`, which a test writes.
    #[cfg_attr(not(test), expect(dead_code, reason = "for people"))]
    pub(super) reason: String,
    pub(super) action: Action,
    #[serde(default)]
    pub(super) condition: Option<Condition>,
    pub(super) calls: Vec<String>,
}

/// One system call's name and numbers; `None` where an architecture has no such call.
#[derive(Debug, Clone, Copy)]
pub(super) struct SystemCall {
    pub(super) name: &'static str,
    pub(super) x86_64: Option<u32>,
    pub(super) aarch64: Option<u32>,
}

/// The reviewed data.
#[derive(Debug)]
pub(super) struct Policy {
    pub(super) groups: Vec<Group>,
    /// With the index of the one group that decides it.
    pub(super) calls: Vec<(SystemCall, usize)>,
}

impl Policy {
    /// Reads and checks the embedded data.
    pub(super) fn read() -> Result<Self, PolicyError> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            group: Vec<Group>,
        }
        let groups = toml::from_str::<File>(GROUPS)?.group;
        for Group { name, condition, .. } in &groups {
            let sound =
                condition.as_ref().is_none_or(|it| it.argument < 6 && !it.equals.is_empty());
            if !sound {
                return Err(PolicyError::Condition { group: name.clone() });
            }
        }
        let calls = decide_each(&groups, &system_calls()?)?;
        Ok(Self { groups, calls })
    }
}

/// Pairs each call with its group.
fn decide_each(
    groups: &[Group],
    table: &[SystemCall],
) -> Result<Vec<(SystemCall, usize)>, PolicyError> {
    let mut group_of: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, group) in groups.iter().enumerate() {
        for call in &group.calls {
            if let Some(first) = group_of.insert(call, index) {
                return Err(PolicyError::DecidedTwice {
                    call: call.clone(),
                    first: groups[first].name.clone(),
                    second: group.name.clone(),
                });
            }
        }
    }
    let mut decided = Vec::with_capacity(table.len());
    for call in table {
        let group = group_of.remove(call.name).ok_or(PolicyError::Undecided { call: call.name })?;
        decided.push((*call, group));
    }
    match group_of.first_key_value() {
        Some((call, group)) => Err(PolicyError::UnknownCall {
            call: (*call).to_owned(),
            group: groups[*group].name.clone(),
        }),
        None => Ok(decided),
    }
}

/// The table of names and numbers.
pub(super) fn system_calls() -> Result<Vec<SystemCall>, PolicyError> {
    let rows = SYSTEM_CALLS.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    rows.map(|(index, line)| row(line).ok_or(PolicyError::Table { line: index + 1 })).collect()
}

fn row(line: &'static str) -> Option<SystemCall> {
    let number = |text: &str| match text {
        "-" => Some(None),
        digits => digits.parse().ok().map(Some),
    };
    let mut columns = line.split(' ');
    let call = SystemCall {
        name: columns.next()?,
        x86_64: number(columns.next()?)?,
        aarch64: number(columns.next()?)?,
    };
    columns.next().is_none().then_some(call)
}
