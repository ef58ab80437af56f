//! Several servers as one.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use pretty_assertions::assert_eq;
use rocstar_fake_endpoint::{Behaviour, FakeEndpoint, Fault, Faults, Flavour, Metrics, Pace};
use rocstar_rollout::remote::{EndpointOptions, Endpoints, RemoteError, RemoteGenerator};
use rocstar_rollout::{Generator as _, PlayError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

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

fn telling(metrics: Metrics) -> FakeEndpoint {
    let flavour = Flavour::Vllm;
    FakeEndpoint::start(Behaviour { flavour, metrics, ..behaviour() }).unwrap()
}

#[tokio::test]
async fn wild_metrics_end_nothing() {
    let wild = "vllm:kv_cache_usage_perc -1e30\nvllm:num_requests_waiting 1e30\n\
                vllm:cache_config_info{block_size=\"1e30\",num_gpu_blocks=\"1e30\"} 1\n";
    let servers = [telling(Metrics::Page(wild)), telling(Metrics::Page(wild))];
    let tasks: Vec<_> = (0..6).map(|n| task(&n.to_string())).collect();
    let endpoints: Vec<_> = servers.iter().map(endpoint).collect();
    let known = Endpoints::connect(endpoints.clone()).await.unwrap();
    let capacity = RemoteGenerator::new(Arc::new(known)).unwrap().capacity();
    assert_eq!((capacity.total_tokens, capacity.free_tokens), (1 << 49, 1 << 49));
    let all = play_with(endpoints, options(), &assignments(&tasks, 1)).await.unwrap();
    assert!(all.values().all(Result::is_ok));
}

/// A server that never tells its load keeps no run from beginning, and gets its share of the work.
#[tokio::test]
async fn silent_metrics_hold_up_nobody() {
    let (silent, free) = (telling(Metrics::Silent), telling(Metrics::Used(0.1)));
    let tasks: Vec<_> = (0..12).map(|n| task(&n.to_string())).collect();
    let patient = |server| EndpointOptions {
        first_byte_ms: 3_600_000,
        idle_ms: 3_600_000,
        ..endpoint(server)
    };
    let endpoints = vec![patient(&silent), patient(&free)];
    play_with(endpoints, options(), &assignments(&tasks, 1)).await.unwrap();
    assert!(!silent.seen().is_empty() && !free.seen().is_empty());
}

/// A list of models that comes without end is given up when an answer should have begun.
#[tokio::test]
async fn an_endless_list_of_models_is_given_up() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let options = EndpointOptions {
        first_byte_ms: 40,
        idle_ms: 3_600_000,
        first_pause_ms: 1,
        ..EndpointOptions::at(url)
    };
    let dripping = async {
        let mut open = futures::stream::FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => open.push(drip(accepted.unwrap().0)),
                _ = open.next(), if !open.is_empty() => {}
            }
        }
    };
    tokio::select! {
        connected = Endpoints::connect(vec![options]) => {
            let cause = connected.map(drop).unwrap_err().to_string();
            assert!(cause.contains("no end within 40 ms"), "{cause}");
        }
        () = dripping => {}
    }
}

/// Blanks without end, one at a time, whatever is asked.
async fn drip(mut connection: tokio::net::TcpStream) {
    let mut asked = [0; 1];
    let _ = connection.read(&mut asked).await;
    let head = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n";
    let mut next: &[u8] = head;
    while connection.write_all(next).await.is_ok() {
        next = b" ";
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_server_with_room_gets_the_work() {
    let (full, free) = (telling(Metrics::Used(0.97)), telling(Metrics::Used(0.1)));
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
