//! Cargo requires a build script in a package that sets `links`. There is no library: `links` only makes sure that a
//! program has at most one rayon-core.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
}
