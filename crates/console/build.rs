//! Build script that passes two versions to the code, for the records of results: that of the compiler, and that of
//! rayon from `Cargo.lock`.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

fn main() {
    let lock = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../../Cargo.lock");
    println!("cargo::rerun-if-changed={}", lock.display());
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=COMITY_RUSTC={}", rustc().unwrap_or_else(|| "unknown".to_owned()));
    println!("cargo::rustc-env=COMITY_RAYON={}", rayon(&lock).unwrap_or_else(|| "unknown".to_owned()));
}

fn rustc() -> Option<String> {
    let output = Command::new(env::var_os("RUSTC")?).arg("--version").output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

fn rayon(lock: &Path) -> Option<String> {
    let text = fs::read_to_string(lock).ok()?;
    let (_, after) = text.split_once("name = \"rayon\"\nversion = \"")?;
    Some(after.split_once('"')?.0.to_owned())
}
