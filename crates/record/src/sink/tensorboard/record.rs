//! TFRecord: how a file holds messages one after the other.

/// A message with its length and checksums around it.
pub(super) fn framed(message: &[u8]) -> Vec<u8> {
    let length = (message.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(message.len() + 16);
    record.extend(length);
    record.extend(masked(crc32c(&length)).to_le_bytes());
    record.extend(message);
    record.extend(masked(crc32c(message)).to_le_bytes());
    record
}

/// TFRecord masks checksums, since a checksum over bytes that hold checksums is weak.
const fn masked(checksum: u32) -> u32 {
    checksum.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C: Castagnoli's polynomial, bits reversed. Event files are a few kilobytes a step, so a bit
/// at a time is fast enough.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |rest: u32, _| if rest & 1 == 1 { rest >> 1 ^ 0x82f6_3b78 } else { rest >> 1 };
    !bytes.iter().fold(!0, |checksum, byte| (0..8).fold(checksum ^ u32::from(*byte), step))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// The test vectors of RFC 3720, section B.4, and the usual one of the digits.
    #[test]
    fn checksums_are_those_of_the_standard() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&(0..32).collect::<Vec<u8>>()), 0x46dd_794e);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn a_record_is_length_message_and_checksums() {
        let record = framed(b"abc");
        assert_eq!(record.len(), 8 + 4 + 3 + 4);
        assert_eq!(record[..8], [3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(record[12..15], *b"abc");
        assert_eq!(record[8..12], masked(crc32c(&record[..8])).to_le_bytes());
        assert_eq!(record[15..], masked(crc32c(b"abc")).to_le_bytes());
    }
}
