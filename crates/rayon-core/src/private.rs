//! A marker that keeps other crates from implementing a trait.

/// A type that only this crate can name.
#[derive(Debug)]
pub struct PrivateMarker;
