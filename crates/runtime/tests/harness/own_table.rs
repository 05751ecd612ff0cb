//! Tests in a separate process with a separate core table.

use std::process::Command;

/// Runs the test `test` again, in a process with a separate core table, and runs `check` there. In a table shared
/// with other tests, a pool may have only one core and one awake worker, for as long as these tests run. If the
/// environment names a table, this is that process, and `check` runs here.
///
/// # Panics
/// If the process fails.
pub fn in_own_table(test: &str, check: impl FnOnce()) {
    if std::env::var_os("COMITY_TABLE").is_some() {
        return check();
    }
    let table = std::env::temp_dir().join(format!("comity-{test}-{}", std::process::id()));
    let program = std::env::current_exe().expect("a test knows its program");
    let status = Command::new(program).args(["--exact", test, "--nocapture"]).env("COMITY_TABLE", &table).status();
    let _ = std::fs::remove_file(table);
    assert!(status.expect("a test can run itself").success(), "{test} fails with a table of its own");
}
