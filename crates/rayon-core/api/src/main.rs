//! `rayon-core-api STOCK.json OURS.json`: checks that the second crate has every public item of the first crate,
//! including trait implementations and auto traits. Both files are rustdoc JSON. Exit code 2: `public-api` cannot read
//! a file, for example because another compiler version wrote it.

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

/// Returns every public item as one line, with its full type.
fn items(rustdoc_json: &str) -> Result<BTreeSet<String>, Box<dyn Error>> {
    let api = public_api::Builder::from_rustdoc_json(rustdoc_json)
        .build()
        .map_err(|error| format!("cannot read {rustdoc_json}: {error}"))?;
    // Ignore `repr(transparent)`: the memory layout of a struct is private if its fields are private.
    Ok(api.items().map(|item| item.to_string().replace("#[repr(transparent)] ", "")).collect())
}
