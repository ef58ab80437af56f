//! How stored bytes become `f32`: plain floats, and ggml's blocks of quantised values.
//!
//! A block holds a fixed number of neighbouring values of one row as small integers with a shared
//! scale (and in some formats a shared minimum) in half precision. Every function here does ggml's
//! arithmetic in ggml's order, one rounding at a time, so the results are equal to the last bit.
//! Layouts: ggml `ggml-common.h` and `ggml-quants.c`.

use half::f16;

/// A number format that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NumberFormat {
    /// IEEE single.
    F32,
    /// IEEE half.
    F16,
    /// The upper half of a single.
    Bf16,
    /// 32 values of 4 bits, a scale.
    Q4_0,
    /// 32 values of 4 bits, a scale and a minimum.
    Q4_1,
    /// 32 values of 5 bits, a scale.
    Q5_0,
    /// 32 values of 5 bits, a scale and a minimum.
    Q5_1,
    /// 32 values of 8 bits, a scale.
    Q8_0,
    /// 256 values of 4 bits in 8 groups with scales and minima of 6 bits.
    Q4K,
    /// 256 values of 5 bits in 8 groups with scales and minima of 6 bits.
    Q5K,
    /// 256 values of 6 bits in 16 groups with scales of 8 bits.
    Q6K,
}

impl NumberFormat {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
    ];

    /// The name that ggml and safetensors give it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::Bf16 => "BF16",
            Self::Q4_0 => "Q4_0",
            Self::Q4_1 => "Q4_1",
            Self::Q5_0 => "Q5_0",
            Self::Q5_1 => "Q5_1",
            Self::Q8_0 => "Q8_0",
            Self::Q4K => "Q4_K",
            Self::Q5K => "Q5_K",
            Self::Q6K => "Q6_K",
        }
    }

    /// Values in a block; a row is a whole number of blocks.
    pub const fn block_values(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 1,
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q8_0 => 32,
            Self::Q4K | Self::Q5K | Self::Q6K => 256,
        }
    }

    /// Bytes of a block.
    pub const fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::Q4_0 => 18,
            Self::Q4_1 => 20,
            Self::Q5_0 => 22,
            Self::Q5_1 => 24,
            Self::Q8_0 => 34,
            Self::Q4K => 144,
            Self::Q5K => 176,
            Self::Q6K => 210,
        }
    }

    /// Bytes of `values` values; `None` where they are no whole number of blocks, or too many.
    pub const fn bytes_of(self, values: usize) -> Option<usize> {
        if !values.is_multiple_of(self.block_values()) {
            return None;
        }
        (values / self.block_values()).checked_mul(self.block_bytes())
    }

    /// Decodes whole blocks. Decodes as many blocks as both slices hold; what is left of either
    /// stays as it is.
    pub fn decode(self, bytes: &[u8], values: &mut [f32]) {
        match self {
            Self::F32 => {
                blocks(bytes, values, |bytes, [value]| *value = f32::from_le_bytes(*bytes))
            }
            Self::F16 => halves(bytes, values),
            Self::Bf16 => blocks(bytes, values, |bytes, [value]| {
                *value = f32::from_bits(u32::from(u16::from_le_bytes(*bytes)) << 16);
            }),
            Self::Q4_0 => blocks(bytes, values, q4_0),
            Self::Q4_1 => blocks(bytes, values, q4_1),
            Self::Q5_0 => blocks(bytes, values, q5_0),
            Self::Q5_1 => blocks(bytes, values, q5_1),
            Self::Q8_0 => blocks(bytes, values, q8_0),
            Self::Q4K => blocks(bytes, values, q4_k),
            Self::Q5K => blocks(bytes, values, q5_k),
            Self::Q6K => blocks(bytes, values, q6_k),
        }
    }
}

fn blocks<const BYTES: usize, const VALUES: usize>(
    bytes: &[u8],
    values: &mut [f32],
    decode: impl Fn(&[u8; BYTES], &mut [f32; VALUES]),
) {
    let (bytes, _) = bytes.as_chunks::<BYTES>();
    let (values, _) = values.as_chunks_mut::<VALUES>();
    for (block, values) in bytes.iter().zip(values) {
        decode(block, values);
    }
}

/// Half precision, by the processor's own conversion where the bytes lie so that it can be used.
fn halves(bytes: &[u8], values: &mut [f32]) {
    use half::slice::HalfFloatSliceExt as _;

    let length = values.len().min(bytes.len() / 2);
    match bytemuck::try_cast_slice::<u8, f16>(&bytes[..2 * length]) {
        Ok(halves) if cfg!(target_endian = "little") => {
            halves.convert_to_f32_slice(&mut values[..length]);
        }
        _ => blocks(bytes, values, |bytes, [value]| *value = f16::from_le_bytes(*bytes).to_f32()),
    }
}

/// The half-precision number at `offset` of a block.
fn half_at(block: &[u8], offset: usize) -> f32 {
    f16::from_le_bytes([block[offset], block[offset + 1]]).to_f32()
}

fn q4_0(block: &[u8; 18], values: &mut [f32; 32]) {
    let scale = half_at(block, 0);
    let (low, high) = values.split_at_mut(16);
    for ((quants, low), high) in block[2..].iter().zip(low).zip(high) {
        *low = scale * (f32::from(quants & 15) - 8.0);
        *high = scale * (f32::from(quants >> 4) - 8.0);
    }
}

fn q4_1(block: &[u8; 20], values: &mut [f32; 32]) {
    let (scale, minimum) = (half_at(block, 0), half_at(block, 2));
    let (low, high) = values.split_at_mut(16);
    for ((quants, low), high) in block[4..].iter().zip(low).zip(high) {
        *low = scale * f32::from(quants & 15) + minimum;
        *high = scale * f32::from(quants >> 4) + minimum;
    }
}

/// The 5-bit integers of a block whose high bits stand at `offset` and whose nibbles follow, as
/// pairs: the value in the first half of the block, and its partner in the second half.
fn five_bits(block: &[u8], offset: usize) -> impl Iterator<Item = (u8, u8)> + '_ {
    let high_bits = block[offset..offset + 4].iter().rev();
    let high_bits = high_bits.fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
    block[offset + 4..].iter().enumerate().map(move |(index, quants)| {
        let bit = |position: usize| u8::from(high_bits >> position & 1 == 1) << 4;
        (quants & 15 | bit(index), quants >> 4 | bit(index + 16))
    })
}

fn q5_0(block: &[u8; 22], values: &mut [f32; 32]) {
    let scale = half_at(block, 0);
    let (low, high) = values.split_at_mut(16);
    for (((first, second), low), high) in five_bits(block, 2).zip(low).zip(high) {
        *low = scale * (f32::from(first) - 16.0);
        *high = scale * (f32::from(second) - 16.0);
    }
}

fn q5_1(block: &[u8; 24], values: &mut [f32; 32]) {
    let (scale, minimum) = (half_at(block, 0), half_at(block, 2));
    let (low, high) = values.split_at_mut(16);
    for (((first, second), low), high) in five_bits(block, 4).zip(low).zip(high) {
        *low = scale * f32::from(first) + minimum;
        *high = scale * f32::from(second) + minimum;
    }
}

fn q8_0(block: &[u8; 34], values: &mut [f32; 32]) {
    let scale = half_at(block, 0);
    for (quant, value) in block[2..].iter().zip(values) {
        *value = scale * f32::from(quant.cast_signed());
    }
}

/// Scale and minimum of group `group` of 8: six bits each, packed into twelve bytes. The first four
/// groups have bytes of their own, and the upper two bits of those bytes belong to the last four.
fn six_bit_pair(packed: &[u8], group: usize) -> (f32, f32) {
    let (scale, minimum) = if group < 4 {
        (packed[group] & 63, packed[group + 4] & 63)
    } else {
        let low = packed[group + 4];
        (low & 15 | packed[group - 4] >> 6 << 4, low >> 4 | packed[group] >> 6 << 4)
    };
    (f32::from(scale), f32::from(minimum))
}

fn q4_k(block: &[u8; 144], values: &mut [f32; 256]) {
    let (scale, minimum) = (half_at(block, 0), half_at(block, 2));
    let (packed, quants) = block[4..].split_at(12);
    for (group, values) in values.chunks_exact_mut(32).enumerate() {
        let (group_scale, group_minimum) = six_bit_pair(packed, group);
        let (scale, minimum) = (scale * group_scale, minimum * group_minimum);
        let shift = 4 * (group % 2);
        let quants = &quants[group / 2 * 32..];
        for (quant, value) in quants.iter().zip(values) {
            *value = scale * f32::from(quant >> shift & 15) - minimum;
        }
    }
}

fn q5_k(block: &[u8; 176], values: &mut [f32; 256]) {
    let (scale, minimum) = (half_at(block, 0), half_at(block, 2));
    let (packed, rest) = block[4..].split_at(12);
    let (high_bits, quants) = rest.split_at(32);
    for (group, values) in values.chunks_exact_mut(32).enumerate() {
        let (group_scale, group_minimum) = six_bit_pair(packed, group);
        let (scale, minimum) = (scale * group_scale, minimum * group_minimum);
        let shift = 4 * (group % 2);
        let quants = &quants[group / 2 * 32..];
        for ((quant, high), value) in quants.iter().zip(high_bits).zip(values) {
            let quant = quant >> shift & 15 | (high >> group & 1) << 4;
            *value = scale * f32::from(quant) - minimum;
        }
    }
}

fn q6_k(block: &[u8; 210], values: &mut [f32; 256]) {
    let scale = half_at(block, 208);
    let (low, rest) = block.split_at(128);
    let (high, scales) = rest.split_at(64);
    for (run, values) in values.chunks_exact_mut(32).enumerate() {
        // Two halves of 128 values. In each, four runs of 32 share bytes: of the low nibbles the
        // first and third, second and fourth run; of the high bits all four.
        let (half, run) = (run / 4, run % 4);
        let low = &low[half * 64 + run % 2 * 32..];
        let high = &high[half * 32..];
        for (index, value) in values.iter_mut().enumerate() {
            let bits = low[index] >> (run / 2 * 4) & 15 | (high[index] >> (2 * run) & 3) << 4;
            let group_scale = scales[half * 8 + run * 2 + index / 16].cast_signed();
            *value = scale * f32::from(group_scale) * (f32::from(bits) - 32.0);
        }
    }
}
