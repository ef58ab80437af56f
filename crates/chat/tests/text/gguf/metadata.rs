//! Just enough of GGUF to read a tokenizer out of a file: tests need no more, and may panic.

use std::{
    collections::HashMap,
    fs::File,
    io::{BufReader, Read},
    path::Path,
};

use rocstar_chat::GgufTokenizer;

#[derive(Debug)]
enum Value {
    Number(u64),
    Text(String),
    List(Vec<Self>),
}

impl Value {
    fn number(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            other => panic!("a number, not {other:?}"),
        }
    }

    fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            other => panic!("text, not {other:?}"),
        }
    }

    fn list(self) -> Vec<Self> {
        match self {
            Self::List(list) => list,
            other => panic!("a list, not {other:?}"),
        }
    }
}

fn unsigned(file: &mut impl Read, bytes: usize) -> u64 {
    let mut buffer = [0; 8];
    file.read_exact(&mut buffer[..bytes]).expect("bytes");
    u64::from_le_bytes(buffer)
}

fn text(file: &mut impl Read) -> String {
    let mut bytes = vec![0; unsigned(file, 8) as usize];
    file.read_exact(&mut bytes).expect("bytes");
    String::from_utf8(bytes).expect("UTF-8")
}

fn value(file: &mut impl Read, kind: u64) -> Value {
    match kind {
        0 | 1 | 7 => Value::Number(unsigned(file, 1)),
        2 | 3 => Value::Number(unsigned(file, 2)),
        4..=6 => Value::Number(unsigned(file, 4)),
        8 => Value::Text(text(file)),
        9 => {
            let (kind, length) = (unsigned(file, 4), unsigned(file, 8));
            Value::List((0..length).map(|_| value(file, kind)).collect())
        }
        10..=12 => Value::Number(unsigned(file, 8)),
        other => panic!("kind {other}"),
    }
}

/// The tokenizer in a GGUF file.
pub(crate) fn read(path: &Path) -> GgufTokenizer {
    let mut file = BufReader::new(File::open(path).expect("a file"));
    assert_eq!(unsigned(&mut file, 4), u64::from(u32::from_le_bytes(*b"GGUF")));
    let (_version, _tensors, count) =
        (unsigned(&mut file, 4), unsigned(&mut file, 8), unsigned(&mut file, 8));
    let mut all: HashMap<String, Value> = HashMap::new();
    for _ in 0..count {
        let key = text(&mut file);
        let kind = unsigned(&mut file, 4);
        all.insert(key, value(&mut file, kind));
    }
    let mut take = |key: &str| all.remove(key);
    let texts = |list: Option<Value>| list.expect("a list").list().into_iter().map(Value::text);
    let id = |value: Option<Value>| value.map(|value| value.number() as u32);
    GgufTokenizer {
        model: take("tokenizer.ggml.model").expect("a model").text(),
        pre: take("tokenizer.ggml.pre").map(Value::text),
        tokens: texts(take("tokenizer.ggml.tokens")).collect(),
        token_types: take("tokenizer.ggml.token_type")
            .map(|list| list.list().iter().map(|kind| kind.number() as i32).collect())
            .unwrap_or_default(),
        merges: texts(take("tokenizer.ggml.merges")).collect(),
        begin_token: id(take("tokenizer.ggml.bos_token_id")),
        end_token: id(take("tokenizer.ggml.eos_token_id")),
        unknown_token: id(take("tokenizer.ggml.unknown_token_id")),
        padding_token: id(take("tokenizer.ggml.padding_token_id")),
        add_begin_token: take("tokenizer.ggml.add_bos_token").map(|flag| flag.number() != 0),
        add_space_prefix: take("tokenizer.ggml.add_space_prefix").map(|flag| flag.number() != 0),
        chat_template: take("tokenizer.chat_template").map(Value::text),
    }
}
