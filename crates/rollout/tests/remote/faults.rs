//! Faults of a server leave no trace in what is made.

use pretty_assertions::assert_eq;
use rocstar_fake_endpoint::{Behaviour, FakeEndpoint, Fault, Faults, Pace};
use rocstar_rollout::remote::{EndpointOptions, RemoteError};
use rocstar_rollout::{PlayError, RolloutOptions};

use crate::support::*;

fn every_fault() -> Vec<Fault> {
    vec![
        Fault::TooMany { retry_after_s: Some(0.01) },
        Fault::TooMany { retry_after_s: None },
        Fault::Status(500),
        Fault::Status(502),
        Fault::Status(503),
        Fault::Cut { after_pieces: 0 },
        Fault::Cut { after_pieces: 3 },
        Fault::CutQuietly { after_pieces: 2 },
        Fault::ErrorWithin { after_pieces: 1 },
        Fault::Silent { after_pieces: 2 },
        Fault::Dead,
        Fault::ByteByByte,
        Fault::Garbage,
        Fault::Usage(u64::MAX),
        Fault::Aborted,
        Fault::FalseEnd,
    ]
}

/// Nothing lost, nothing twice, and the result is the one without faults: whole and streamed, each
/// question meeting one or two faults before it is answered.
#[tokio::test]
async fn with_faults_and_without_the_result_is_the_same() {
    let tasks: Vec<_> = (0..17).map(|n| task(&n.to_string())).collect();
    let assignments = assignments(&tasks, 2);
    let good = FakeEndpoint::start(behaviour()).unwrap();
    let expected = play_with(vec![endpoint(&good)], options(), &assignments).await.unwrap();
    let expected = timeless(expected);
    let questions = good.seen().len();
    assert!(good.seen().iter().all(|seen| seen.was_answered));
    for (is_streamed, times) in [(true, 1), (true, 2), (false, 1)] {
        let faults = Faults::each_question(times, every_fault());
        let bad = FakeEndpoint::start(Behaviour { faults, ..behaviour() }).unwrap();
        let request_ms = if is_streamed { 20_000 } else { 1500 };
        let options = EndpointOptions { stream: is_streamed, request_ms, ..endpoint(&bad) };
        let all = play_with(vec![options], self::options(), &assignments).await.unwrap();
        assert_eq!(timeless(all), expected, "streamed: {is_streamed}, {times} faults");
        let seen = bad.seen();
        let met: Vec<_> = seen.iter().filter_map(|seen| seen.fault).collect();
        assert!(met.len() >= questions, "{} faults at {questions} questions", met.len());
        assert!(every_fault().iter().all(|fault| met.contains(fault)), "{met:?}");
    }
}

/// An answer in single bytes, and a token at a time, is the answer.
#[tokio::test]
async fn slow_bytes_are_waited_for() {
    let faults = Faults::always(Fault::ByteByByte);
    let pace = Pace::OneByOne;
    let slow = FakeEndpoint::start(Behaviour { faults, pace, ..behaviour() }).unwrap();
    let good = FakeEndpoint::start(behaviour()).unwrap();
    let assignments = assignments(&[task("4")], 1);
    let play = async |server| play_with(vec![endpoint(server)], options(), &assignments).await;
    assert_eq!(timeless(play(&slow).await.unwrap()), timeless(play(&good).await.unwrap()));
}

#[tokio::test]
async fn one_hopeless_question_is_missing_and_the_others_are_made() {
    let first = FakeEndpoint::start(behaviour()).unwrap();
    let assignments = assignments(&[task("1"), task("2"), task("3")], 1);
    play_with(vec![endpoint(&first)], options(), &assignments).await.unwrap();
    // The second problem's first question.
    let seen = first.seen();
    let is_second = |body: &serde_json::Value| {
        body["messages"].as_array().is_some_and(|all| all.len() == 1 && all[0]["content"] == "2")
    };
    let hopeless = seen.iter().find(|seen| is_second(&seen.body)).unwrap().seed;
    let faults = Faults::new(move |arrival| {
        (arrival.seed == hopeless).then_some(Fault::Cut { after_pieces: 1 })
    });
    let second = FakeEndpoint::start(Behaviour { faults, ..behaviour() }).unwrap();
    let all = play_with(vec![endpoint(&second)], options(), &assignments).await.unwrap();
    let made: Vec<bool> = all.values().map(Result::is_ok).collect();
    assert_eq!(made, [true, false, true]);
    let cause = all[&1].as_ref().unwrap_err();
    assert!(cause.contains("failed 8 times") && cause.contains(&second.url()), "{cause}");
}

#[tokio::test]
async fn a_server_that_is_gone_ends_the_play_and_keeps_what_was_made() {
    let faults = Faults::always(Fault::Status(503));
    let gone = FakeEndpoint::start(Behaviour { faults, ..behaviour() }).unwrap();
    let assignments = assignments(&[task("1"), task("2")], 4);
    let ended = play_with(vec![endpoint(&gone)], options(), &assignments).await;
    match ended {
        Err(PlayError::Remote(RemoteError::AllGone { causes })) => {
            assert_eq!(causes.len(), 1);
            assert!(causes[0].contains(&gone.url()) && causes[0].contains("503"), "{causes:?}");
        }
        Ok(all) => panic!("{all:?}"),
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn what_no_pause_brings_back_ends_the_play_at_once() {
    for (fault, status) in [(Fault::Status(402), 402), (Fault::QuotaUsedUp, 429)] {
        let faults = Faults::always(fault);
        let server = FakeEndpoint::start(Behaviour { faults, ..behaviour() }).unwrap();
        let options = EndpointOptions { max_concurrent: 1, ..endpoint(&server) };
        let tasks = [task("1"), task("2"), task("3")];
        let ended = play_with(vec![options], self::options(), &assignments(&tasks, 4)).await;
        match ended {
            Err(PlayError::Remote(RemoteError::Refused { status: told, .. })) => {
                assert_eq!(told, status);
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(server.seen().len(), 1);
    }
}

/// The server answers: what it answers oddly is missing, however much of it there is, and the rest is
/// made.
#[tokio::test]
async fn odd_answers_are_missing_and_end_nothing() {
    for fault in [Fault::Aborted, Fault::FalseEnd, Fault::Usage(u64::MAX)] {
        let server = FakeEndpoint::start(Behaviour {
            faults: Faults::new(move |arrival| (arrival.number >= 3).then_some(fault)),
            ..behaviour()
        })
        .unwrap();
        let options = EndpointOptions { tries: 4, max_concurrent: 1, ..endpoint(&server) };
        let rollout = RolloutOptions { most_running: 1, ..self::options() };
        let tasks: Vec<_> = (0..4).map(|n| task(&n.to_string())).collect();
        let all = play_with(vec![options], rollout, &assignments(&tasks, 4)).await.unwrap();
        assert!(all[&0].is_ok());
        let cause = all[&15].as_ref().unwrap_err();
        assert!(cause.contains("failed 4 times"), "{cause}");
    }
}

/// What a server says can't steer a terminal.
#[tokio::test]
async fn a_servers_words_are_plain_text() {
    let faults = Faults::always(Fault::Escapes);
    let server = FakeEndpoint::start(Behaviour { faults, ..behaviour() }).unwrap();
    let all = play_with(vec![endpoint(&server)], options(), &assignments(&[task("1")], 1)).await;
    let cause = all.unwrap().remove(&0).unwrap().unwrap_err();
    assert!(cause.contains("no") && !cause.contains(char::is_control), "{cause:?}");
    assert!(!cause.contains('\u{202e}'), "{cause:?}");
}

#[tokio::test]
async fn whoever_says_nothing_is_given_up_in_time() {
    let faults = Faults::always(Fault::Dead);
    let dead = FakeEndpoint::start(Behaviour { faults, ..behaviour() }).unwrap();
    let options = EndpointOptions { first_byte_ms: 30, tries: 4, ..endpoint(&dead) };
    let ended = play_with(vec![options], self::options(), &assignments(&[task("1")], 1)).await;
    let text = match ended {
        Ok(all) => all[&0].as_ref().unwrap_err().clone(),
        Err(error) => error.to_string(),
    };
    assert!(text.contains("no answer within 30 ms"), "{text}");
}

#[tokio::test]
async fn a_model_that_never_stops_is_cut_off() {
    for fault in [Fault::NeverStops, Fault::IgnoresLimit] {
        let long = "x".repeat(4000);
        let script =
            rocstar_fake_endpoint::Script::new(move |_| rocstar_fake_endpoint::Reply::text(&*long));
        let faults = Faults::always(fault);
        let server = FakeEndpoint::start(Behaviour { faults, script, ..behaviour() }).unwrap();
        let options = RolloutOptions { response_tokens: 100, ..options() };
        let made = attempt(&server, options, task("1")).await.unwrap();
        assert_eq!(made.finish, rocstar_record::episode::Finish::TokenLimit, "{fault:?}");
        assert!(made.turns[0].text.len() < 1000, "{fault:?}");
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn an_endless_whole_answer_runs_out_of_time() {
    let faults = Faults::always(Fault::NeverStops);
    let server = FakeEndpoint::start(Behaviour { faults, ..behaviour() }).unwrap();
    let options = EndpointOptions { stream: false, request_ms: 40, tries: 2, ..endpoint(&server) };
    let all = play_with(vec![options], self::options(), &assignments(&[task("1")], 1)).await;
    let text = match all {
        Ok(all) => all[&0].as_ref().unwrap_err().clone(),
        Err(error) => error.to_string(),
    };
    assert!(text.contains("within 40 ms"), "{text}");
}
