//! The dashboard over HTTP: a synthetic run, damaged ones, hostile ones.

#![cfg(test)]

mod hostile;
mod pages;
mod support;
mod synthetic;
