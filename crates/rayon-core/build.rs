//! Cargo wants a build script of a package that claims a library with `links`. There is no library: the claim is that
//! only one rayon-core is in a program.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
}
