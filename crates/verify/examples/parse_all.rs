use std::io::BufRead;
fn main() {
    let mut bad = 0;
    let mut n = 0;
    for line in std::io::stdin().lock().lines() {
        let l = line.unwrap();
        let t: String = serde_json::from_str(&l).unwrap();
        n += 1;
        match rocstar_verify::parse(&t) {
            Ok(p) => {
                if std::env::var("SHOW").is_ok() {
                    println!("{t}  =>  {:?}", p.answer)
                }
            }
            Err(e) => {
                bad += 1;
                println!("BAD {t}  @{} {}", e.position, e.message)
            }
        }
    }
    println!("{bad} of {n}");
}
