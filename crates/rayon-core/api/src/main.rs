//! `rayon-core-api STOCK.json OURS.json`: whether the second crate offers all that the first does, trait
//! implementations and automatic ones included. The files are rustdoc's. Exit code 2: of a compiler with a format that
//! `public-api` does not know.

use std::collections::BTreeSet;
use std::error::Error;
use std::process::ExitCode;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [stock, ours] = arguments.as_slice() else {
        return Err("usage: rayon-core-api STOCK.json OURS.json".into());
    };
    let (stock, ours) = match (items(stock), items(ours)) {
        (Ok(stock), Ok(ours)) => (stock, ours),
        (Err(error), _) | (_, Err(error)) => {
            eprintln!("{error}");
            return Ok(ExitCode::from(2));
        }
    };
    for addition in ours.difference(&stock) {
        println!("added:   {addition}");
    }
    for missing in stock.difference(&ours) {
        println!("missing: {missing}");
    }
    println!("{} items in the stock crate, {} of them here", stock.len(), stock.intersection(&ours).count());
    Ok(if stock.is_subset(&ours) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Every public item in one line, with its whole type.
fn items(rustdoc_json: &str) -> Result<BTreeSet<String>, Box<dyn Error>> {
    let api = public_api::Builder::from_rustdoc_json(rustdoc_json)
        .build()
        .map_err(|error| format!("cannot read {rustdoc_json}: {error}"))?;
    // How a struct lies in memory is private while its fields are.
    Ok(api.items().map(|item| item.to_string().replace("#[repr(transparent)] ", "")).collect())
}
