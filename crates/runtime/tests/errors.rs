//! The traits of the public error types.
#![cfg(not(loom))]

use std::error::Error;

/// Compiles for an error that can be boxed, sent to other threads and used with `?`.
fn is_an_error<E: Error + Send + Sync + 'static>() {}

#[test]
fn errors_can_be_sent_boxed_and_shown() {
    is_an_error::<comity::BuildError>();
    is_an_error::<comity::ActiveThreadsError>();
    is_an_error::<comity::PolicyError>();
    let error = comity::ThreadPoolBuilder::new().num_threads(comity::MAX_THREADS + 1).build().unwrap_err();
    let boxed: Box<dyn Error + Send + Sync> = error.into();
    assert!(boxed.to_string().contains("65536 workers"), "{boxed}");
}
