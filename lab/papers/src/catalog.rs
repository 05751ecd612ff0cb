//! The list of papers, with a row for each.

use crate::Runner;
use crate::driver::Row;
use crate::ws_last::Threads;
use crate::{a_steal, all_five, bws, dws, robinhood, ws_last};

/// Returns all papers in the order of the help. `R` does the runs, and `T` provides threads for the paper that can
/// use them.
pub fn papers<R: Runner + 'static, T: Threads>() -> [Row<R>; 6] {
    [
        Row::of::<a_steal::ASteal>(),
        all_five::row(),
        Row::of::<bws::Bws>(),
        Row::of::<dws::Dws>(),
        Row::of::<robinhood::Robinhood>(),
        Row::of::<ws_last::WsLast<T>>(),
    ]
}
