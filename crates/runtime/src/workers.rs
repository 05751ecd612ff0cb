//! A pool's workers: the data that they share, and how a worker gets tasks, runs them, waits for them and sleeps.

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
