//! The machine's rate of matrix products: what the rates of models are compared with.

use std::time::Instant;

use rocstar_nn::gemm::{Matrix, MatrixMut, Output, Threads, multiply};

/// Large enough to run at full rate, small enough to take a tenth of a second.
const SIZE: usize = 2048;

/// Products measured; the fastest counts, for a peak is what the machine can do.
const RUNS: usize = 7;

/// 10⁹ floating-point operations a second of a large product of f32 matrices on `threads` threads.
///
/// # Errors
/// The threads can't be started.
pub(crate) fn gemm_peak_gflops(threads: usize) -> anyhow::Result<f64> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    Ok(pool.install(fastest))
}

fn fastest() -> f64 {
    let left: Vec<f32> = (0..SIZE * SIZE).map(|index| (index % 13) as f32 * 0.1).collect();
    let right = left.clone();
    let mut output = vec![0.0; SIZE * SIZE];
    let mut shortest = f64::INFINITY;
    for _ in 0..RUNS {
        let began = Instant::now();
        multiply(
            MatrixMut::new(&mut output, SIZE, SIZE),
            Output::Replace,
            Matrix::new(&left, SIZE, SIZE),
            Matrix::new(&right, SIZE, SIZE).transposed(),
            1.0,
            Threads::Pool,
        );
        shortest = shortest.min(began.elapsed().as_secs_f64());
    }
    std::hint::black_box(&output);
    2.0 * (SIZE as f64).powi(3) / shortest / 1e9
}
