//! Parts of a training step: products, attention and norms by way of small models, the optimiser,
//! and a whole step of the *tiny* shape.
//!
//! `cargo bench -p rocstar-nn --bench training`

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rocstar_nn::config::ModelConfig;
use rocstar_nn::gemm::{Matrix, MatrixMut, Output, Threads, multiply};
use rocstar_nn::optimizer::{AdamW, AdamWOptions, global_norm};
use rocstar_nn::parameters::Parameters;
use rocstar_nn::step::{
    CrossEntropy, Gradient, Model, NO_TARGET, Packed, Policy, StepOptions, Workspace,
    forward_backward, log_probs,
};

fn products(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("product");
    for (rows, inner, columns) in [(64, 576, 1536), (512, 576, 3072), (2048, 576, 3072)] {
        group.throughput(Throughput::Elements((2 * rows * inner * columns) as u64));
        let (left, right) = (vec![0.5; rows * inner], vec![0.5; inner * columns]);
        let mut output = vec![0.0; rows * columns];
        group.bench_function(format!("{rows}x{inner}x{columns}"), |bencher| {
            bencher.iter(|| {
                multiply(
                    MatrixMut::new(&mut output, rows, columns),
                    Output::Replace,
                    Matrix::new(&left, rows, inner),
                    Matrix::new(&right, columns, inner).transposed(),
                    1.0,
                    Threads::Pool,
                );
            });
        });
    }
}

fn optimizer(criterion: &mut Criterion) {
    let config = ModelConfig::tiny();
    let mut values = Parameters::random(&config, 0);
    let mut gradient = values.clone();
    let mut optimizer = AdamW::for_parameters(values.layout(), AdamWOptions::default());
    let mut group = criterion.benchmark_group("optimizer");
    group.throughput(Throughput::Elements(values.values().len() as u64));
    group.bench_function("adamw", |bencher| {
        bencher.iter(|| optimizer.step(values.values_mut(), gradient.values_mut(), 1e-4, 1.0));
    });
    group.bench_function("global_norm", |bencher| {
        bencher.iter(|| black_box(global_norm(values.values())));
    });
}

fn steps(criterion: &mut Criterion) {
    let config = ModelConfig::tiny();
    let (batch, length) = (8, 512);
    let parameters = Parameters::random(&config, 0);
    let mut gradient = Parameters::zeros(parameters.layout().clone());
    let model = Model { config, parameters };
    let tokens: Vec<u32> = (0..batch * length).map(|at| (at * 7919 % 512) as u32).collect();
    let starts: Vec<usize> = (0..=batch).map(|sequence| sequence * length).collect();
    let last = |at: usize| (at + 1).is_multiple_of(length);
    let targets: Vec<u32> =
        (0..tokens.len()).map(|at| if last(at) { NO_TARGET } else { tokens[at + 1] }).collect();
    let packed = Packed { tokens: &tokens, starts: &starts, targets: &targets };
    let mut workspace = Workspace::new();
    let mut group = criterion.benchmark_group("tiny_8x512");
    group.sample_size(10).throughput(Throughput::Elements(tokens.len() as u64));
    group.bench_function("log_probs", |bencher| {
        bencher.iter(|| log_probs(Policy::new(&model), packed, 1.0, &mut workspace).is_ok());
    });
    group.bench_function("forward_backward", |bencher| {
        bencher.iter(|| {
            let mut objective = CrossEntropy::new(targets.len() as f64);
            let policy = Policy::new(&model);
            let gradient = Gradient::Full(&mut gradient);
            let options = StepOptions::default();
            forward_backward(policy, packed, options, &mut objective, gradient, &mut workspace)
                .is_ok()
        });
    });
}

criterion_group!(benches, products, optimizer, steps);
criterion_main!(benches);
