//! The papers, a row each.

use crate::Runner;
use crate::driver::Row;
use crate::ws_last::Threads;
use crate::{a_steal, all_five, bws, dws, robinhood, ws_last};

/// All papers, in the order of the help, with runs that `R` does, and threads for the paper that can use them.
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
