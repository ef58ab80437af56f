//! How long a pair takes: every gold answer of the public data sets beside the repository against
//! four spellings of itself; a built-in list where they are absent.
//!
//! Prints the median and the 99th percentile over all pairs, then lets criterion follow a few.

use std::hint::black_box;
use std::io::Write as _;
use std::path::Path;
use std::time::Instant;

use criterion::{Criterion, criterion_group, criterion_main};
use rocstar_verify::{Options, verify};
use serde_json::Value;

const BUILT_IN: [&str; 12] = [
    "72",
    "1,000",
    "\\frac{14}{3}",
    "\\left( 3, \\frac{\\pi}{2} \\right)",
    "6r^2-4r-24",
    "\\frac{\\sqrt{3}}{3}",
    "\\{1\\pm\\sqrt{5},-2\\}",
    "(-\\infty, -1) \\cup (3, \\infty)",
    "\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}",
    "\\text{Evelyn}",
    "2516_8",
    "1 - \\frac{20!}{20^{20}}",
];

fn golds() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let files = ["math500", "aime24", "aime25", "hmmt25_feb", "gsm8k_test", "gsm8k_train"];
    let texts = files
        .iter()
        .filter_map(|file| std::fs::read_to_string(folder.join(format!("{file}.jsonl"))).ok());
    let mut golds = Vec::new();
    for text in texts {
        for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let answer =
                line["answer"].as_str().map_or_else(|| line["answer"].to_string(), str::to_owned);
            golds.push(answer.rsplit("####").next().unwrap_or_default().trim().to_owned());
        }
    }
    if golds.is_empty() {
        golds.extend(BUILT_IN.map(str::to_owned));
    }
    golds
}

fn spellings(gold: &str) -> [String; 4] {
    [
        gold.to_owned(),
        format!("So the answer is \\boxed{{{gold}}}."),
        format!(" ${gold}$ "),
        gold.replace("\\frac", "\\dfrac").replace("\\left", "").replace("\\right", ""),
    ]
}

fn over_all_pairs() {
    let options = Options::default();
    let mut times_us = Vec::new();
    for gold in golds() {
        for answer in spellings(&gold) {
            let start = Instant::now();
            black_box(verify(&gold, &answer, &options));
            times_us.push(start.elapsed().as_secs_f64() * 1e6);
        }
    }
    times_us.sort_by(f64::total_cmp);
    let count = times_us.len();
    let at = |part: usize| times_us.get(count * part / 1000).copied().unwrap_or_default();
    let largest = times_us.last().copied().unwrap_or_default();
    let line = format!(
        "{count} pairs: median {:.1} us, p99 {:.1} us, p99.9 {:.1} us, largest {largest:.1} us",
        at(500),
        at(990),
        at(999)
    );
    // A closed standard error leaves nobody to tell.
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn pairs(criterion: &mut Criterion) {
    over_all_pairs();
    let options = Options::default();
    for (name, gold, answer) in [
        ("integer", "72", "So the answer is \\boxed{72}."),
        ("surds", "\\frac{\\sqrt{3}}{3}", "\\frac{1}{\\sqrt{3}}"),
        ("polynomial", "(a+b)(b+c)(c+a)", "(c+a)(a+b)(b+c)"),
        ("identity", "\\sin 2x", "2\\sin x\\cos x"),
        ("too large to multiply out", "(a+b+c+d)^{30}", "(d+c+b+a)^{30}"),
    ] {
        criterion.bench_function(name, |bench| {
            bench.iter(|| black_box(verify(black_box(gold), black_box(answer), &options)));
        });
    }
}

criterion_group!(benches, pairs);
criterion_main!(benches);
