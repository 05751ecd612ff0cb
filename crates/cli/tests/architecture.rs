//! Tests of the invariants of ARCHITECTURE.md that a compiler does not check: the permitted dependencies between
//! crates, the restrictions on `policy`, and the places of unsafe code. Also tests the references in documents, and the
//! texts that `comity` prints.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

#[path = "architecture/documents.rs"]
mod documents;
#[path = "architecture/glossary.rs"]
mod glossary;
#[path = "architecture/imports.rs"]
mod imports;
#[path = "architecture/prose.rs"]
mod prose;
#[path = "architecture/texts.rs"]
mod texts;
#[path = "architecture/tracked.rs"]
mod tracked;

use imports::{Imports, cycle, upward};

/// The crates' folders: first the crates that users install, from the pure core to the command, then the laboratory.
/// A crate may depend only on the crates before it.
const ORDER: [&str; 17] = [
    "crates/values",
    "crates/policy",
    "crates/protocol",
    "crates/os",
    "crates/table",
    "crates/runtime",
    "crates/flow",
    "crates/console",
    "crates/cli",
    "crates/demo",
    "lab/graph",
    "lab/sim",
    "lab/papers",
    "lab/recording",
    "lab/kernels",
    "lab/lab",
    "crates/guide",
];

/// The layers of `runtime`, from the lowest. A layer imports only the layers before it. Within a layer any file may
/// import another, but without a cycle.
const LAYERS: [&str; 10] =
    ["fork", "raw", "cores", "watching", "workers", "sharing", "api", "blocking", "executor", "internal"];

/// The modules of `protocol`, each a file with a folder of the same name. A module may import only modules before it.
const PROTOCOL: [&str; 17] = [
    "platform",
    "core_word",
    "standing",
    "partition",
    "table",
    "orders",
    "sleep",
    "activation",
    "dialogue",
    "steal_time",
    "program",
    "observer",
    "demand",
    "shortfall",
    "quantum",
    "look",
    "command",
];

fn workspace() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the folder of each package of the workspace, and the metadata of its dependencies.
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
            (folder_of(manifest.parent().unwrap()), package["dependencies"].as_array().unwrap().clone())
        })
        .collect()
}

/// Returns the path of a crate's folder, relative to the workspace's root.
fn folder_of(path: &Path) -> String {
    path.strip_prefix(workspace()).unwrap().to_str().unwrap().to_owned()
}

#[test]
fn no_crate_imports_upwards() {
    let packages = packages();
    assert_eq!(packages.len(), ORDER.len(), "a new crate takes its place in ORDER and in ARCHITECTURE.md");
    for (folder, dependencies) in &packages {
        let place = |folder: &str| {
            let place = ORDER.iter().position(|known| *known == folder);
            place.unwrap_or_else(|| panic!("{folder} has no place in ORDER"))
        };
        for dependency in dependencies {
            let Some(path) = dependency["path"].as_str() else { continue };
            let other = folder_of(Path::new(path));
            assert!(place(&other) < place(folder), "{folder} must not depend on {other}");
        }
    }
}

fn imports_of(package: &str) -> Imports {
    let sources = workspace().join("crates").join(package).join("src");
    Imports::read(&|file| fs::read_to_string(sources.join(file)).ok())
}

#[test]
fn no_layer_of_the_runtime_imports_upwards_and_no_file_what_imports_it() {
    let files = imports_of("runtime").at_depth(2);
    assert!(files.len() > 30 && files["api::join"].contains("raw::deque"), "{files:?}: the search is broken");
    assert_eq!(upward(&files, &LAYERS), [""; 0]);
    assert_eq!(cycle(&files), None);
}

#[test]
fn no_module_of_the_protocol_imports_upwards() {
    let modules = imports_of("protocol").at_depth(1);
    assert_eq!(modules.len(), PROTOCOL.len(), "{modules:?}");
    assert_eq!(upward(&modules, &PROTOCOL), [""; 0]);
    // If every import goes downwards, there are no cycles. This line checks that `cycle` finds none.
    assert_eq!(cycle(&modules), None);
}

/// Tests that the modules of the ways of waking do not import each other.
#[test]
fn no_way_of_waking_imports_another() {
    let files = imports_of("protocol").at_depth(2);
    let ways = ["sleep::every_push", "sleep::hungry", "sleep::always_awake", "sleep::watchdog"];
    for way in ways {
        let others = files[way].iter().filter(|imported| ways.contains(&imported.as_str()));
        assert_eq!(others.count(), 0, "{way}: {:?}", files[way]);
    }
}

/// Returns the imports of an invented crate with two layers, of which `low` must not import `high`.
fn made_up(low: &str, high: &str, other: &str) -> Imports {
    let files = [
        ("lib.rs", "mod low; mod high; pub use high::thing::Thing;"),
        ("low.rs", "pub mod base;"),
        ("low/base.rs", low),
        ("high.rs", "pub mod thing; pub mod other;"),
        ("high/thing.rs", high),
        ("high/other.rs", other),
    ];
    let files: Vec<(&str, String)> = files.into_iter().map(|(file, text)| (file, text.to_owned())).collect();
    Imports::read(&|wanted| files.iter().find(|(file, _)| *file == wanted).map(|(_, text)| text.clone()))
}

#[test]
fn an_import_upwards_is_found_in_whatever_form() {
    let above = ["low::base → high::thing"];
    for text in [
        "use crate::high::thing::Thing;",
        "use crate::{high::{thing::{self, Thing as Other}}};",
        "use crate::high::thing::*;",
        "use super::super::high::thing::Thing;",
        "fn f() { crate::high::thing::make(); }",
        "fn f(_: &crate::high::thing::Thing) {}",
        "use crate::high as up; fn f() { up::thing::make(); }",
        "fn f() { println!(\"{}\", [crate::high::thing::make()]); }",
        // A name that `lib.rs` imports from `high`.
        "fn f(_: crate::Thing) {}",
    ] {
        let graph = made_up(text, "", "").at_depth(2);
        let found: Vec<String> =
            upward(&graph, &["low", "high"]).into_iter().filter(|found| found.contains("thing")).collect();
        assert_eq!(found, above, "{text}");
    }
}

#[test]
fn what_is_no_import_upwards_is_not_found() {
    for text in [
        "pub(in crate::low) struct Mine; pub(super) struct Ours;",
        "//! As [`Thing`](crate::high::thing::Thing).\nuse std::fmt; fn f(_: other::high::thing::Thing) {}",
        "#[cfg(test)] mod tests { use crate::high::thing::Thing; }",
        "#[cfg(all(test, not(loom)))] use crate::high::thing::Thing;",
        "#[cfg(test)] fn f() { crate::high::thing::make(); }",
    ] {
        let graph = made_up(text, "use crate::low::base;", "use super::thing::Thing;").at_depth(2);
        assert_eq!(upward(&graph, &["low", "high"]), [""; 0], "{text}");
        assert_eq!(cycle(&graph), None, "{text}");
        assert!(graph["high::thing"].contains("low::base") && graph["high::other"].contains("high::thing"));
    }
    // Code that only tests exclude is checked.
    let graph = made_up("#[cfg(not(test))] use crate::high::thing::Thing;", "", "").at_depth(2);
    assert_eq!(upward(&graph, &["low", "high"]), ["low::base → high::thing"]);
}

#[test]
fn a_cycle_is_found_within_a_layer_and_across() {
    let within = made_up("", "fn f() { super::other::g(); }", "use crate::high::thing;").at_depth(2);
    assert_eq!(cycle(&within).unwrap(), ["high::other", "high::thing"]);
    assert_eq!(upward(&within, &["low", "high"]), [""; 0]);
    let across = made_up("use crate::high::other;", "use crate::low::base;", "use super::thing;");
    assert_eq!(cycle(&across.at_depth(2)).unwrap(), ["high::other", "high::thing", "low::base"]);
    assert_eq!(cycle(&across.at_depth(1)).unwrap(), ["high", "low"]);
}

/// Tests the dependencies of the drop-in. It is outside of the workspace, because the workspace links the stock
/// rayon-core, which the drop-in replaces.
#[test]
fn the_drop_in_depends_on_the_runtime_alone() {
    let packages = packages_at(workspace().join("crates/rayon-core"));
    let [(folder, dependencies)] = packages.as_slice() else { panic!("{packages:?}") };
    let names: Vec<&str> = dependencies.iter().map(|dependency| dependency["name"].as_str().unwrap()).collect();
    assert_eq!((folder.as_str(), names.as_slice()), ("crates/rayon-core", ["comity"].as_slice()));
}

/// Tests that the recording variant of the drop-in differs only in one dependency: another crate has the runtime's
/// name.
#[test]
fn the_drop_in_that_records_is_the_same_source_over_another_comity() {
    let folder = workspace().join("crates/rayon-core");
    let packages = packages_at(folder.join("recording"));
    let [(_, dependencies)] = packages.as_slice() else { panic!("{packages:?}") };
    let [only] = dependencies.as_slice() else { panic!("{dependencies:?}") };
    assert_eq!((&only["name"], &only["rename"]), (&"comity-recording".into(), &"comity".into()));
    let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap();
    let (ordinary, recording) = (read("Cargo.toml"), read("recording/Cargo.toml"));
    for line in ["version = \"1.13.0\"", "links = \"rayon-core\"", "web_spin_lock = []", "publish = false"] {
        assert!(ordinary.contains(line) && recording.contains(line), "{line}");
    }
    assert!(recording.contains("path = \"../src/lib.rs\"") && !folder.join("recording/src").exists());
}

/// Tests that `comity` does not depend on other runtimes. They would slow down its start, which matters for programs
/// that end in a millisecond, and its build.
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
    for (pure, allowed) in
        [("policy", &[][..]), ("values", &[]), ("protocol", &["comity-policy", "comity-values", "crossbeam-utils"])]
    {
        let (_, dependencies) = packages().into_iter().find(|(folder, _)| *folder == format!("crates/{pure}")).unwrap();
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
            // The file maps the table into memory.
            || path == "table/src/map.rs"
            || path.starts_with("runtime/src/raw/")
            // The file is a simple pool for comparisons. The commands of the laboratory have no unsafe code.
            || path == "lab/kernels/src/abp.rs"
            // The file converts references to a transparent wrapper.
            || path == "rayon-core/src/scope.rs"
            // These files call fork.
            || path == "runtime/tests/harness/forked.rs"
            || path == "table/tests/fork.rs"
            // The file closes descriptors that belong to the table.
            || path == "table/tests/descriptors.rs"
            // The file has a signal handler that ends the program.
            || path == "runtime/tests/trace.rs"
            // The file has data that no lock protects: only the runtime's own synchronization orders the accesses.
            || path == "runtime/tests/hammer.rs"
            // These files make or run jobs or latches of `raw`, and must fulfil their contracts.
            || [
                "api/join",
                "api/scope",
                "api/spawn",
                "api/broadcast",
                "workers/current",
                "workers/inject",
                "workers/registry",
                "workers/worker",
                "blocking/runnable",
            ]
            .iter()
            .any(|name| path == format!("runtime/src/{name}.rs"))
    };
    let mut with_unsafe = 0;
    for file in ["crates", "lab"].into_iter().flat_map(|folder| rust_files(workspace().join(folder))) {
        let path = folder_of(&file);
        let text = fs::read_to_string(&file).unwrap();
        let is_unsafe = |line: &str| {
            let code = line.split("//").next().unwrap();
            ["unsafe {", "unsafe fn", "unsafe impl"].iter().any(|word| code.contains(word)) && !code.contains('"')
        };
        if text.lines().any(is_unsafe) {
            assert!(allowed(path.trim_start_matches("crates/")), "{path} has unsafe code");
            with_unsafe += 1;
        }
    }
    assert!(with_unsafe > 5, "only {with_unsafe} files with unsafe code were found: the search is broken");
}

/// Checks that each crate that users link or run turns on the lints of `clippy.toml`. Its tests may read variables
/// and write files.
#[test]
fn what_users_link_or_run_reads_variables_and_writes_in_one_way() {
    let has_no_std_or_is_for_tests =
        |folder: &&str| ["crates/values", "crates/policy", "crates/protocol", "crates/guide"].contains(folder);
    for folder in ORDER.iter().filter(|folder| !has_no_std_or_is_for_tests(folder)) {
        for file in ["lib.rs", "main.rs"].map(|file| workspace().join(folder).join("src").join(file)) {
            let Ok(text) = fs::read_to_string(&file) else { continue };
            let line = "#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]";
            assert!(text.lines().any(|found| found == line), "{} lacks {line}", file.display());
        }
    }
}

/// Returns all Rust files below a folder.
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
