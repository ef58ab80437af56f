//! What is checked and worked out about requests before they are accepted.
//!
//! Invariant: a request that passed here is one that the jail takes; the error names the field with
//! its path from the top of what the caller sent (`calls[17].limits.wall_ms`).

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use rocstar_jail::{Config, InvalidRequest, Kind, Request};

use crate::scheduler::{Lane, Plan};
use crate::submission::{Answer, Job, Source};
use crate::{Batch, MAX_BATCH_CALLS};

/// Requests of more bytes than this are checked on a thread that may block.
pub(crate) const INLINE_BYTES: usize = 256 << 10;

/// What a call costs to check beside its text, as bytes of text that cost the same.
pub(crate) const CALL_BYTES: usize = 256;

/// The rules of one service.
#[derive(Debug)]
pub(crate) struct Intake {
    jail: Config,
    /// Whether there is a scientific interpreter; without one, everything runs in the bare one.
    scientific: bool,
    queue_calls: usize,
    queue_bytes: u64,
}

/// A batch that may be submitted.
pub(crate) struct PreparedBatch {
    pub(crate) plan: Plan,
    pub(crate) source: Source,
    /// Calls that take the answer of an identical one, by that one's index.
    pub(crate) copies: HashMap<usize, Vec<usize>>,
}

impl Intake {
    pub(crate) fn new(
        jail: Config,
        scientific: bool,
        queue_calls: usize,
        queue_bytes: u64,
    ) -> Self {
        Self { jail, scientific, queue_calls, queue_bytes }
    }

    /// Checks one request.
    pub(crate) fn check(&self, request: &Request) -> Result<(), InvalidRequest> {
        request.validate()?;
        request.limits.resolve(&self.jail.default_limits, &self.jail.maximum_limits)?;
        Ok(())
    }

    /// Most bytes of one stream that a report may keep.
    pub(crate) fn most_kept_bytes(&self) -> u64 {
        self.jail.maximum_limits.kept_bytes
    }

    /// Bytes of one stream that a report keeps by default.
    pub(crate) fn usual_kept_bytes(&self) -> u64 {
        self.jail.default_limits.kept_bytes
    }

    /// Where calls of a kind wait.
    pub(crate) fn lane(&self, kind: Kind) -> Lane {
        if self.scientific { Lane::from(kind) } else { Lane::Bare }
    }

    /// The kind that a session gets where none is asked for.
    pub(crate) fn session_kind(&self) -> Kind {
        if self.scientific { Kind::Scientific } else { Kind::Bare }
    }

    /// Plan and source of a single, checked call.
    pub(crate) fn single(&self, request: Request) -> (Plan, Source) {
        let kind = request.kind.unwrap_or_else(|| Kind::of_program(&request.program));
        let plan = Plan::single(self.lane(kind), size_bytes(&request));
        let mut request = Some(request);
        (plan, Box::new(move |_| request.take().map(run_program)))
    }

    /// Checks a batch and finds identical calls, if they shall be shared.
    pub(crate) fn batch(&self, batch: Batch) -> Result<PreparedBatch, InvalidRequest> {
        check_count("calls", batch.calls.len(), self.queue_calls)?;
        for (index, request) in batch.calls.iter().enumerate() {
            self.check(request).map_err(|error| InvalidRequest {
                field: format!("calls[{index}].{}", error.field),
                problem: error.problem,
            })?;
        }
        let copies = if batch.share_identical { copies(&batch.calls) } else { HashMap::new() };
        let mut requests: Vec<Option<Request>> = batch.calls.into_iter().map(Some).collect();
        for &copy in copies.values().flatten() {
            requests[copy] = None;
        }
        let mut plan = Plan::default();
        for (index, request) in (0_u32..).zip(&requests) {
            if let Some(request) = request {
                let kind = request.kind.unwrap_or_else(|| Kind::of_program(&request.program));
                plan.add(index, self.lane(kind), size_bytes(request));
            }
        }
        self.check_fits("calls", &plan)?;
        let source: Source =
            Box::new(move |index| requests.get_mut(index)?.take().map(run_program));
        Ok(PreparedBatch { plan, source, copies })
    }

    /// Refuses what even an empty queue could not take.
    pub(crate) fn check_fits(&self, field: &str, plan: &Plan) -> Result<(), InvalidRequest> {
        if plan.bytes() <= self.queue_bytes {
            return Ok(());
        }
        Err(InvalidRequest {
            field: field.to_owned(),
            problem: format!(
                "the queue takes at most {} bytes of programs and input, have {}",
                self.queue_bytes,
                plan.bytes()
            ),
        })
    }

    pub(crate) fn queue_calls(&self) -> usize {
        self.queue_calls
    }
}

/// Refuses an empty list, and one that is longer than a batch or the queue may be.
pub(crate) fn check_count(
    field: &str,
    count: usize,
    queue_calls: usize,
) -> Result<(), InvalidRequest> {
    let most = MAX_BATCH_CALLS.min(queue_calls);
    if (1..=most).contains(&count) {
        return Ok(());
    }
    Err(InvalidRequest {
        field: field.to_owned(),
        problem: format!("must hold 1 to {most} entries, holds {count}"),
    })
}

/// Bytes that a request keeps in memory while it waits, but for small change.
pub(crate) fn size_bytes(request: &Request) -> usize {
    let files = request.files.iter().map(|file| file.path.len() + file.content.len());
    let texts = request.argv.iter().chain(&request.fetch).map(String::len);
    let stdin = request.stdin.as_ref().map_or(0, Vec::len);
    request.program.len() + stdin + files.chain(texts).sum::<usize>()
}

/// The job of a checked request.
pub(crate) fn run_program(request: Request) -> Job {
    Box::new(move |jail, control| match jail.run(&request, control) {
        Ok(report) => Answer::Report(report),
        Err(error) => Answer::failed(&error),
    })
}

/// For each call that others are identical to and that comes first: those others.
fn copies(calls: &[Request]) -> HashMap<usize, Vec<usize>> {
    let mut first_of: HashMap<ByContent<'_>, usize> = HashMap::with_capacity(calls.len());
    let mut copies: HashMap<usize, Vec<usize>> = HashMap::new();
    for (index, call) in calls.iter().enumerate() {
        let first = *first_of.entry(ByContent(call)).or_insert(index);
        if first != index {
            copies.entry(first).or_default().push(index);
        }
    }
    copies
}

/// A request as a key: equal in every field, hashed by those that tell requests apart.
#[derive(PartialEq, Eq)]
struct ByContent<'a>(&'a Request);

impl Hash for ByContent<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Request { program, stdin, argv, files, .. } = self.0;
        (program, stdin, argv).hash(state);
        files.iter().for_each(|file| (&file.path, &file.content).hash(state));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use pretty_assertions::assert_eq;
    use rocstar_jail::{Config, InvalidRequest, Limits, Request};

    use super::{Intake, copies};
    use crate::Batch;

    fn intake() -> Intake {
        Intake::new(Config::default(), true, 65_536, 1_000)
    }

    fn refusal(calls: Vec<Request>) -> InvalidRequest {
        let batch = Batch { calls, share_identical: false };
        intake().batch(batch).err().expect("refused")
    }

    #[test]
    fn identical_calls_are_those_that_are_equal_in_every_field() {
        let one = Request::new("print(1)");
        let two = Request::new("print(2)");
        let with_input = Request { stdin: Some(vec![1]), ..one.clone() };
        let limits = Limits { wall_ms: Some(1), ..Limits::default() };
        let with_limit = Request { limits, ..one.clone() };
        let calls = [one.clone(), two.clone(), with_input, one.clone(), with_limit, one, two];
        assert_eq!(copies(&calls), HashMap::from([(0, vec![3, 5]), (1, vec![6])]));
    }

    #[test]
    fn shared_calls_are_planned_once() {
        let batch = Batch { calls: vec![Request::new("1"); 100], share_identical: true };
        let prepared = intake().batch(batch).expect("accepted");
        assert_eq!((prepared.plan.calls(), prepared.copies[&0].len()), (1, 99));
    }

    #[test]
    fn a_refusal_names_the_call_and_its_field() {
        let limits = Limits { wall_ms: Some(0), ..Limits::default() };
        let bad = Request { limits, ..Request::new("1") };
        assert_eq!(refusal(vec![Request::new("1"), bad]).field, "calls[1].limits.wall_ms");
        assert_eq!(refusal(vec![Request::new("\0")]).field, "calls[0].program");
    }

    #[test]
    fn what_never_fits_is_refused_and_not_told_to_come_back() {
        assert_eq!(refusal(Vec::new()).problem, "must hold 1 to 45000 entries, holds 0");
        assert_eq!(refusal(vec![Request::new("1"); 45_001]).field, "calls");
        assert_eq!(refusal(vec![Request::new("1".repeat(600)); 2]).field, "calls");
    }
}
