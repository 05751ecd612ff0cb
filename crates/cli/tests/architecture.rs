//! The invariants of ARCHITECTURE.md that a compiler does not keep: who may depend on whom, what `policy` is free of,
//! and where unsafe code is.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// The crates' folders, from the pure core to the command: each may depend on those before it.
const ORDER: [&str; 12] =
    ["policy", "protocol", "record", "sim", "os", "table", "runtime", "flow", "kernels", "console", "cli", "lab"];

fn workspace() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every package of the workspace: its folder below `crates`, and the metadata of its dependencies.
fn packages() -> Vec<(String, Vec<Value>)> {
    packages_at(workspace())
}

fn packages_at(folder: PathBuf) -> Vec<(String, Vec<Value>)> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    packages
        .iter()
        .map(|package| {
            let manifest = PathBuf::from(package["manifest_path"].as_str().unwrap());
            let folder = manifest.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
            (folder, package["dependencies"].as_array().unwrap().clone())
        })
        .collect()
}

#[test]
fn nobody_imports_upwards() {
    let packages = packages();
    assert_eq!(packages.len(), ORDER.len(), "a new crate takes its place in ORDER and in ARCHITECTURE.md");
    for (folder, dependencies) in &packages {
        let place = |folder: &str| {
            let place = ORDER.iter().position(|known| *known == folder);
            place.unwrap_or_else(|| panic!("crates/{folder} has no place in ORDER"))
        };
        for dependency in dependencies {
            let Some(path) = dependency["path"].as_str() else { continue };
            let other = PathBuf::from(path).file_name().unwrap().to_str().unwrap().to_owned();
            assert!(place(&other) < place(folder), "crates/{folder} must not depend on crates/{other}");
        }
    }
}

/// It stands outside of the workspace, because that links the crate whose place it takes.
#[test]
fn the_drop_in_depends_on_the_runtime_alone() {
    let packages = packages_at(workspace().join("crates/rayon-core"));
    let [(folder, dependencies)] = packages.as_slice() else { panic!("{packages:?}") };
    let names: Vec<&str> = dependencies.iter().map(|dependency| dependency["name"].as_str().unwrap()).collect();
    assert_eq!((folder.as_str(), names.as_slice()), ("rayon-core", ["comity"].as_slice()));
}

/// They would only be in its way: it stands before programs that end in a millisecond, and is built by who only shares cores.
#[test]
fn the_command_that_shares_cores_links_no_runtime_to_compare_with() {
    let tree = Command::new(env!("CARGO"))
        .args(["tree", "--package", "comity-cli", "--edges", "normal", "--prefix", "none", "--format", "{p}"])
        .current_dir(workspace())
        .output()
        .unwrap();
    assert!(tree.status.success(), "{}", String::from_utf8_lossy(&tree.stderr));
    let tree = String::from_utf8(tree.stdout).unwrap();
    let names: Vec<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(names.contains(&"comity-table"), "{names:?}");
    for unwanted in ["tokio", "smol", "chili", "rayon", "plotters", "comity-lab"] {
        assert!(!names.contains(&unwanted), "comity-cli depends on {unwanted}");
    }
}

#[test]
fn what_decides_has_no_std_no_unsafe_and_few_dependencies() {
    for (pure, allowed) in [("policy", &[][..]), ("protocol", &["comity-policy", "crossbeam-utils"])] {
        let (_, dependencies) = packages().into_iter().find(|(folder, _)| folder == pure).unwrap();
        let dependencies: Vec<&Value> = dependencies.iter().filter(|dependency| dependency["kind"].is_null()).collect();
        let names: Vec<&str> = dependencies.iter().map(|dependency| dependency["name"].as_str().unwrap()).collect();
        assert_eq!(names, allowed);
        let has_std = |dependency: &&Value| dependency["path"].is_null() && dependency["uses_default_features"] == true;
        assert!(!dependencies.iter().any(has_std), "{dependencies:?}");
        let source = fs::read_to_string(workspace().join(format!("crates/{pure}/src/lib.rs"))).unwrap();
        for line in ["#![no_std]", "#![forbid(unsafe_code)]"] {
            assert!(source.lines().any(|found| found == line), "crates/{pure}/src/lib.rs lacks {line}");
        }
        for file in rust_files(workspace().join(format!("crates/{pure}/src"))) {
            let text = fs::read_to_string(&file).unwrap();
            assert!(!text.contains("extern crate std"), "{} brings std back", file.display());
        }
    }
}

#[test]
fn unsafe_code_stays_in_the_files_that_the_architecture_names() {
    let allowed = |path: &str| {
        path.starts_with("os/src/")
            // The mapping, and nothing else.
            || path == "table/src/map.rs"
            || path.starts_with("runtime/src/raw/")
            // A bare pool to compare with; the commands themselves have none.
            || path == "lab/src/bench/abp.rs"
            // A transparent wrapper around a reference.
            || path == "rayon-core/src/scope.rs"
            // They fork.
            || path == "runtime/tests/harness/forked.rs"
            || path == "table/tests/fork.rs"
            // It closes descriptors behind the table's back.
            || path == "table/tests/descriptors.rs"
            // A signal handler that ends the program.
            || path == "runtime/tests/trace.rs"
            // Data that nothing orders but the runtime's own hand-overs.
            || path == "runtime/tests/hammer.rs"
            // Where a job or a latch of `raw` is made or run: the promise is the caller's to give.
            || ["join", "scope", "spawn", "broadcast", "shared", "worker"]
                .iter()
                .any(|name| path == format!("runtime/src/{name}.rs"))
    };
    let crates = workspace().join("crates");
    let mut with_unsafe = 0;
    for file in rust_files(crates.clone()) {
        let path = file.strip_prefix(&crates).unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&file).unwrap();
        let is_unsafe = |line: &str| {
            let code = line.split("//").next().unwrap();
            ["unsafe {", "unsafe fn", "unsafe impl"].iter().any(|word| code.contains(word)) && !code.contains('"')
        };
        if text.lines().any(is_unsafe) {
            assert!(allowed(&path), "crates/{path} has unsafe code");
            with_unsafe += 1;
        }
    }
    assert!(with_unsafe > 5, "only {with_unsafe} files with unsafe code were found: the search is broken");
}

/// All Rust files below a folder.
fn rust_files(folder: PathBuf) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(rust_files(path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}
