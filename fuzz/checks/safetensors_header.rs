//! What must hold for any bytes that claim to be a safetensors file: tensors within the file, each
//! of the size that its shape says, or a refusal that names a field.
//!
//! Shared by the fuzz target `safetensors_header` and by ordinary tests.

use rocstar_nn::files::safetensors::Header;

/// Panics where a header is read that describes what isn't there, or refused without a reason.
pub(crate) fn check(data: &[u8]) {
    let header = match Header::parse(data) {
        Ok(header) => header,
        Err(damage) => {
            assert!(!damage.field.is_empty() && !damage.problem.is_empty(), "{damage:?}");
            return;
        }
    };
    for tensor in &header.tensors {
        assert!(tensor.range.end <= data.len(), "{tensor:?}");
        if let Ok(format) = tensor.format() {
            let values: u64 = tensor.shape.iter().product();
            let bytes = format.bytes_of(usize::try_from(values).expect("it fits the file"));
            assert_eq!(bytes, Some(tensor.range.len()), "{tensor:?}");
        }
    }
}
