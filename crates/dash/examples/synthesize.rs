//! Writes a synthetic run: `synthesize FOLDER STEPS GROUPS SAMPLES`. What the figures of a large run
//! are measured on.

#[path = "../tests/it/synthetic.rs"]
mod synthetic;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let all: Vec<String> = std::env::args().skip(1).collect();
    let [folder, steps, groups, samples] = all.as_slice() else {
        return Err("give FOLDER STEPS GROUPS SAMPLES".into());
    };
    let size = synthetic::Size {
        steps: steps.parse()?,
        groups: groups.parse()?,
        samples: samples.parse()?,
    };
    synthetic::write(std::path::Path::new(folder), size, |_, _, _| None)
}
