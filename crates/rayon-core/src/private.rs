//! What makes a trait one that no other crate can implement.

/// Only this crate can name it.
#[derive(Debug)]
pub struct PrivateMarker;
