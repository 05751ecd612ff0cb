//! `comity-lab reproduce`: a paper's experiments, beside what the paper claims.

mod a_steal;
mod all_five;
mod bws;
mod dws;
mod findings;
mod options;
mod robinhood;
mod settings;
mod ws_last;

use clap::{Args, Subcommand};
use comity_console::Failure;

/// Repeat a paper's experiments on a simulated machine, and judge each claim of the paper
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    paper: Paper,
}

#[derive(Subcommand)]
enum Paper {
    ASteal(a_steal::Arguments),
    AllFive(all_five::Arguments),
    Bws(bws::Arguments),
    Dws(dws::Arguments),
    Robinhood(robinhood::Arguments),
    WsLast(ws_last::Arguments),
}

/// Runs the verb.
pub fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.paper {
        Paper::ASteal(arguments) => a_steal::run(arguments),
        Paper::AllFive(arguments) => all_five::run(arguments),
        Paper::Bws(arguments) => bws::run(arguments),
        Paper::Dws(arguments) => dws::run(arguments),
        Paper::Robinhood(arguments) => robinhood::run(arguments),
        Paper::WsLast(arguments) => ws_last::run(arguments),
    }
}
