//! Trying again: how long is paused, what is waited for, and which failures of a tool are worth it.
//!
//! Invariant: a call is made again only where the one before left no trace. A tool that is full is
//! waited for, and that is no failure.

use std::time::{Duration, Instant};

use futures::stream::{BoxStream, FuturesUnordered, StreamExt as _};
use rocstar_record::message::ToolCall;

use crate::conversation::Heard;
use crate::counts::Counts;
use crate::generator::{Ask, Generator, GeneratorError, Piece};
use crate::tool::{Answered, ToolError, ToolInstance};

/// First pause after a failure; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// How often a call waits for room before that counts as a failure.
const MOST_WAITS: usize = 600;

/// The pause after so many failures before.
pub(crate) fn pause(tries: usize) -> tokio::time::Sleep {
    tokio::time::sleep(FIRST_PAUSE.saturating_mul(1 << tries.min(16)).min(LONGEST_PAUSE))
}

/// Starts a generation; a full queue is waited out.
///
/// # Errors
/// Whatever else keeps it from starting.
pub(crate) async fn generate(
    generator: &dyn Generator,
    ask: Ask,
) -> Result<BoxStream<'static, Result<Piece, GeneratorError>>, GeneratorError> {
    loop {
        match generator.generate(ask.clone()) {
            Err(GeneratorError::Busy { retry_after }) => tokio::time::sleep(retry_after).await,
            begun => return begun,
        }
    }
}

/// Makes one call, at most `tries` times.
///
/// # Errors
/// The last failure; or at once that the tool lost the state that earlier calls left.
pub(crate) async fn call(
    tool: &dyn ToolInstance,
    call: &ToolCall,
    tries: usize,
    counts: &Counts,
) -> Result<Answered, ToolError> {
    let (mut failures, mut waits) = (0, 0);
    loop {
        let began = Instant::now();
        let answered = tool.call(call).await;
        let busy_us = began.elapsed().as_micros().try_into().unwrap_or(usize::MAX);
        Counts::add(&counts.tool_busy_us, busy_us);
        let error = match answered {
            Ok(answered) => {
                Counts::add(&counts.tool_calls, 1);
                return Ok(answered);
            }
            Err(error) => error,
        };
        match error {
            ToolError::Busy { retry_after, .. } if waits < MOST_WAITS => {
                waits += 1;
                tokio::time::sleep(retry_after.clamp(FIRST_PAUSE, LONGEST_PAUSE)).await;
            }
            ToolError::StateLost { .. } => return Err(error),
            _ if failures + 1 < tries => {
                failures += 1;
                Counts::add(&counts.tried_again, 1);
                pause(failures - 1).await;
            }
            _ => return Err(error),
        }
    }
}

/// Makes the calls of a turn, each known by its place in it: all at once, or one after another where
/// each may depend on the one before. `hear` is told of each that leaves and of each answer.
///
/// # Errors
/// The first call that can't be made.
pub(crate) async fn call_all(
    tool: &dyn ToolInstance,
    calls: &[(usize, &ToolCall)],
    tries: usize,
    counts: &Counts,
    hear: &mut (dyn FnMut(Heard<'_>) + Send),
) -> Result<Vec<(usize, Answered)>, ToolError> {
    let run =
        async |&(index, made): &(usize, _)| (index, made, call(tool, made, tries, counts).await);
    let places = if tool.is_sequential() { 1 } else { calls.len() };
    let mut answers = Vec::with_capacity(calls.len());
    let mut waiting = calls.iter();
    let mut running = FuturesUnordered::new();
    loop {
        while running.len() < places
            && let Some(next) = waiting.next()
        {
            hear(Heard::Called(next.1));
            running.push(run(next));
        }
        let Some((index, made, answered)) = running.next().await else { return Ok(answers) };
        let answered = answered?;
        hear(Heard::Answered(made, &answered));
        answers.push((index, answered));
    }
}
