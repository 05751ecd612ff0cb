//! The context in which every thread runs a task or a call: with the feature `tokio`, the runtime of its spawner.

/// The context of a task or a call. Empty without the feature `tokio`.
pub(crate) struct Surroundings {
    #[cfg(feature = "tokio")]
    tokio: Option<::tokio::runtime::Handle>,
}

impl Surroundings {
    /// Returns the context of the calling thread.
    pub(crate) fn here() -> Surroundings {
        Surroundings {
            #[cfg(feature = "tokio")]
            tokio: ::tokio::runtime::Handle::try_current().ok(),
        }
    }

    /// Runs `part` of the task in this context.
    pub(crate) fn around<R>(&self, part: impl FnOnce() -> R) -> R {
        #[cfg(feature = "tokio")]
        let _entered = self.tokio.as_ref().map(::tokio::runtime::Handle::enter);
        part()
    }
}
