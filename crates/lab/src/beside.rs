//! The other command, `comity`, which some members of `bench use` are started by.

use std::env;
use std::path::{Path, PathBuf};

use comity_console::Failure;

/// The `comity` in this command's folder, where a build puts both, or on the PATH.
pub fn comity() -> Result<PathBuf, Failure> {
    let own = env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(|folder| folder.join("comity"));
    let path = env::var_os("PATH").unwrap_or_default();
    let found = beside.into_iter().chain(env::split_paths(&path).map(|folder| folder.join("comity")));
    found.into_iter().find(|place| place.is_file()).ok_or_else(|| {
        Failure::Run(
            "the command `comity` is neither beside comity-lab nor on the PATH; build it with cargo build --release -p \
             comity-cli"
                .to_owned(),
        )
    })
}
