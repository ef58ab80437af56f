//! One episode: its transcript with what each call did, and its tokens with all that is known of
//! each.
//!
//! Invariant: text leaves as text, never as markup, and no field is left out since it looks odd.

use rocstar_record::episode::{
    Author, Call, Episode, Evaluated, Finish, Group, Penalties, TaskId, Timing, Verdict,
};
use serde::Serialize;

use crate::Error;
use crate::run::Run;
use crate::sketch::problem;
use crate::step::cause;
use crate::vocabulary::Vocabulary;

/// Most tokens of one answer.
pub const MOST_TOKENS: usize = 4_000;

/// Where an episode is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A step's group, by its number within the step.
    Step {
        /// The step.
        step: u64,
        /// The group.
        group: u64,
    },
    /// An evaluation's task, by its number within it.
    Evaluation {
        /// The suite.
        suite: String,
        /// After this step.
        step: u64,
        /// The task.
        task: u64,
    },
}

/// An episode with what its group says of it.
#[derive(Debug)]
pub struct Found {
    episode: Episode,
    task: TaskId,
    answer: String,
    fate: Fate,
    /// Log-probabilities under the trained weights, where the episode was learned from.
    trained: Vec<f32>,
}

/// Whether an episode was learned from.
#[derive(Debug, Clone, Default, Serialize)]
struct Fate {
    /// `None` in an evaluation.
    kept: Option<bool>,
    cause: Option<String>,
    penalties: Option<Penalties>,
    advantage: Option<f64>,
}

/// An episode as a page shows it.
#[derive(Debug, Serialize)]
pub struct EpisodeView {
    run: String,
    step: u64,
    pub(crate) task: String,
    pub(crate) answer: String,
    sample: u32,
    #[serde(flatten)]
    fate: Fate,
    reward: f64,
    pub(crate) verdict: Verdict,
    finish: Finish,
    timing: Timing,
    weight_versions: Vec<(u64, usize)>,
    prompt_tokens: usize,
    response_tokens: usize,
    policy_tokens: usize,
    /// Everything before the policy's first token.
    prompt: String,
    /// The last part of it that someone wrote.
    pub(crate) problem: String,
    pub(crate) turns: Vec<TurnView>,
    /// The command that makes it again.
    replay: String,
    /// Whether tokens could be shown as text; and where a vocabulary is there, why not.
    has_text: bool,
    vocabulary_notice: Option<String>,
}

#[derive(Debug, Serialize)]
pub(crate) struct TurnView {
    pub(crate) text: String,
    start_token: usize,
    policy_tokens: usize,
    answer_tags: u32,
    pub(crate) calls: Vec<Call>,
}

/// Some of an episode's tokens.
#[derive(Debug, Serialize)]
pub struct TokensView {
    /// All its tokens.
    all: usize,
    first: usize,
    /// By what a token of the policy is multiplied; `None` where it is not learned from.
    advantage: Option<f64>,
    /// Ratios outside these are clipped; `None` where what is written down does not tell.
    clip: Option<(f64, f64)>,
    tokens: Vec<TokenView>,
}

#[derive(Debug, Serialize)]
struct TokenView {
    id: u32,
    text: String,
    special: bool,
    author: Author,
    /// The turn that it belongs to, for tokens of the policy.
    turn: Option<usize>,
    /// Log-probability when it was sampled: under the sampling transform, and without it.
    sampled: Option<f32>,
    model: Option<f32>,
    /// Log-probability under the weights that were being trained, at its last use.
    now: Option<f32>,
    weights: Option<u64>,
}

impl Place {
    /// Reads the episode of this sample.
    ///
    /// # Errors
    /// It is not there, or can't be read.
    pub fn find(&self, run: &Run, sample: u32) -> Result<Found, Error> {
        match self {
            Self::Step { step, group } => {
                let found = run.groups::<Group>(*step)?.record(*group)?;
                let group = found.ok_or_else(|| missing("group", *group, *step))?;
                group.check().map_err(|error| record(*step, error.to_string()))?;
                in_group(group, sample).ok_or_else(|| missing("sample", sample.into(), *step))
            }
            Self::Evaluation { suite, step, task } => {
                let found = run.evaluated::<Evaluated>(suite, *step)?.record(*task)?;
                let found = found.ok_or_else(|| missing("task", *task, *step))?;
                found.check().map_err(|error| record(*step, error.to_string()))?;
                let Evaluated { task, answer, episodes, .. } = found;
                let episode = episodes.into_iter().find(|episode| episode.sample == sample);
                let episode = episode.ok_or_else(|| missing("sample", sample.into(), *step))?;
                Ok(Found { episode, task, answer, fate: Fate::default(), trained: Vec::new() })
            }
        }
    }

    const fn step(&self) -> u64 {
        match self {
            Self::Step { step, .. } | Self::Evaluation { step, .. } => *step,
        }
    }
}

fn missing(what: &str, number: u64, step: u64) -> Error {
    Error::missing(format!("{what} {number} at step {step}"))
}

const fn record(step: u64, message: String) -> Error {
    Error::Record { step, message }
}

fn in_group(group: Group, sample: u32) -> Option<Found> {
    let Group { task, answer, kept, dropped, .. } = group;
    let kept = kept.into_iter().map(|it| {
        let fate = Fate {
            kept: Some(true),
            cause: None,
            penalties: Some(it.penalties),
            advantage: Some(it.advantage),
        };
        (it.episode, fate, it.trained_log_probs)
    });
    let dropped = dropped.into_iter().map(|it| {
        let fate = Fate {
            kept: Some(false),
            cause: Some(cause(&it.cause)),
            penalties: Some(it.penalties),
            advantage: None,
        };
        (it.episode, fate, Vec::new())
    });
    let mut all = kept.chain(dropped);
    let (episode, fate, trained) = all.find(|(episode, ..)| episode.sample == sample)?;
    Some(Found { episode, task, answer, fate, trained })
}

impl Found {
    /// The episode.
    pub const fn episode(&self) -> &Episode {
        &self.episode
    }

    /// The episode as a page shows it.
    pub fn view(self, run: &Run, place: &Place) -> EpisodeView {
        let vocabulary = run.vocabulary();
        let Self { episode, task, answer, fate, trained: _ } = self;
        let prompt_tokens = episode.tokens.len() - episode.response_tokens();
        let prompt = episode.tokens.get(..prompt_tokens).unwrap_or_default();
        let problem = vocabulary.text(problem(&episode.tokens, &episode.spans));
        let replay =
            format!("rocstar replay {}", shell_word(&crate::folder::shown(run.reader().path())));
        EpisodeView {
            run: run.name().to_owned(),
            step: place.step(),
            task: task.0,
            answer,
            sample: episode.sample,
            fate,
            reward: episode.reward,
            finish: episode.finish,
            timing: episode.timing.clone(),
            prompt_tokens,
            response_tokens: episode.response_tokens(),
            policy_tokens: episode.policy_tokens(),
            prompt: vocabulary.text(prompt),
            problem: problem.trim().to_owned(),
            turns: turns(&episode, &vocabulary),
            replay: match place {
                Place::Step { step, .. } => format!("{replay} --step {step}"),
                Place::Evaluation { .. } => replay,
            },
            has_text: !vocabulary.is_empty(),
            vocabulary_notice: run.vocabulary_notice(),
            verdict: episode.verdict,
            weight_versions: episode.weight_versions,
        }
    }

    /// `count` tokens from `first` on.
    pub fn tokens(
        &self,
        run: &Run,
        stage: Option<usize>,
        first: usize,
        count: usize,
    ) -> TokensView {
        let vocabulary = run.vocabulary();
        let episode = &self.episode;
        let is_of_policy = episode.loss_mask();
        let mut of_policy = is_of_policy.iter().take(first).filter(|it| **it).count();
        let authors = episode.spans.iter();
        let authors = authors.flat_map(|span| std::iter::repeat_n(span.author, span.tokens));
        let part = authors.zip(&episode.tokens).enumerate().skip(first);
        let tokens = part.take(count.min(MOST_TOKENS)).map(|(at, (author, id))| {
            let (text, special) = vocabulary.token(*id);
            let mut token = TokenView {
                id: *id,
                text,
                special,
                author,
                turn: None,
                sampled: None,
                model: None,
                now: None,
                weights: None,
            };
            if author == Author::Policy {
                token.turn = episode.turns.iter().rposition(|turn| turn.start_token <= at);
                token.sampled = episode.log_probs.get(of_policy).copied();
                token.model = episode.model_log_probs.get(of_policy).copied();
                token.now = self.trained.get(of_policy).copied();
                token.weights = version(&episode.weight_versions, of_policy);
                of_policy += 1;
            }
            token
        });
        TokensView {
            all: episode.tokens.len(),
            first,
            advantage: self.fate.advantage,
            clip: stage.and_then(|stage| run.recipe().stages.get(stage)).and_then(|it| it.clip),
            tokens: tokens.collect(),
        }
    }
}

impl EpisodeView {
    /// The episode as text for a terminal.
    pub fn to_text(&self) -> String {
        let mut text = format!("{}, sample {}\n\n{}\n", self.task, self.sample, self.problem);
        for turn in &self.turns {
            text += &format!("\n— policy —\n{}\n", turn.text.trim());
            for call in &turn.calls {
                let (outcome, told) = (&call.outcome, call.told().trim());
                text += &format!("\n— tool: {outcome}, {} µs —\n{told}\n", call.wall_us);
            }
        }
        let Verdict { explanation, .. } = &self.verdict;
        text + &format!("\n— verdict —\n{explanation}; right is {}\n", self.answer)
    }
}

fn turns(episode: &Episode, vocabulary: &Vocabulary) -> Vec<TurnView> {
    let view = |turn: &rocstar_record::episode::Turn| {
        let end = turn.start_token.saturating_add(turn.policy_tokens).min(episode.tokens.len());
        let tokens = episode.tokens.get(turn.start_token..end).unwrap_or_default();
        TurnView {
            text: vocabulary.text(tokens),
            start_token: turn.start_token,
            policy_tokens: turn.policy_tokens,
            answer_tags: turn.answer_tags,
            calls: turn.calls.clone(),
        }
    };
    episode.turns.iter().map(view).collect()
}

/// The weights that sampled the policy's token of this number.
fn version(versions: &[(u64, usize)], number: usize) -> Option<u64> {
    let mut end = 0_usize;
    versions.iter().find_map(|(version, tokens)| {
        end = end.saturating_add(*tokens);
        (number < end).then_some(*version)
    })
}

/// A path as a word of a shell's command.
fn shell_word(path: &std::path::Path) -> String {
    let text = path.display().to_string();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/_-.+".contains(letter);
    if text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_knows_its_weights() {
        let versions = [(3, 2), (4, 1)];
        let found: Vec<_> = (0..4).map(|number| version(&versions, number)).collect();
        assert_eq!(found, [Some(3), Some(3), Some(4), None]);
    }

    #[test]
    fn a_path_is_one_word() {
        let word = |text: &str| shell_word(std::path::Path::new(text));
        assert_eq!(word("/runs/a-1"), "/runs/a-1");
        assert_eq!(word("/my runs/it's"), r"'/my runs/it'\''s'");
    }
}
