//! An empty build script, which Cargo requires because the package sets `links`. No native library is linked: `links`
//! only makes sure that a program has at most one rayon-core.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
}
