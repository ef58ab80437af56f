//! One request until it is answered: who is asked, how often, and how long is paused.
//!
//! Invariants: a request is answered once or ends in one error. A server that breaks down counts as
//! failing; one whose answer is odd in itself has answered, so however many odd answers it gives,
//! they are missing one by one and end nothing.

use std::time::{Duration, Instant};

use rocstar_record::draw::Key;

use super::balance::Ending;
use super::endpoints::{Endpoints, Job};
use super::error::{Fault, RemoteError, pause_ms};
use super::options::EndpointOptions;
use super::wire::MOST_TOKENS;

/// What one request went through.
struct Course {
    draw: Key,
    /// How many servers there are.
    servers: usize,
    /// Failures that count.
    tries: usize,
    /// Answers that a server is full.
    waits: usize,
    busy_since: Option<Instant>,
    /// Who failed last.
    avoid: Option<usize>,
}

/// What follows a fault.
enum Next {
    /// Another try, after a pause.
    Again(Duration),
    /// No more.
    GiveUp(RemoteError),
}

impl Endpoints {
    /// Runs a job of about so many tokens at one of the servers, as often as it is worth it.
    pub(super) async fn send<J: Job>(
        &self,
        tokens: usize,
        draw: Key,
        job: &mut J,
    ) -> Result<J::Answer, RemoteError> {
        // Settings have no upper bound, and places are added up.
        let tokens = tokens.min(MOST_TOKENS);
        let mut course = Course::new(draw, self.all().len());
        loop {
            let place = self.take(tokens, course.avoid).await?;
            let index = place.index();
            let endpoint = &self.all()[index];
            let fault = match job.run(endpoint).await {
                Ok(answer) => {
                    place.end(Ending::Answered);
                    return Ok(answer);
                }
                Err(fault) => endpoint.client.redact(fault),
            };
            let rounds = self.rounds_aside(index);
            let (ending, next) = course.after(fault, index, rounds, &endpoint.options);
            place.end(ending);
            match next {
                Next::Again(Duration::ZERO) => {}
                Next::Again(pause) => tokio::time::sleep(pause).await,
                Next::GiveUp(error) => return Err(error),
            }
        }
    }
}

impl Course {
    const fn new(draw: Key, servers: usize) -> Self {
        Self { draw, servers, tries: 0, waits: 0, busy_since: None, avoid: None }
    }

    /// What a fault of the server `index`, which failed `rounds` rounds beyond those that are borne,
    /// means for it and for the request.
    fn after(
        &mut self,
        fault: Fault,
        index: usize,
        rounds: usize,
        options: &EndpointOptions,
    ) -> (Ending, Next) {
        let url = options.url.clone();
        match fault {
            Fault::Refused { status, code, message } => {
                let error = RemoteError::Refused { url, status, code, message };
                (Ending::Answered, Next::GiveUp(error))
            }
            Fault::Withheld { cause } => {
                (Ending::Answered, Next::GiveUp(RemoteError::Withheld { url, cause }))
            }
            Fault::Odd { cause } => {
                (Ending::Answered, self.failed(cause, index, Duration::ZERO, options))
            }
            Fault::Busy { retry_after_ms, cause } => {
                let most = Duration::from_millis(options.busy_ms);
                let told = retry_after_ms.map(Duration::from_millis);
                let pause = told.unwrap_or_else(|| self.pause(self.waits, options)).min(most);
                let now = Instant::now();
                let waited = now - *self.busy_since.get_or_insert(now);
                self.waits += 1;
                let next = if waited >= most {
                    self.give_up(cause, options)
                } else {
                    Next::Again(Duration::ZERO)
                };
                (Ending::Busy { pause }, next)
            }
            Fault::Broken { retry_after_ms, cause } => {
                let longest = Duration::from_millis(options.longest_pause_ms);
                let told = Duration::from_millis(retry_after_ms.unwrap_or(0)).min(longest);
                let aside = self.pause(rounds, options);
                let broken = Ending::Broken { cause: format!("`{url}`: {cause}"), pause: aside };
                (broken, self.failed(cause, index, told, options))
            }
        }
    }

    /// One more failure, elsewhere or a little later.
    fn failed(
        &mut self,
        cause: String,
        index: usize,
        told: Duration,
        options: &EndpointOptions,
    ) -> Next {
        self.tries += 1;
        if self.tries >= options.tries.saturating_mul(self.servers) {
            return self.give_up(cause, options);
        }
        self.avoid = Some(index);
        Next::Again(self.pause(self.tries - 1, options).max(told))
    }

    fn give_up(&self, cause: String, options: &EndpointOptions) -> Next {
        let tries = self.tries + self.waits;
        Next::GiveUp(RemoteError::Failed { url: options.url.clone(), tries, cause })
    }

    fn pause(&self, failures: usize, options: &EndpointOptions) -> Duration {
        let (first, longest) = (options.first_pause_ms, options.longest_pause_ms);
        Duration::from_millis(pause_ms(first, longest, failures, self.draw))
    }
}
