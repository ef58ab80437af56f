//! `rocstar generate`: a model's answer on the terminal.

use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use clap::Args;
use rocstar_engine::openai::{GrowingText, Model};
use rocstar_engine::{
    Event, FinishReason, Generation, Request, SampledToken, Sampling, Stop, Usage,
};
use rocstar_record::draw::{Key, Purpose};
use rocstar_record::message::{Message, Role};
use serde::Serialize;

use crate::failure::{Finish, HintExt as _, WrongUse};
use crate::inference::ModelOptions;
use crate::terminal::Terminal;

/// Continue a text or answer a question
///
/// The prompt comes from `--prompt`, `--prompt-file` or standard input. Text goes to standard output
/// as it is generated, the rate to standard error.
#[derive(Debug, Args)]
pub(crate) struct Generate {
    #[command(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    prompt: PromptOptions,
    #[command(flatten)]
    sampling: SamplingOptions,
    /// Print one JSON line for each answer, with its token ids and log-probabilities
    #[arg(long, conflicts_with = "tokens")]
    json: bool,
    /// Print token ids rather than text
    #[arg(long)]
    tokens: bool,
}

/// What is asked.
#[derive(Debug, Args)]
struct PromptOptions {
    /// The prompt
    #[arg(long, value_name = "TEXT", conflicts_with = "prompt_file")]
    prompt: Option<String>,
    /// File that holds the prompt
    #[arg(long, value_name = "PATH")]
    prompt_file: Option<PathBuf>,
    /// Take the prompt for a user's message and answer it, by the model's chat template
    #[arg(long)]
    chat: bool,
    /// Instructions that come before the message
    #[arg(long, value_name = "TEXT", requires = "chat")]
    system: Option<String>,
}

/// How an answer is drawn, and when it ends.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sampling")]
struct SamplingOptions {
    /// Most tokens of an answer
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_new_tokens: usize,
    /// 0 takes the likeliest token, 1 draws from the model's own distribution
    #[arg(long, value_name = "T", default_value_t = 1.0)]
    temperature: f32,
    /// Only the likeliest so many tokens
    #[arg(long, value_name = "K")]
    top_k: Option<usize>,
    /// Only the likeliest tokens that together have this probability
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    top_p: f32,
    /// Only tokens at least this share as likely as the likeliest
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    min_p: f32,
    /// Names the random draws: the same seed gives the same answer [default: a new one each time]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Answers to the same prompt
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    n: u32,
    /// Text that ends an answer; may be given more than once
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Go on where the model would end its answer
    #[arg(long)]
    ignore_end: bool,
}

/// One answer, as `--json` prints it.
#[derive(Debug, Serialize)]
struct Shown {
    index: usize,
    text: String,
    finish_reason: &'static str,
    seed: u64,
    prompt_tokens: usize,
    cached_tokens: usize,
    token_ids: Vec<u32>,
    /// Under the distribution that the token was drawn from.
    sampling_logprobs: Vec<f32>,
    /// At temperature 1, without cuts.
    model_logprobs: Vec<f32>,
}

impl Generate {
    /// Runs the command.
    ///
    /// # Errors
    /// No prompt, a model that can't be loaded, or an engine that fails.
    pub(crate) fn run(self, terminal: Terminal) -> anyhow::Result<Finish> {
        // Before the loading: whoever forgot the prompt should not wait for it.
        let prompt = self.prompt.read()?;
        let model = self.model.load(None, terminal)?;
        let tokens = self.prompt.encode(&model, prompt)?;
        let seed = self.sampling.seed.unwrap_or_else(|| {
            // 53 bits: every JSON reader keeps them.
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            since.map_or(0, |since| since.as_nanos() as u64) & ((1 << 53) - 1)
        });
        let requests = (0..self.sampling.n).map(|choice| {
            let key = Key { sample: choice, ..Key::new(seed, Purpose::Sampling) };
            self.sampling.request(&model, tokens.clone(), key)
        });
        let started = Instant::now();
        let generations = model.engine().generate_together(requests.collect());
        let generations = generations.map_err(|refusal| WrongUse::error(refusal.to_string()))?;
        let mut total = Total::default();
        for (index, generation) in generations.into_iter().enumerate() {
            let shown = self.show(&model, generation, index, seed, &mut total, terminal)?;
            if self.json {
                terminal.json_line(&shown)?;
            }
        }
        total.note(started.elapsed(), seed, terminal);
        Ok(Finish::Good)
    }

    /// Prints an answer while it comes, unless it goes out as JSON.
    fn show(
        &self,
        model: &Model,
        mut generation: Generation,
        index: usize,
        seed: u64,
        total: &mut Total,
        terminal: Terminal,
    ) -> anyhow::Result<Shown> {
        let mut growing = GrowingText::new(Arc::new(model.text(false)), &self.sampling.stop);
        let mut answer = Answer::default();
        if self.sampling.n > 1 && !self.json {
            terminal.data(format!("--- answer {}\n", index + 1).as_bytes())?;
        }
        while let Some(event) = generation.next_blocking() {
            let new = match event {
                Event::Prompt(_) => continue,
                Event::Token(token) => {
                    let new = growing.push(token.token);
                    if self.tokens {
                        terminal.data(format!("{}\n", token.token).as_bytes())?;
                    }
                    answer.tokens.push(token);
                    new
                }
                Event::Finished(finished) => {
                    let rest = growing.finish(&finished.reason);
                    answer.end = Some(finished.reason);
                    total.add(finished.usage);
                    answer.usage = finished.usage;
                    rest
                }
            };
            if !self.json && !self.tokens {
                terminal.data(new.as_bytes())?;
            }
            answer.text.push_str(&new);
        }
        if !self.json && !self.tokens && !answer.text.ends_with('\n') {
            terminal.data(b"\n")?;
        }
        answer.shown(index, seed)
    }
}

/// An answer while it comes.
#[derive(Debug, Default)]
struct Answer {
    text: String,
    tokens: Vec<SampledToken>,
    usage: Usage,
    end: Option<FinishReason>,
}

impl Answer {
    fn shown(self, index: usize, seed: u64) -> anyhow::Result<Shown> {
        let finish_reason = match self.end {
            Some(FinishReason::StopToken(_)) => "stop_token",
            Some(FinishReason::StopString { .. }) => "stop_string",
            Some(FinishReason::Length) => "max_tokens",
            Some(FinishReason::Context) => "context",
            Some(FinishReason::Cancelled) | None => anyhow::bail!("the engine stopped"),
            Some(FinishReason::EngineFailed { cause }) => {
                anyhow::bail!("the engine failed: {cause}")
            }
        };
        let tokens = &self.tokens;
        Ok(Shown {
            index,
            finish_reason,
            seed,
            prompt_tokens: self.usage.prompt_tokens,
            cached_tokens: self.usage.cached_tokens,
            token_ids: tokens.iter().map(|token| token.token).collect(),
            sampling_logprobs: tokens.iter().map(|token| token.log_prob).collect(),
            model_logprobs: tokens.iter().map(|token| token.model_log_prob).collect(),
            text: self.text,
        })
    }
}

/// All answers together.
#[derive(Debug, Default)]
struct Total {
    prompt_tokens: usize,
    new_tokens: usize,
    /// Until the last of the first tokens.
    prefill: Duration,
}

impl Total {
    fn add(&mut self, usage: Usage) {
        self.prompt_tokens += usage.prompt_tokens - usage.cached_tokens;
        self.new_tokens += usage.new_tokens;
        self.prefill = self.prefill.max(usage.first_token);
    }

    fn note(&self, elapsed: Duration, seed: u64, terminal: Terminal) {
        let decoding = elapsed.saturating_sub(self.prefill).as_secs_f64();
        let rate = self.new_tokens as f64 / decoding.max(1e-9);
        terminal.note(format_args!(
            "{} prompt tokens in {:.2} s · {} new tokens in {decoding:.2} s, {rate:.1} a second · \
             seed {seed}",
            self.prompt_tokens,
            self.prefill.as_secs_f64(),
            self.new_tokens,
        ));
    }
}

impl PromptOptions {
    fn read(&self) -> anyhow::Result<String> {
        let text = match (&self.prompt, &self.prompt_file) {
            (Some(text), _) => text.clone(),
            (None, Some(path)) => std::fs::read_to_string(path)
                .map_err(|error| WrongUse::error(error.to_string()))
                .with_context(|| format!("can't read the prompt `{}`", path.display()))?,
            (None, None) if std::io::stdin().is_terminal() => {
                return Err(WrongUse::error("there is no prompt"))
                    .hint("give one with `--prompt`, `--prompt-file` or on standard input");
            }
            (None, None) => {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text).context("can't read standard input")?;
                text
            }
        };
        if text.is_empty() {
            return Err(WrongUse::error("the prompt is empty"));
        }
        Ok(text)
    }

    fn encode(&self, model: &Model, prompt: String) -> anyhow::Result<Vec<u32>> {
        if !self.chat {
            return Ok(model.text_prompt(&prompt, true)?);
        }
        let system = self.system.iter().map(|text| Message::text(Role::System, text.as_str()));
        let messages: Vec<Message> = system.chain([Message::text(Role::User, prompt)]).collect();
        Ok(model.chat_prompt(&messages, &[])?)
    }
}

impl SamplingOptions {
    fn request(&self, model: &Model, prompt: Vec<u32>, draw: Key) -> Request {
        let end_tokens = if self.ignore_end { &[] } else { model.end_tokens() };
        Request {
            prompt,
            sampling: Sampling {
                temperature: self.temperature,
                top_k: self.top_k,
                top_p: self.top_p,
                min_p: self.min_p,
            },
            stop: Stop {
                tokens: end_tokens.to_vec(),
                strings: self.stop.clone(),
                text: Some(Arc::new(model.text(false))),
                max_new_tokens: self.max_new_tokens,
            },
            draw,
            top_log_probs: 0,
            prompt_log_probs: false,
        }
    }
}
