//! Episodes made again from what was written down of them, with the real tool.

use pretty_assertions::assert_eq;
use rocstar_record::draw::Key;
use rocstar_record::episode::ToolOutcome;
use rocstar_rollout::{RecordedGenerator, RolloutOptions, ToolMode};

use crate::sandbox::{sandbox, tool};
use crate::support::*;

/// Sets a variable, uses it, asks for one that isn't there, ends the interpreter, and uses it again.
fn script(key: Key) -> String {
    let code = match key.turn {
        0 => format!("x = {}", key.sample),
        1 => "print(x + 40)".to_owned(),
        2 => "print(y)".to_owned(),
        3 => "import os\nos._exit(3)".to_owned(),
        4 => "print(x)".to_owned(),
        _ => return answer("42"),
    };
    format!("{}{}{END}", call(&code), call("print('twice')"))
}

#[tokio::test]
async fn a_session_goes_again_as_it_went() {
    let Some(sandbox) = sandbox() else { return };
    for mode in [ToolMode::Session, ToolMode::Stateless] {
        let options = RolloutOptions { tool: mode, max_turns: 8, ..options() };
        let tasks = [task("a", "one", "42"), task("b", "two", "43")];
        let first = rollouts(Scripted::new(script), tool(&sandbox, mode), options.clone());
        let first = roll_out(&first, &tasks).await;
        let outcomes: Vec<_> =
            first.groups[1].episodes[2].calls().map(|call| call.outcome.clone()).collect();
        let exception = |name: &str| ToolOutcome::Exception { name: name.to_owned() };
        let second = match mode {
            ToolMode::Session => ToolOutcome::Ok,
            _ => exception("NameError"),
        };
        assert_eq!((&outcomes[0], &outcomes[2]), (&ToolOutcome::Ok, &second));
        assert_eq!(outcomes[4], exception("NameError"));
        assert_eq!(
            (&outcomes[6], &outcomes[8]),
            (&ToolOutcome::Exit { code: 3 }, &exception("NameError"))
        );
        let recorded = (AT.first_task..).zip(&first.groups).flat_map(|(number, group)| {
            group.episodes.iter().map(move |episode| (number, episode.clone()))
        });
        let generator = RecordedGenerator::new(recorded, 1 << 16);
        let again = rollouts(generator, tool(&sandbox, mode), options);
        let again = roll_out(&again, &tasks).await;
        assert_eq!(timeless(&again), timeless(&first));
    }
}
