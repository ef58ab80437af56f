//! Several servers as one.

use std::time::Duration;

use pretty_assertions::assert_eq;
use rocstar_fake_endpoint::{Behaviour, FakeEndpoint, Fault, Faults, Flavour, Pace};
use rocstar_rollout::PlayError;
use rocstar_rollout::remote::{EndpointOptions, RemoteError};

use crate::support::*;

#[tokio::test]
async fn what_one_server_drops_another_takes() {
    let tasks: Vec<_> = (0..10).map(|n| task(&n.to_string())).collect();
    let assignments = assignments(&tasks, 2);
    let good = FakeEndpoint::start(behaviour()).unwrap();
    let expected = play_with(vec![endpoint(&good)], options(), &assignments).await.unwrap();
    let expected = timeless(expected);
    // One works for a while and then no more, another never.
    let faults = Faults::new(|arrival| (arrival.number >= 5).then_some(Fault::Status(500)));
    let dying = FakeEndpoint::start(Behaviour { faults, ..behaviour() }).unwrap();
    let faults = Faults::always(Fault::Cut { after_pieces: 1 });
    let bad = FakeEndpoint::start(Behaviour { faults, ..behaviour() }).unwrap();
    let endpoints = vec![endpoint(&dying), endpoint(&bad), endpoint(&good)];
    let all = play_with(endpoints, options(), &assignments).await.unwrap();
    assert_eq!(timeless(all), expected);
    assert!(dying.seen().len() > 5 && !bad.seen().is_empty());
}

#[tokio::test]
async fn when_all_are_gone_each_is_named() {
    let start = |fault| {
        let faults = Faults::always(fault);
        FakeEndpoint::start(Behaviour { faults, ..behaviour() }).unwrap()
    };
    let servers = [start(Fault::Status(500)), start(Fault::CutQuietly { after_pieces: 0 })];
    let options: Vec<_> =
        servers.iter().map(|server| EndpointOptions { tries: 4, ..endpoint(server) }).collect();
    let tasks: Vec<_> = (0..8).map(|n| task(&n.to_string())).collect();
    let ended = play_with(options, self::options(), &assignments(&tasks, 1)).await;
    let Err(PlayError::Remote(RemoteError::AllGone { causes })) = ended else {
        panic!("{ended:?}")
    };
    let named = |at: usize| causes[at].contains(&servers[at].url());
    assert!(named(0) && named(1), "{causes:?}");
}

#[tokio::test]
async fn the_server_with_room_gets_the_work() {
    let start = |flavour, used_share| {
        let used_share = Some(used_share);
        FakeEndpoint::start(Behaviour { flavour, used_share, ..behaviour() }).unwrap()
    };
    let (full, free) = (start(Flavour::Vllm, 0.97), start(Flavour::Vllm, 0.1));
    let tasks: Vec<_> = (0..12).map(|n| task(&n.to_string())).collect();
    let endpoints = vec![endpoint(&full), endpoint(&free)];
    play_with(endpoints, options(), &assignments(&tasks, 1)).await.unwrap();
    assert_eq!(full.seen().len(), 0);
    assert!(free.seen().len() >= 12);
}

#[tokio::test]
async fn without_metrics_the_work_is_shared() {
    let start = || FakeEndpoint::start(behaviour()).unwrap();
    let (one, two) = (start(), start());
    let tasks: Vec<_> = (0..12).map(|n| task(&n.to_string())).collect();
    let endpoints = vec![endpoint(&one), endpoint(&two)];
    play_with(endpoints, options(), &assignments(&tasks, 1)).await.unwrap();
    assert!(one.seen().len() >= 6 && two.seen().len() >= 6);
}

#[tokio::test]
async fn no_more_requests_at_once_than_allowed() {
    let pace = Pace::Every(Duration::from_micros(200));
    let server = FakeEndpoint::start(Behaviour { pace, ..behaviour() }).unwrap();
    let options = EndpointOptions { max_concurrent: 3, ..endpoint(&server) };
    let tasks: Vec<_> = (0..12).map(|n| task(&n.to_string())).collect();
    let rollout = rocstar_rollout::RolloutOptions { most_running: 12, ..self::options() };
    play_with(vec![options], rollout, &assignments(&tasks, 1)).await.unwrap();
    // A request may still be ending while the next begins.
    assert!(server.most_at_once() <= 6, "{}", server.most_at_once());
}
