//! The list of papers, with a definition for each.

use crate::Runner;
use crate::driver::Definition;
use crate::ws_last::Threads;
use crate::{a_steal, all_five, bws, dws, robinhood, ws_last};

/// Returns all papers in the order of the help. `R` does the runs, and `T` provides threads for the paper that can
/// use them.
pub fn papers<R: Runner + 'static, T: Threads>() -> [Definition<R>; 6] {
    [
        Definition::of::<a_steal::ASteal>(),
        all_five::definition(),
        Definition::of::<bws::Bws>(),
        Definition::of::<dws::Dws>(),
        Definition::of::<robinhood::Robinhood>(),
        Definition::of::<ws_last::WsLast<T>>(),
    ]
}
