//! Writes a synthetic run: `synthesize FOLDER STEPS GROUPS SAMPLES [hostile]`. What the figures of a
//! large run are measured on; a hostile one holds markup that must do nothing.

#[path = "../tests/it/synthetic.rs"]
mod synthetic;

/// Markup that tells when it is taken for such.
const HOSTILE: &str = "<script>globalThis.hacked = true</script><svg onload=\"globalThis.hacked = \
                       true\"></svg><img src=x onerror=\"globalThis.hacked = true\">";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let all: Vec<String> = std::env::args().skip(1).collect();
    let [folder, steps, groups, samples, rest @ ..] = all.as_slice() else {
        return Err("give FOLDER STEPS GROUPS SAMPLES [hostile]".into());
    };
    let size = synthetic::Size {
        steps: steps.parse()?,
        groups: groups.parse()?,
        samples: samples.parse()?,
    };
    let is_hostile = rest.iter().any(|word| word == "hostile");
    let said: synthetic::Said = if is_hostile { |_, _, _| Some(HOSTILE) } else { |_, _, _| None };
    synthetic::write(std::path::Path::new(folder), size, said)
}
