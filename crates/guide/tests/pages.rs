//! Test that the examples of every guide page with Rust code are tested.

use std::fs;
use std::path::Path;

#[test]
fn every_page_with_rust_code_is_tested() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/src");
    let mut with_code = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        // Every code block must name a language: without one, rustdoc takes it for Rust, and a browser for plain text.
        let mut inside = false;
        for line in text.lines().filter(|line| line.starts_with("```")) {
            inside = !inside;
            assert!(!inside || line.len() > 3, "{}: a block has no language", path.display());
        }
        if text.lines().any(|line| line.starts_with("```rust")) {
            with_code.push(path.file_stem().unwrap().to_str().unwrap().to_owned());
        }
    }
    with_code.sort();
    assert_eq!(with_code, comity_guide::TESTED);
}
