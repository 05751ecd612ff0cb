//! The other command, `comity`, which some members of `bench use` are started by.

use std::env;
use std::path::{Path, PathBuf};

use comity_console::Failure;

/// The `comity` in this command's folder, where a build and an installation put both.
pub fn comity() -> Result<PathBuf, Failure> {
    let own = env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(|folder| folder.join("comity"));
    beside.filter(|place| place.is_file()).ok_or_else(|| {
        Failure::Run(
            "the command `comity` is not beside comity-lab; build it with the same profile (cargo build --release -p comity-cli)"
                .to_owned(),
        )
    })
}
