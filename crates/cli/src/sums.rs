//! SHA-256 sums as they are written: lower-case hexadecimal.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

const READ_BYTES: usize = 1 << 20;

/// Bytes as hexadecimal digits.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The sum of a text.
pub(crate) fn of_text(text: &str) -> String {
    hexadecimal(&Sha256::digest(text))
}

/// The sum of a file.
///
/// # Errors
/// It can't be read.
pub(crate) fn of_file(path: &Path) -> anyhow::Result<String> {
    let read = || format!("can't read {}", path.display());
    let mut file = File::open(path).with_context(read)?;
    let (mut sum, mut buffer) = (Sha256::new(), vec![0; READ_BYTES]);
    loop {
        let count = file.read(&mut buffer).with_context(read)?;
        if count == 0 {
            return Ok(hexadecimal(&sum.finalize()));
        }
        sum.update(&buffer[..count]);
    }
}
