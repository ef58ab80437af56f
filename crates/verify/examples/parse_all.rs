//! Runs labelled pairs: lines of {gold, answer, equal, precision?, strict?, allow_set_relation_comp?}.
use rocstar_verify::*;
use std::io::BufRead;
fn main() {
    let (mut n, mut bad) = (0, 0);
    for line in std::io::stdin().lock().lines() {
        let v: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        let mut o = Options::default();
        if let Some(p) = v["precision"].as_u64() {
            o.precision = p as u32;
        }
        if let Some(p) = v["strict"].as_bool() {
            o.strict = p;
        }
        if let Some(p) = v["allow_set_relation_comp"].as_bool() {
            o.allow_set_relation_comp = p;
        }
        let r = verify(v["gold"].as_str().unwrap(), v["answer"].as_str().unwrap(), &o);
        n += 1;
        if (r.verdict == Verdict::Right) != v["equal"].as_bool().unwrap() {
            bad += 1;
            println!(
                "{} [{}] {:?} {:?}\n   gold {:?}\n   answer {:?}",
                v["kind"], v["equal"], r.verdict, r.difference, r.gold, r.answer
            );
        }
    }
    println!("{bad} of {n} differ");
}
