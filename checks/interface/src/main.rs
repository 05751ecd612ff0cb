//! Prints the public interface of a crate, a line for each item, from the JSON that rustdoc has written of it. Left out
//! is what every type has: blanket and automatic implementations, and those that are derived.

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
    let interface = public_api::Builder::from_rustdoc_json(&path)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .omit_auto_derived_impls(true)
        .build();
    match interface {
        Ok(interface) => {
            for item in interface.items() {
                println!("{item}");
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("interface: '{path}': {error}");
            ExitCode::FAILURE
        }
    }
}
