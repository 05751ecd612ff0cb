//! What makes a trait one that nobody outside of this crate can implement.

/// Only this crate can name it.
#[derive(Debug)]
pub struct PrivateMarker;
