//! What is around a task or a call wherever it runs: with the feature `tokio`, the runtime that its spawner was in.

/// See the module.
pub(crate) struct Surroundings {
    #[cfg(feature = "tokio")]
    tokio: Option<::tokio::runtime::Handle>,
}

impl Surroundings {
    /// Those of the calling thread.
    pub(crate) fn here() -> Surroundings {
        Surroundings {
            #[cfg(feature = "tokio")]
            tokio: ::tokio::runtime::Handle::try_current().ok(),
        }
    }

    /// Runs `part` of the task within them.
    pub(crate) fn around<R>(&self, part: impl FnOnce() -> R) -> R {
        #[cfg(feature = "tokio")]
        let _entered = self.tokio.as_ref().map(::tokio::runtime::Handle::enter);
        part()
    }
}
