//! A pool's workers: what they share, how each gets tasks, runs them and waits for them, and how it rests.

pub(crate) mod acceleration;
pub(crate) mod current;
pub(crate) mod inject;
pub(crate) mod mask;
pub(crate) mod place;
pub(crate) mod registry;
pub(crate) mod sleep;
pub(crate) mod thief;
pub(crate) mod view;
pub(crate) mod worker;
