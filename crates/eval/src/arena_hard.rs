//! Arena-Hard: a judging model says whose answer is better, the model's or a baseline's.
//!
//! Hides the protocol of both published versions: each question is played twice, the baseline's
//! answer once as the first and once as the second, so that a judge's liking for a place cancels;
//! each game has five verdicts, and one that says "significantly" counts three times. Invariant:
//! what a game came to depends on the judge's text alone; a text without verdict is no tie.
//!
//! The wording of our default prompts is our own; [`JudgePrompts::from_json`] reads others, such as
//! the published ones, which figures need that are to be compared with published figures. The
//! judge is to be asked as [`judge_settings`] says. Style control, which the published tables have
//! beside the plain figures and which is off there by default, is not built.

mod win_rate;

use rocstar_record::attempt::Score;
use rocstar_record::message::{Message, Role};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub(crate) use win_rate::share;
pub use win_rate::{Interval, WinRate, win_rate};

use crate::suite::ArenaHardVersion;

/// The category whose judge does not write an answer of its own first.
const CREATIVE_WRITING: &str = "creative_writing";

/// How the judge of a version is to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct JudgeSettings {
    /// The model that judges the published tables.
    pub model: &'static str,
    /// Its temperature.
    pub temperature: f64,
    /// Most tokens of its answer.
    pub max_tokens: usize,
}

/// How the published tables of a version were judged.
pub const fn judge_settings(version: ArenaHardVersion) -> JudgeSettings {
    match version {
        ArenaHardVersion::V01 => {
            JudgeSettings { model: "gpt-4-1106-preview", temperature: 0.0, max_tokens: 4_096 }
        }
        ArenaHardVersion::V20 => {
            JudgeSettings { model: "gpt-4.1", temperature: 0.0, max_tokens: 16_000 }
        }
    }
}

/// What the judge is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JudgePrompts {
    /// The system message.
    pub system: String,
    /// The system message for creative writing.
    pub creative_writing: String,
    /// The user's message; `{question}`, `{answer_a}` and `{answer_b}` stand for what is compared.
    pub user: String,
}

/// Prompts that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JudgePromptsError {
    /// No such object.
    #[error(
        "the judge's prompts must be a JSON object with the texts `system`, `creative_writing` and \
         `user`: {0}"
    )]
    Shape(String),
    /// A part is not shown to the judge.
    #[error("`user` of the judge's prompts lacks `{0}`")]
    Lacks(&'static str),
}

/// Parts of the user's message that are filled in.
const PLACES: [&str; 3] = ["{question}", "{answer_a}", "{answer_b}"];

/// Which of the two answers the judge is shown first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Game {
    /// The baseline's.
    BaselineFirst,
    /// The model's.
    ModelFirst,
}

/// What a game came to, as the model sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Judgement {
    /// The baseline's answer is significantly better.
    MuchWorse,
    /// The baseline's answer is better.
    Worse,
    /// Neither is.
    Tie,
    /// The model's answer is better.
    Better,
    /// The model's answer is significantly better.
    MuchBetter,
}

impl Default for JudgePrompts {
    fn default() -> Self {
        let labels = "End with one line that holds your verdict and nothing else:\n\
            [[A>>B]] if the first answer is significantly better,\n\
            [[A>B]] if the first answer is slightly better,\n\
            [[A=B]] if they are about equally good,\n\
            [[B>A]] if the second answer is slightly better,\n\
            [[B>>A]] if the second answer is significantly better.";
        let task = "You compare two answers to the same request, A and B, and judge impartially \
            which serves the person who asked better.";
        let measure = "Point out what is wrong or misleading in either. An answer is helpful where \
            it does what was asked or, where the request can be read in several ways, asks back \
            rather than guesses; relevant where every part of it belongs to the request; concise \
            where it spends no words in vain. Weigh originality where the request calls for it, and \
            what an answer should have said and did not. The order in which the answers are shown \
            means nothing.";
        let own = "First write your own answer to the request. Then compare both answers with it.";
        Self {
            system: format!("{task}\n\n{own} {measure}\n\n{labels}"),
            creative_writing: format!("{task}\n\n{measure}\n\n{labels}"),
            user: "# Request\n\n{question}\n\n# Answer A\n\n{answer_a}\n\n# End of answer A\n\n# \
                   Answer B\n\n{answer_b}\n\n# End of answer B"
                .to_owned(),
        }
    }
}

impl JudgePrompts {
    /// Reads prompts from JSON.
    ///
    /// # Errors
    /// It is no such object, or the judge would not see all that it compares.
    pub fn from_json(text: &str) -> Result<Self, JudgePromptsError> {
        let prompts: Self = serde_json::from_str(text)
            .map_err(|error| JudgePromptsError::Shape(error.to_string()))?;
        match PLACES.into_iter().find(|place| !prompts.user.contains(place)) {
            Some(place) => Err(JudgePromptsError::Lacks(place)),
            None => Ok(prompts),
        }
    }

    /// What the judge is asked in a game.
    pub fn messages(
        &self,
        category: &str,
        question: &str,
        model: &str,
        baseline: &str,
        game: Game,
    ) -> Vec<Message> {
        let system =
            if category == CREATIVE_WRITING { &self.creative_writing } else { &self.system };
        let (first, second) = match game {
            Game::BaselineFirst => (baseline, model),
            Game::ModelFirst => (model, baseline),
        };
        let user = filled(&self.user, [question, first, second]);
        vec![Message::text(Role::System, system), Message::text(Role::User, user)]
    }
}

/// `template` with its places filled, in one pass: what is filled in may hold a place's name.
fn filled(template: &str, values: [&str; 3]) -> String {
    let mut text = String::new();
    let mut rest = template;
    let next = |rest: &str| {
        let found = PLACES.iter().enumerate();
        found.filter_map(|(index, place)| Some((rest.find(place)?, index))).min()
    };
    while let Some((at, index)) = next(rest) {
        text.push_str(&rest[..at]);
        text.push_str(values[index]);
        rest = &rest[at + PLACES[index].len()..];
    }
    text + rest
}

impl Judgement {
    /// Reads the verdict at the end of the judge's text; `None` where it gives none.
    pub fn parse(text: &str, game: Game) -> Option<Self> {
        let text = text.to_uppercase();
        let label = last_label(&text, "[[", "]]").or_else(|| last_label(&text, "[", "]"))?;
        let first = match label {
            "A>>B" | "B<<A" => Self::MuchBetter,
            "A>B" | "B<A" => Self::Better,
            "A=B" | "B=A" => Self::Tie,
            "B>A" | "A<B" => Self::Worse,
            "B>>A" | "A<<B" => Self::MuchWorse,
            _ => return None,
        };
        Some(match game {
            Game::ModelFirst => first,
            Game::BaselineFirst => first.turned(),
        })
    }

    const fn turned(self) -> Self {
        match self {
            Self::MuchWorse => Self::MuchBetter,
            Self::Worse => Self::Better,
            Self::Tie => Self::Tie,
            Self::Better => Self::Worse,
            Self::MuchBetter => Self::MuchWorse,
        }
    }

    /// From 0, much worse, to 1, much better: how parts of scores hold it.
    pub const fn step(self) -> f64 {
        match self {
            Self::MuchWorse => 0.0,
            Self::Worse => 0.25,
            Self::Tie => 0.5,
            Self::Better => 0.75,
            Self::MuchBetter => 1.0,
        }
    }

    fn from_step(step: f64) -> Option<Self> {
        let all = [Self::MuchWorse, Self::Worse, Self::Tie, Self::Better, Self::MuchBetter];
        all.into_iter().find(|it| it.step() == step)
    }

    /// The battles that it counts as: how many, and what each is worth.
    pub(super) const fn battles(self) -> (usize, f64) {
        match self {
            Self::MuchWorse => (3, 0.0),
            Self::Worse => (1, 0.0),
            Self::Tie => (1, 0.5),
            Self::Better => (1, 1.0),
            Self::MuchBetter => (3, 1.0),
        }
    }
}

/// The last of the signs of verdicts between `open` and `close`.
fn last_label<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    let labels = text.match_indices(open).filter_map(|(at, _)| {
        let rest = &text[at + open.len()..];
        let end = rest.find(|it| !"AB<>=".contains(it))?;
        (end > 0 && rest[end..].starts_with(close)).then(|| &rest[..end])
    });
    labels.last()
}

const BASELINE_FIRST: &str = "baseline_first";
const MODEL_FIRST: &str = "model_first";

/// Both games as parts of a score.
pub(crate) fn parts(baseline_first: Judgement, model_first: Judgement) -> Map<String, Value> {
    let part = |name: &str, judgement: Judgement| (name.to_owned(), judgement.step().into());
    [part(BASELINE_FIRST, baseline_first), part(MODEL_FIRST, model_first)].into_iter().collect()
}

/// Both games of a score: the one with the baseline's answer first, then the other. `None` where it
/// is not one of these scores.
pub fn judgements(score: &Score) -> Option<[Judgement; 2]> {
    let part = |name| Judgement::from_step(score.parts.get(name)?.as_f64()?);
    Some([part(BASELINE_FIRST)?, part(MODEL_FIRST)?])
}
