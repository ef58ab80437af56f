//! `/v1/completions`.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::models::random;
use crate::{COMPLETIONS, Server};

fn texts(answer: &Value) -> Vec<&str> {
    let choices = answer["choices"].as_array().unwrap();
    choices.iter().map(|choice| choice["text"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn text_and_its_tokens_are_continued_alike() {
    let server = Server::start(random()).await;
    let body = |prompt: Value| json!({"prompt": prompt, "seed": 4, "max_tokens": 30, "return_token_ids": true});
    let of_text = server.answer(COMPLETIONS, &body(json!("Once"))).await;
    let of_tokens = server.answer(COMPLETIONS, &body(json!([79, 110, 99, 101]))).await;
    assert_eq!(of_text["object"], "text_completion");
    assert_eq!(of_text["choices"], of_tokens["choices"]);
    assert_eq!(of_text["choices"][0]["prompt_token_ids"], json!([79, 110, 99, 101]));
    let tokens = of_text["choices"][0]["token_ids"].as_array().unwrap();
    // Each token's log-probability, as drawn and as the model has it.
    let notes = &of_text["choices"][0]["rocstar"];
    for name in ["sampling_logprobs", "model_logprobs"] {
        assert_eq!(notes[name].as_array().unwrap().len(), tokens.len());
    }
    // At temperature 1 without cuts both are the same distribution.
    for index in 0..tokens.len() {
        let value = |name: &str| notes[name][index].as_f64().unwrap();
        assert!((value("sampling_logprobs") - value("model_logprobs")).abs() < 1e-4);
    }
}

#[tokio::test]
async fn choices_are_numbered_prompt_after_prompt() {
    let server = Server::start(random()).await;
    let body = json!({"prompt": ["ab", "cd"], "n": 2, "seed": 4, "max_tokens": 8});
    let answer = server.answer(COMPLETIONS, &body).await;
    let choices = answer["choices"].as_array().unwrap();
    let indices: Vec<_> = choices.iter().map(|choice| choice["index"].clone()).collect();
    assert_eq!(indices, [0, 1, 2, 3]);
    assert_eq!(answer["usage"]["prompt_tokens"], 4);
    // The second prompt's second choice alone.
    let draw = choices[3]["rocstar"]["draw"].clone();
    let alone = json!({"prompt": "cd", "seed": 4, "max_tokens": 8, "rocstar": {"draw": draw}});
    assert_eq!(texts(&server.answer(COMPLETIONS, &alone).await), texts(&answer)[3..]);
}

#[tokio::test]
async fn streamed_and_whole_answers_are_the_same() {
    let server = Server::start(random()).await;
    let body = json!({
        "prompt": "ab", "n": 2, "seed": 9, "max_tokens": 40, "logprobs": 2,
        "echo": true, "return_token_ids": true
    });
    let whole = server.answer(COMPLETIONS, &body).await;
    let pieces = server.pieces(COMPLETIONS, &body).await;
    for index in 0..2 {
        let (mut text, mut tokens, mut offsets) = (String::new(), Vec::new(), Vec::new());
        let of_choice = pieces.iter().flat_map(|piece| piece["choices"].as_array().unwrap());
        for choice in of_choice.filter(|choice| choice["index"] == json!(index)) {
            text += choice["text"].as_str().unwrap();
            tokens.extend(choice["token_ids"].as_array().into_iter().flatten().cloned());
            let new = choice["logprobs"]["text_offset"].as_array();
            offsets.extend(new.into_iter().flatten().cloned());
        }
        let choice = &whole["choices"][index];
        assert_eq!(choice["text"], text);
        assert_eq!(choice["token_ids"], json!(tokens));
        assert_eq!(choice["logprobs"]["text_offset"], json!(offsets));
    }
}

#[tokio::test]
async fn log_probabilities_are_columns_with_offsets_into_the_text() {
    let server = Server::start(random()).await;
    let body = json!({
        "prompt": "ab", "echo": true, "logprobs": 2, "max_tokens": 6, "seed": 1,
        "ignore_eos": true, "skip_special_tokens": false
    });
    let answer = server.answer(COMPLETIONS, &body).await;
    let choice = &answer["choices"][0];
    assert!(choice["text"].as_str().unwrap().starts_with("ab"));
    let columns = &choice["logprobs"];
    for name in ["tokens", "token_logprobs", "top_logprobs", "text_offset"] {
        assert_eq!(columns[name].as_array().unwrap().len(), 8, "{name}");
    }
    assert_eq!(columns["tokens"].as_array().unwrap()[..2], [json!("a"), json!("b")]);
    assert_eq!(columns["token_logprobs"][0], Value::Null);
    assert!(columns["token_logprobs"][1].as_f64().unwrap() < 0.0);
    assert_eq!(columns["top_logprobs"][0], Value::Null);
    assert!((1..=2).contains(&columns["top_logprobs"][1].as_object().unwrap().len()));
    let offsets: Vec<u64> = serde_json::from_value(columns["text_offset"].clone()).unwrap();
    assert!(offsets.is_sorted() && offsets[..3] == [0, 1, 2], "{offsets:?}");
    assert!(*offsets.last().unwrap() < choice["text"].as_str().unwrap().chars().count() as u64);
}

#[tokio::test]
async fn an_echo_with_nothing_after_it_scores_a_text() {
    let server = Server::start(random()).await;
    let body = json!({"prompt": "abc", "echo": true, "logprobs": 0, "max_tokens": 0});
    let answer = server.answer(COMPLETIONS, &body).await;
    assert_eq!(texts(&answer), ["abc"]);
    assert_eq!(answer["choices"][0]["finish_reason"], "length");
    assert_eq!(answer["choices"][0]["logprobs"]["tokens"], json!(["a", "b", "c"]));
    assert_eq!(answer["usage"]["completion_tokens"], 0);
}

/// The same tokens score the same whether they were sampled or given.
#[tokio::test]
async fn sampled_and_given_tokens_have_the_same_log_probabilities() {
    let server = Server::start(random()).await;
    let body = json!({
        "prompt": [1, 2, 3], "max_tokens": 10, "seed": 8, "ignore_eos": true,
        "return_token_ids": true
    });
    let sampled = server.answer(COMPLETIONS, &body).await;
    let choice = &sampled["choices"][0];
    let mut all = vec![json!(1), json!(2), json!(3)];
    all.extend(choice["token_ids"].as_array().unwrap().iter().cloned());
    let body = json!({"prompt": all, "echo": true, "logprobs": 0, "max_tokens": 0});
    let scored = server.answer(COMPLETIONS, &body).await;
    let scored = scored["choices"][0]["logprobs"]["token_logprobs"].as_array().unwrap();
    let sampled = choice["rocstar"]["model_logprobs"].as_array().unwrap();
    for (scored, sampled) in scored[3..].iter().zip(sampled) {
        assert!((scored.as_f64().unwrap() - sampled.as_f64().unwrap()).abs() < 1e-5);
    }
}

#[tokio::test]
async fn an_answer_does_not_depend_on_what_else_is_served() {
    let server = Server::start(random()).await;
    let body = |seed: u64| json!({"prompt": [seed, 7, 7], "seed": seed, "max_tokens": 40, "return_token_ids": true});
    let mut alone = Vec::new();
    for seed in 0..12 {
        alone.push(server.answer(COMPLETIONS, &body(seed)).await["choices"].clone());
    }
    let bodies: Vec<Value> = (0..12).rev().map(body).collect();
    let together = bodies.iter().map(|body| server.answer(COMPLETIONS, body));
    let together = futures::future::join_all(together).await;
    for (answer, alone) in together.iter().rev().zip(&alone) {
        assert_eq!(&answer["choices"], alone);
    }
}
