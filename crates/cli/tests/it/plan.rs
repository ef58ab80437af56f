//! `rocstar plan`: numbers that follow from a recipe and a data sheet, without data, weights or device.

use serde_json::Value;

use crate::harness::Harness;

/// A recipe of the repository.
fn recipe(name: &str) -> String {
    format!("{}/../../recipes/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}

fn plan(arguments: &[&str]) -> (Option<i32>, Value) {
    let all = [&["plan", "--json"], arguments].concat();
    let output = Harness::new().command(&all).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let value = serde_json::from_slice(&output.stdout);
    (output.status.code(), value.unwrap_or_else(|error| panic!("{error}: {text}")))
}

#[test]
fn the_full_recipe_has_the_reports_numbers() {
    let (status, plan) = plan(&[&recipe("rstar2-14b"), "--hardware", "64xMI300X"]);
    assert_eq!((status, &plan["fits"]), (Some(0), &Value::Bool(true)));
    assert_eq!(plan["model"]["parameters"], 14_768_307_200_u64);
    let [tuning, first, second, third] = plan["stages"].as_array().unwrap().as_slice() else {
        panic!("four stages: {plan}");
    };
    assert_eq!((&tuning["steps"], &tuning["warm_up_steps"]), (&5205.into(), &208.into()));
    for (stage, steps, response) in
        [(first, 300, 8192.0), (second, 85, 12_288.0), (third, 125, 12_288.0)]
    {
        let rollouts = &stage["rollouts"];
        assert_eq!(stage["steps"], steps);
        assert_eq!(rollouts["prompts_per_step"], 512);
        assert_eq!(rollouts["rollouts_per_step"], 16_384);
        assert_eq!(rollouts["learnt_rollouts_per_step"], 8192);
        assert_eq!(rollouts["response_tokens"]["most"], response);
        assert_eq!(rollouts["tool_calls_per_step"], 45_056.0);
        let kv = &stage["memory"]["generation"]["kv_bytes_per_token"];
        assert_eq!(*kv, 2 * 40 * 8 * 128 * 2);
    }
    assert_eq!(third["rollouts"]["filter_rollouts"], 42_000 * 8);
    // 16 bytes a weight over 64 devices.
    assert_eq!(first["memory"]["state_bytes"], 14_768_307_200_u64 * 16 / 64);
}

#[test]
fn what_does_not_fit_is_told_with_what_would() {
    let path = recipe("rstar2-14b");
    let output = Harness::new().command(&["plan", &path, "--hardware", "2xA100"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("DOES NOT FIT: needs at least "), "{text}");
    let (_, two) = plan(&[&path, "--hardware", "2xA100"]);
    let fewest = two["fewest_devices"].as_u64().unwrap();
    let on = |devices: u64| plan(&[&path, "--hardware", &format!("{devices}xA100")]).0;
    assert_eq!((on(fewest - 1), on(fewest)), (Some(1), Some(0)));
}

#[test]
fn half_the_devices_take_about_twice_as_long() {
    let seconds = |hardware: &str| {
        plan(&[&recipe("rstar2-14b"), "--hardware", hardware]).1["total_seconds"].as_f64().unwrap()
    };
    let ratio = seconds("32xMI300X") / seconds("64xMI300X");
    assert!((1.7..2.2).contains(&ratio), "{ratio}");
}

#[test]
fn a_recipe_that_is_all_here_is_told_so() {
    let output = Harness::new().command(&["plan", &recipe("quickstart")]).output().unwrap();
    let notes = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{notes}");
    assert!(notes.contains("quickstart.toml --dry-run` reads them"), "{notes}");
}

#[test]
fn what_is_not_known_is_told_with_what_to_give() {
    let tuning = recipe("sft-smollm2");
    for (arguments, told) in [
        (vec!["plan", &tuning, "--hardware", "8xZ9"], "hardware `8xZ9` isn't known"),
        (
            vec!["plan", &tuning, "--set", "model.path=no/such"],
            "give its config.json by `--shape FILE`",
        ),
        (
            vec!["plan", &tuning, "--set", "model.path=x/SmolLM2-135M", "--hardware", "L4"],
            "say it by `--rows N`",
        ),
    ] {
        let output = Harness::new().command(&arguments).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(told), "{text}");
    }
}
