//! Episodes and groups in which every variant is there.

use rocstar_record::episode::{
    Author, Call, DropCause, Dropped, Episode, Evaluated, Finish, Group, GroupVerdict, Kept, Lost,
    Penalties, SCHEMA_VERSION, Span, TaskId, Timing, ToolOutcome, Turn, Verdict, VerdictKind,
};

const FINISHES: [Finish; 5] = [
    Finish::Done,
    Finish::TurnLimit,
    Finish::TokenLimit,
    Finish::ContextLimit,
    Finish::ToolAnswerTooLong,
];

const VERDICTS: [VerdictKind; 4] =
    [VerdictKind::Right, VerdictKind::Wrong, VerdictKind::Unparseable, VerdictKind::Undecided];

fn outcomes() -> [ToolOutcome; 7] {
    [
        ToolOutcome::Ok,
        ToolOutcome::Malformed { message: "expected `:` at column 9".into() },
        ToolOutcome::Refused { message: "there is no tool `search`".into() },
        ToolOutcome::Exception { name: "ZeroDivisionError".into() },
        ToolOutcome::Exit { code: 3 },
        ToolOutcome::Timeout,
        ToolOutcome::Limit { what: "memory".into() },
    ]
}

/// A new variant does not compile until it stands above, and so in the golden files.
#[expect(dead_code, reason = "it is there for the compiler to look at")]
fn every_variant_is_above(outcome: &ToolOutcome, finish: Finish, verdict: VerdictKind) {
    match outcome {
        ToolOutcome::Ok
        | ToolOutcome::Malformed { .. }
        | ToolOutcome::Refused { .. }
        | ToolOutcome::Exception { .. }
        | ToolOutcome::Exit { .. }
        | ToolOutcome::Timeout
        | ToolOutcome::Limit { .. } => {}
    }
    match finish {
        Finish::Done
        | Finish::TurnLimit
        | Finish::TokenLimit
        | Finish::ContextLimit
        | Finish::ToolAnswerTooLong => {}
    }
    match verdict {
        VerdictKind::Right
        | VerdictKind::Wrong
        | VerdictKind::Unparseable
        | VerdictKind::Undecided => {}
    }
}

fn call(outcome: ToolOutcome) -> Call {
    Call {
        tool: "python".into(),
        program: "print(1/int(input()))".into(),
        input: "0\n".into(),
        outcome,
        shown: "ZeroDivisionError at line 1: division by zero".into(),
        cut_tokens: 0,
        wall_us: 1500,
        cpu_us: 1200,
        memory_bytes: Some(9_000_000),
        isolation: vec!["pid_namespace".into(), "seccomp".into()],
    }
}

/// An episode of two turns, the first with a call that raised.
pub(crate) fn episode() -> Episode {
    let span = |author, tokens| Span { author, tokens };
    Episode {
        schema: SCHEMA_VERSION,
        task: TaskId("sum-7".into()),
        sample: 3,
        step: 12,
        tokens: (0..10).collect(),
        spans: vec![
            span(Author::Prompt, 3),
            span(Author::Template, 1),
            span(Author::Policy, 2),
            span(Author::Tool, 2),
            span(Author::Policy, 2),
        ],
        log_probs: vec![-0.5, -0.25, -1.0, -2.0],
        model_log_probs: vec![-0.75, -0.25, -1.5, -2.0],
        weight_versions: vec![(12, 3), (13, 1)],
        turns: vec![
            Turn {
                start_token: 4,
                policy_tokens: 2,
                answer_tags: 0,
                calls: vec![call(ToolOutcome::Exception { name: "ZeroDivisionError".into() })],
            },
            Turn { start_token: 8, policy_tokens: 2, answer_tags: 1, calls: Vec::new() },
        ],
        finish: Finish::Done,
        verdict: Verdict {
            kind: VerdictKind::Wrong,
            answer: Some("8".into()),
            explanation: "7 and 8".into(),
            second_opinion: None,
        },
        reward: 0.0,
        timing: Timing {
            total_us: 9000,
            generating_us: 7000,
            tools_us: 1600,
            activities: Vec::new(),
        },
    }
}

/// A group that is learned from, and one that is not; together they have every variant.
pub(crate) fn groups() -> [Group; 2] {
    let mut episodes = FINISHES.into_iter().enumerate().map(|(index, finish)| {
        let mut episode = Episode { sample: index as u32, finish, ..episode() };
        episode.verdict.kind = VERDICTS[index % VERDICTS.len()];
        episode.reward = if episode.verdict.kind == VerdictKind::Right { 1.0 } else { 0.0 };
        let calls = outcomes().into_iter().skip(index * 2).take(2).map(call);
        episode.turns[0].calls = calls.collect();
        episode
    });
    let penalties = |tool_errors| Penalties { tool_errors, answer_format: 0.25 };
    let kept = episodes.by_ref().take(2).zip([1.0, -1.0]);
    let kept = kept.map(|(episode, advantage)| Kept {
        episode,
        penalties: penalties(0.5),
        advantage,
        trained_log_probs: Vec::new(),
    });
    let kept = kept.collect();
    let why = |index| ["wrong_not_drawn", "surplus", "right_not_drawn"][index];
    let dropped = episodes.enumerate().map(|(index, episode)| Dropped {
        episode,
        penalties: penalties(1.0),
        cause: DropCause::Selection { why: why(index).into() },
    });
    let lost = Lost {
        sample: 5,
        cause: DropCause::Infrastructure { what: "the code environment is gone".into() },
    };
    let used = Group {
        schema: SCHEMA_VERSION,
        task: TaskId("sum-7".into()),
        answer: "7".into(),
        step: 12,
        verdict: GroupVerdict::Used,
        kept,
        dropped: dropped.collect(),
        lost: vec![lost],
    };
    let mut unused = Group {
        verdict: GroupVerdict::Dropped { why: "all_wrong".into() },
        kept: Vec::new(),
        lost: Vec::new(),
        ..used.clone()
    };
    unused.task = TaskId("sum-8".into());
    for dropped in &mut unused.dropped {
        dropped.episode.task = unused.task.clone();
        dropped.cause = DropCause::Selection { why: "all_wrong".into() };
    }
    [used, unused]
}

/// A task of an evaluation, with a rollout that was lost.
pub(crate) fn evaluated() -> Evaluated {
    let [used, _] = groups();
    let episodes = used.kept.into_iter().map(|kept| kept.episode).collect();
    let Group { schema, task, answer, lost, .. } = used;
    Evaluated { schema, task, answer, episodes, lost }
}
