//! How tokens spell bytes: the alphabets in which vocabularies are written, and a table of the bytes
//! of every token.
//!
//! Two spellings are known. *Byte-level* vocabularies (GPT-2, Qwen, Llama 3, SmolLM) write each byte
//! as one printable character. *Byte-fallback* vocabularies (Llama 2) write text with `▁` for space
//! and single bytes as `<0x0A>`. Added tokens are their own text in both.

/// How ordinary tokens of a vocabulary are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// One character for each byte.
    ByteLevel,
    /// `▁` for a space, `<0xNN>` for a byte that no token spells.
    ByteFallback {
        /// Whether a text starts with a space that was added on encoding.
        strips_first_space: bool,
    },
}

/// For each byte its character in byte-level vocabularies: itself where it is printable and no space,
/// otherwise the next free one from U+0100 on.
const CHARACTERS: [u16; 256] = {
    let mut characters = [0; 256];
    let (mut byte, mut next_free) = (0, 0x100);
    while byte < 256 {
        characters[byte] = if is_printable(byte as u8) {
            byte as u16
        } else {
            next_free += 1;
            next_free - 1
        };
        byte += 1;
    }
    characters
};

/// The inverse of [`CHARACTERS`]; `u16::MAX` where a character stands for no byte.
const BYTES: [u16; 0x144] = {
    let mut bytes = [u16::MAX; 0x144];
    let mut byte = 0;
    while byte < 256 {
        bytes[CHARACTERS[byte] as usize] = byte as u16;
        byte += 1;
    }
    bytes
};

const fn is_printable(byte: u8) -> bool {
    matches!(byte, b'!'..=b'~' | 0xA1..=0xAC | 0xAE..=0xFF)
}

/// The character that stands for a byte in byte-level vocabularies.
pub(crate) fn character_of(byte: u8) -> char {
    char::from_u32(CHARACTERS[usize::from(byte)].into()).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The byte that a character stands for.
pub(crate) fn byte_of(character: char) -> Option<u8> {
    BYTES.get(character as usize).and_then(|&byte| u8::try_from(byte).ok())
}

/// The bytes of an ordinary token.
pub(super) fn spell(token: &str, spelling: Spelling, out: &mut Vec<u8>) {
    match spelling {
        Spelling::ByteLevel => {
            let start = out.len();
            for character in token.chars() {
                let Some(byte) = byte_of(character) else {
                    // No byte-level text, so it is meant as it stands.
                    out.truncate(start);
                    out.extend_from_slice(token.as_bytes());
                    return;
                };
                out.push(byte);
            }
        }
        Spelling::ByteFallback { .. } => match fallback_byte(token) {
            Some(byte) => out.push(byte),
            None => out.extend_from_slice(token.replace('▁', " ").as_bytes()),
        },
    }
}

/// The byte of a token such as `<0x0A>`.
fn fallback_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok()).flatten()
}

/// What an id is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// No token has this id.
    Absent,
    /// Text.
    Ordinary,
    /// A control token.
    Special,
}

/// The bytes and the kind of every id, in one allocation each.
#[derive(Debug, Default)]
pub(super) struct TokenTable {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    kinds: Vec<Kind>,
}

impl TokenTable {
    /// Adds the next id.
    pub(super) fn push(&mut self, kind: Kind, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.bytes);
        self.ends.push(self.bytes.len());
        self.kinds.push(kind);
    }

    /// Ids in the table: the highest one and 1.
    pub(super) fn len(&self) -> usize {
        self.kinds.len()
    }

    pub(super) fn kind(&self, id: u32) -> Kind {
        self.kinds.get(id as usize).copied().unwrap_or(Kind::Absent)
    }

    pub(super) fn bytes(&self, id: u32) -> Option<&[u8]> {
        let index = id as usize;
        if self.kind(id) == Kind::Absent {
            return None;
        }
        let start = if index == 0 { 0 } else { *self.ends.get(index - 1)? };
        self.bytes.get(start..*self.ends.get(index)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_has_a_character_of_its_own() {
        for byte in 0..=u8::MAX {
            assert_eq!(byte_of(character_of(byte)), Some(byte));
        }
        assert_eq!((character_of(b' '), character_of(b'\n')), ('Ġ', 'Ċ'));
        assert_eq!([byte_of(' '), byte_of('\u{144}'), byte_of('語')], [None; 3]);
    }
}
