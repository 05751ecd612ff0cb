//! Tests in a separate process with a separate core table.

use std::process::Command;

/// Runs `test` of this program again, in a process with a separate core table, where it runs `check`. In the table of
/// other tests, a pool may have one core, and so one awake worker, for as long as they run. If the environment names
/// a table, `check` runs in this process.
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
