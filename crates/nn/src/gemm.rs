//! Matrix products: the one place that knows which library multiplies and how threads share it.
//!
//! Invariant: a product is the same to the bit for the same operands and the same number of
//! threads. Views are checked against their slices when they are made, so that the call into the
//! library is sound.
#![expect(unsafe_code, reason = "the library of products takes pointers; views check their bounds")]

/// How many threads may share one product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// The calling thread alone: for products inside a parallel loop.
    One,
    /// All of the rayon pool in which the call is made.
    Pool,
}

/// What happens to the values that are already in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// They are replaced.
    Replace,
    /// The product is added to them.
    Add,
}

/// A matrix somebody else owns: element `(row, column)` lies at
/// `row * row_stride + column * column_stride`.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    values: &'a [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
    column_stride: usize,
}

impl<'a> Matrix<'a> {
    /// `[rows, columns]`, row after row.
    ///
    /// # Panics
    /// Where `values` is too short.
    pub fn new(values: &'a [f32], rows: usize, columns: usize) -> Self {
        Self::strided(values, rows, columns, columns)
    }

    /// `[rows, columns]`, each row `row_stride` after the last.
    ///
    /// # Panics
    /// Where `values` is too short or rows overlap.
    pub fn strided(values: &'a [f32], rows: usize, columns: usize, row_stride: usize) -> Self {
        check(values.len(), rows, columns, row_stride);
        Self { values, rows, columns, row_stride, column_stride: 1 }
    }

    /// `[columns, rows]`: nothing moves.
    #[must_use]
    pub const fn transposed(self) -> Self {
        Self {
            values: self.values,
            rows: self.columns,
            columns: self.rows,
            row_stride: self.column_stride,
            column_stride: self.row_stride,
        }
    }
}

/// A matrix that a product is written to, rows contiguous.
#[derive(Debug)]
pub struct MatrixMut<'a> {
    values: &'a mut [f32],
    rows: usize,
    columns: usize,
    row_stride: usize,
}

impl<'a> MatrixMut<'a> {
    /// `[rows, columns]`, row after row.
    ///
    /// # Panics
    /// Where `values` is too short.
    pub fn new(values: &'a mut [f32], rows: usize, columns: usize) -> Self {
        Self::strided(values, rows, columns, columns)
    }

    /// `[rows, columns]`, each row `row_stride` after the last.
    ///
    /// # Panics
    /// Where `values` is too short or rows overlap.
    pub fn strided(values: &'a mut [f32], rows: usize, columns: usize, row_stride: usize) -> Self {
        check(values.len(), rows, columns, row_stride);
        Self { values, rows, columns, row_stride }
    }
}

fn check(length: usize, rows: usize, columns: usize, row_stride: usize) {
    let needed = if rows == 0 { 0 } else { (rows - 1) * row_stride + columns };
    assert!(needed <= length, "a {rows} x {columns} view needs {needed} values, has {length}");
    assert!(columns <= row_stride || rows <= 1, "rows of {columns} overlap at {row_stride}");
}

/// `output (+)= scale · left · right`.
///
/// # Panics
/// Where the shapes don't fit.
pub fn multiply(
    output: MatrixMut<'_>,
    mode: Output,
    left: Matrix<'_>,
    right: Matrix<'_>,
    scale: f32,
    threads: Threads,
) {
    let MatrixMut { values, rows, columns, row_stride } = output;
    assert_eq!(rows, left.rows, "rows of the output and of the left matrix");
    assert_eq!(columns, right.columns, "columns of the output and of the right matrix");
    assert_eq!(left.columns, right.rows, "the inner size");
    let parallelism = match threads {
        Threads::Pool if rayon::current_num_threads() > 1 => gemm::Parallelism::Rayon(0),
        Threads::Pool | Threads::One => gemm::Parallelism::None,
    };
    // SAFETY: each view was checked to lie within its slice for its rows, columns and strides, the
    // output is borrowed mutably and so overlaps neither operand, and the shapes fit.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            left.columns,
            values.as_mut_ptr(),
            1,
            row_stride as isize,
            mode == Output::Add,
            left.values.as_ptr(),
            left.column_stride as isize,
            left.row_stride as isize,
            right.values.as_ptr(),
            right.column_stride as isize,
            right.row_stride as isize,
            1.0,
            scale,
            false,
            false,
            false,
            parallelism,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reference(
        left: &[f32],
        right: &[f32],
        rows: usize,
        inner: usize,
        columns: usize,
    ) -> Vec<f32> {
        let mut output = vec![0.0; rows * columns];
        for row in 0..rows {
            for column in 0..columns {
                let sum: f64 = (0..inner)
                    .map(|at| {
                        f64::from(left[row * inner + at]) * f64::from(right[at * columns + column])
                    })
                    .sum();
                output[row * columns + column] = sum as f32;
            }
        }
        output
    }

    fn transpose(values: &[f32], rows: usize, columns: usize) -> Vec<f32> {
        (0..rows * columns).map(|at| values[at % rows * columns + at / rows]).collect()
    }

    proptest! {
        #[test]
        fn equals_the_sum_of_products(
            (rows, inner, columns) in (1..40_usize, 1..40_usize, 1..40_usize),
            (transpose_left, transpose_right, add) in any::<(bool, bool, bool)>(),
            padding in 0..3_usize,
        ) {
            let left: Vec<f32> = (0..rows * inner).map(|at| (at as f32 * 0.7).sin()).collect();
            let right: Vec<f32> = (0..inner * columns).map(|at| (at as f32 * 0.3).cos()).collect();
            let expected = reference(&left, &right, rows, inner, columns);
            let stored = transpose(&left, rows, inner);
            let left = if transpose_left {
                Matrix::new(&stored, inner, rows).transposed()
            } else {
                Matrix::new(&left, rows, inner)
            };
            let stored = transpose(&right, inner, columns);
            let right = if transpose_right {
                Matrix::new(&stored, columns, inner).transposed()
            } else {
                Matrix::new(&right, inner, columns)
            };
            let stride = columns + padding;
            let mut output = vec![1.0; rows * stride];
            let mode = if add { Output::Add } else { Output::Replace };
            let view = MatrixMut::strided(&mut output, rows, columns, stride);
            multiply(view, mode, left, right, 0.5, Threads::Pool);
            let before = if add { 1.0 } else { 0.0 };
            for row in 0..rows {
                for column in 0..stride {
                    let value = output[row * stride + column];
                    if column < columns {
                        let expected = 0.5 * expected[row * columns + column] + before;
                        prop_assert!((value - expected).abs() < 1e-4, "{value} {expected}");
                    } else {
                        prop_assert_eq!(value, 1.0);
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "view needs")]
    fn a_view_past_its_slice_is_refused() {
        let _ = Matrix::strided(&[0.0; 10], 3, 4, 4);
    }
}
