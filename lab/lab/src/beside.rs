//! Finds the command `comity`, with which `bench use` starts some of its members.

use std::env;
use std::path::{Path, PathBuf};

use comity_console::Failure;

/// Returns the path of `comity` in the folder of this command. A build and an installation put both commands into one
/// folder.
pub fn comity() -> Result<PathBuf, Failure> {
    let own = env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(|folder| folder.join("comity"));
    beside.filter(|place| place.is_file()).ok_or_else(|| {
        Failure::Run(
            "the command `comity` is not in the folder of comity-lab. Build it with the same profile (cargo build \
             --release -p comity-cli)"
                .to_owned(),
        )
    })
}
