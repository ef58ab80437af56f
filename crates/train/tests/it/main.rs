//! Training through its public interface: data of every form, runs that stop and go on.

#![cfg(test)]

mod data;
mod resume;
mod rl;
mod support;
mod training;
