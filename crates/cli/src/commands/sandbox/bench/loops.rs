//! `--case loop`: what another client's infinite loops do to everybody else.

use std::time::{Duration, Instant};

use futures::future::join_all;
use hyper::StatusCode;

use super::case::{Case, INFINITE_LOOP};
use super::client::{Caller, Target};
use super::load::{Finished, Load};
use super::own_service::OwnService;
use super::wire::{Api, Judged};
use crate::settings::SettingsOptions;

/// Infinite loops ahead of the measured calls, and their limit.
pub(crate) const LOOPS: usize = 4;
const LOOP_LIMIT_MS: u64 = 4_000;
/// The loops run when the measured calls start: they have used up their first turn by then.
const HEAD_START: Duration = Duration::from_millis(300);

/// Tries of the time-out measurement, and their limit.
const TIME_OUTS: usize = 5;
const SHORT_LIMIT_MS: u64 = 500;

/// Sends the loops as one client and the load as another.
///
/// # Errors
/// The server can't be reached, or the loops did not run into their limit.
pub(crate) async fn run(
    load: &Load,
    target: &Target,
    progress: &dyn Fn(u64),
) -> anyhow::Result<Finished> {
    let hogs = async {
        let mut callers: Vec<Caller<'_>> =
            (0..LOOPS).map(|_| Caller::new(target, "loops")).collect();
        let sent = callers.iter_mut().map(|caller| {
            let body = load.api.call_body(INFINITE_LOOP, Some(LOOP_LIMIT_MS));
            caller.post(load.api.call_path(), body.into(), |_| {})
        });
        let answers = join_all(sent).await.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
        anyhow::ensure!(
            answers.iter().all(|status| *status == StatusCode::OK),
            "the server refused an infinite loop: {answers:?}"
        );
        Ok(())
    };
    let measured = async {
        tokio::time::sleep(HEAD_START).await;
        load.run(target, "measured", progress).await
    };
    let ((), finished) = tokio::try_join!(hogs, measured)?;
    Ok(finished)
}

/// Longest time from a program's limit to the end of a program that was waiting for its slot, on a
/// service with a single slot. It includes that program's own run and the network.
///
/// # Errors
/// The service does not start or does not answer.
pub(crate) async fn slot_free(settings: &SettingsOptions) -> anyhow::Result<Duration> {
    let service = OwnService::start(settings, &["--set", "service.jail.slots=1"])?;
    let target = Target::new(&service.ready.url, None)?;
    let limit = Duration::from_millis(SHORT_LIMIT_MS);
    let mut longest = Duration::ZERO;
    for index in 0..TIME_OUTS {
        let (mut hog, mut next) = (Caller::new(&target, "same"), Caller::new(&target, "same"));
        hog.connect().await?;
        next.connect().await?;
        let started = Instant::now();
        let body = Api::Native.call_body(INFINITE_LOOP, Some(SHORT_LIMIT_MS));
        let looping = hog.post(Api::Native.call_path(), body.into(), |_| {});
        let waiting = async {
            // Sent while the loop holds the only slot.
            tokio::time::sleep(limit / 2).await;
            let job = Case::Trivial.job(index);
            let mut answer = Vec::new();
            let body = Api::Native.call_body(&job.program, None);
            next.post(Api::Native.call_path(), body.into(), |piece| answer.extend(piece)).await?;
            let judged = Api::Native.judge(&answer, &job.expected);
            anyhow::ensure!(judged == Judged::Ok, "the program after a time-out: {judged:?}");
            Ok(started.elapsed())
        };
        let (_, answered) = tokio::try_join!(looping, waiting)?;
        longest = longest.max(answered.saturating_sub(limit));
    }
    Ok(longest)
}
