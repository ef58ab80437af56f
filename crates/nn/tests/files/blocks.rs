//! Number formats against the reference decoder of the `gguf` package, and their bounds.

use proptest::prelude::*;
use rocstar_nn::files::NumberFormat;
use serde_json::Value;

fn from_hexadecimal(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// `tests/reference/blocks.py` made the values.
#[test]
fn blocks_decode_to_the_bits_of_the_reference() {
    let reference: Value = serde_json::from_str(include_str!("../reference/blocks.json")).unwrap();
    for format in NumberFormat::ALL {
        let entry = &reference[format.name()];
        let bytes = from_hexadecimal(entry["bytes"].as_str().unwrap());
        let expected = from_hexadecimal(entry["values"].as_str().unwrap());
        let expected: Vec<u32> =
            expected.chunks(4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap())).collect();
        assert_eq!(format.bytes_of(expected.len()), Some(bytes.len()), "{}", format.name());
        // Also where the bytes don't lie on an even address.
        for offset in [0, 1] {
            let mut shifted = vec![0; offset];
            shifted.extend(&bytes);
            let mut values = vec![f32::NAN; expected.len()];
            format.decode(&shifted[offset..], &mut values);
            let bits: Vec<u32> = values.iter().map(|value| value.to_bits()).collect();
            assert_eq!(bits, expected, "{}", format.name());
        }
    }
}

/// Largest integer of a quantised format, times its group scale.
fn largest(format: NumberFormat) -> f32 {
    match format {
        NumberFormat::F32 | NumberFormat::F16 | NumberFormat::Bf16 => f32::INFINITY,
        NumberFormat::Q4_0 => 8.0,
        NumberFormat::Q4_1 => 15.0 + 1.0,
        NumberFormat::Q5_0 => 16.0,
        NumberFormat::Q5_1 => 31.0 + 1.0,
        NumberFormat::Q8_0 => 128.0,
        NumberFormat::Q4K => 15.0 * 63.0 + 63.0,
        NumberFormat::Q5K => 31.0 * 63.0 + 63.0,
        NumberFormat::Q6K => 32.0 * 128.0,
    }
}

/// Offsets of the half-precision numbers of a block.
fn scales(format: NumberFormat) -> &'static [usize] {
    match format {
        NumberFormat::F32 | NumberFormat::F16 | NumberFormat::Bf16 => &[],
        NumberFormat::Q4_0 | NumberFormat::Q5_0 | NumberFormat::Q8_0 => &[0],
        NumberFormat::Q4_1 | NumberFormat::Q5_1 | NumberFormat::Q4K | NumberFormat::Q5K => &[0, 2],
        NumberFormat::Q6K => &[208],
    }
}

proptest! {
    /// With scales of at most 1, no value is beyond what its integers can hold, and every value of
    /// a block is written.
    #[test]
    fn values_stay_within_their_format(
        bytes in prop::collection::vec(any::<u8>(), 210),
        scale in -1.0_f32..1.0,
    ) {
        for format in NumberFormat::ALL {
            let mut block = bytes[..format.block_bytes()].to_vec();
            for offset in scales(format) {
                let half = half::f16::from_f32(scale).to_le_bytes();
                block[*offset..offset + 2].copy_from_slice(&half);
            }
            let mut values = vec![12345.0; format.block_values()];
            format.decode(&block, &mut values);
            if !scales(format).is_empty() {
                prop_assert!(values.iter().all(|value| value.abs() <= largest(format)));
            }
        }
    }

    /// Too few bytes or values are no reason to panic, and what has no bytes is not touched.
    #[test]
    fn slices_of_other_lengths_decode_what_they_hold(
        bytes in prop::collection::vec(any::<u8>(), 0..500),
        length in 0_usize..600,
    ) {
        for format in NumberFormat::ALL {
            let mut values = vec![12345.0; length];
            format.decode(&bytes, &mut values);
            let blocks = (bytes.len() / format.block_bytes()).min(length / format.block_values());
            let untouched = &values[blocks * format.block_values()..];
            prop_assert!(untouched.iter().all(|value| *value == 12345.0));
        }
    }
}
