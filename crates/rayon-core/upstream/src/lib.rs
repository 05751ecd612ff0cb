//! The modules that the stock crate's unit tests import, rebuilt from the crate's public interface.

pub use rayon_core::*;

mod compile_fail;

#[cfg(test)]
mod unwind {
    pub fn halt_unwinding<R>(body: impl FnOnce() -> R) -> std::thread::Result<R> {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(body))
    }
}

#[cfg(test)]
mod registry {
    pub fn in_worker<R: Send>(body: impl FnOnce((), bool) -> R + Send) -> R {
        rayon_core::scope(|_| body((), false))
    }
}

#[cfg(test)]
mod test;

#[cfg(test)]
mod join {
    use crate::{join, join_context, unwind};
    mod test;
}

#[cfg(test)]
mod scope {
    mod test;
}

#[cfg(test)]
mod spawn {
    use crate::{spawn, spawn_fifo};
    mod test;
}

#[cfg(test)]
mod broadcast {
    mod test;
}

#[cfg(test)]
mod thread_pool {
    mod test;
}
