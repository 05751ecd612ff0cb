//! The tests of a program in a process whose kernel refuses `membarrier`, as in some containers.

#[path = "filter.rs"]
mod filter;

use std::process::Command;

const REFUSED: &str = "COMITY_TEST_MEMBARRIER_IS_REFUSED";

/// Runs all tests of this program in such a process. In that process, checks that `membarrier` is refused.
pub fn again_without_membarrier() {
    if std::env::var_os(REFUSED).is_some() {
        assert!(!comity_os::barrier::is_available(), "the filter lets membarrier pass");
        return;
    }
    let filter = filter::refusing(libc::SYS_membarrier, libc::ENOSYS);
    // A process inherits the filter of the thread that starts it. The process gets a separate table, because pools of
    // this process use cores in the other one.
    let table = std::env::temp_dir().join(format!("comity-refused-{}", std::process::id()));
    let again = std::thread::spawn(move || {
        seccompiler::apply_filter(&filter).expect("a thread may filter its own system calls");
        let program = std::env::current_exe().expect("a test knows its program");
        let output = Command::new(program).env(REFUSED, "1").env("COMITY_TABLE", &table).output();
        let _ = std::fs::remove_file(table);
        output.expect("a test can run itself")
    });
    let output = again.join().expect("the thread above does not panic");
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
