//! Prints the public interface of a crate, a line for each item, from the JSON that rustdoc has written of it. Of what
//! is derived or automatic, like `Clone` and `Send`, there is a line for each implementation, without its functions.

use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("interface: name the file that rustdoc has written");
        return ExitCode::FAILURE;
    };
    let read = std::fs::read_to_string(&path).map_err(|error| error.to_string());
    let format = read.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
    let format = format.map(|json: serde_json::Value| json["format_version"].as_u64().unwrap_or(0));
    let reads: u64 = 57;
    if format.as_ref() != Ok(&reads) {
        eprintln!(
            "interface: '{path}' is {format:?} of rustdoc's formats, and this reads {reads}: take another version of \
             public-api in checks/interface/Cargo.toml, its lock file and src/main.rs, and write the interfaces anew"
        );
        return ExitCode::FAILURE;
    }
    match (lines(&path, true), lines(&path, false)) {
        (Ok(written), Ok(all)) => {
            let is_told = |line: &String| {
                written.contains(line) || line.starts_with("impl") && !NOT_TOLD.iter().any(|name| line.contains(name))
            };
            for line in all.into_iter().filter(is_told) {
                println!("{line}");
            }
            ExitCode::SUCCESS
        }
        (Err(error), _) | (_, Err(error)) => {
            eprintln!("interface: '{path}': {error}");
            ExitCode::FAILURE
        }
    }
}

/// Automatic traits that follow from others, or that only the compiler asks for.
const NOT_TOLD: [&str; 5] =
    ["Freeze for", "RefUnwindSafe for", "UnwindSafe for", "UnsafeUnpin for", "StructuralPartialEq"];

/// A line for each item; with `written`, without those that are derived or automatic.
fn lines(path: &str, written: bool) -> Result<Vec<String>, public_api::Error> {
    let interface = public_api::Builder::from_rustdoc_json(path)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(written)
        .omit_auto_derived_impls(written)
        .build()?;
    Ok(interface.items().map(ToString::to_string).collect())
}
