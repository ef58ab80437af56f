//! Divides the policy over two programs, so that the one that every child installs is short.
//!
//! The shared program sits in the zygote and all its forks; the child's comes on top, last of all.
//! The kernel runs both and obeys the stricter answer. What the zygote and its forks must do in
//! between (the `[[setup]]` tables) is let through by the first and refused by the second.
//!
//! Invariant: whatever `[[setup]]` lists, the stricter of a [`Split`]'s two decisions is the
//! decision that was split, for every argument. Data that can't be split so is an error.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::policy::{Action, Condition, Decision, Group, PolicyError, SystemCall};

/// Calls that the zygote and its forks make before a program starts, and why.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Setup {
    /// Shown in `docs/seccomp.md`, which a test writes.
    #[cfg_attr(not(test), expect(dead_code, reason = "for people"))]
    pub(super) reason: String,
    pub(super) calls: Vec<String>,
    /// Values of the argument that the group's condition looks at. `None`: the call as a whole.
    #[serde(default)]
    pub(super) values: Option<Vec<u32>>,
}

/// One decision, divided.
#[derive(Debug)]
pub(super) struct Split {
    pub(super) shared: Decision,
    pub(super) child: Decision,
}

impl Setup {
    /// `None` where the set-up part is allowed to programs anyway, or is no part of the decision.
    pub(super) fn split(&self, whole: &Decision) -> Option<Split> {
        match (&self.values, &whole.condition) {
            (None, _) if *whole != Decision::ALLOW => {
                Some(Split { shared: Decision::ALLOW, child: whole.clone() })
            }
            (Some(values), Some(condition)) => {
                let Condition { mask, equals, otherwise, .. } = condition;
                let refused = |value: &u32| value & !mask == 0 && !equals.contains(value);
                let sound = whole.action == Action::Allow && values.iter().all(refused);
                let with = |equals: Vec<u32>, otherwise| {
                    Some(Condition { equals, otherwise, ..condition.clone() })
                };
                sound.then(|| Split {
                    shared: Decision {
                        action: Action::Allow,
                        condition: with([equals.as_slice(), values].concat(), *otherwise),
                    },
                    child: Decision {
                        action: *otherwise,
                        condition: with(values.clone(), Action::Allow),
                    },
                })
            }
            (None | Some(_), _) => None,
        }
    }
}

/// Splits the decision of each call that `setups` name; by the call's name.
pub(super) fn split_each(
    setups: &[Setup],
    groups: &[Group],
    calls: &[(SystemCall, usize)],
) -> Result<BTreeMap<&'static str, Split>, PolicyError> {
    let mut splits = BTreeMap::new();
    for setup in setups {
        for name in &setup.calls {
            let decided = calls.iter().find(|(call, _)| call.name == name);
            let split = decided.and_then(|(call, group)| {
                let split = setup.split(&groups[*group].decision())?;
                splits.insert(call.name, split).is_none().then_some(())
            });
            split.ok_or_else(|| PolicyError::Setup { call: name.clone() })?;
        }
    }
    Ok(splits)
}
