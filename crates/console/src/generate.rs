//! Shell completions and man pages, generated from the definitions of the parser and the help.

use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::{Args, Command};
use clap_complete::Shell;

use crate::{Failure, output};

/// Print completions for a shell
#[derive(Args)]
#[command(after_help = "To load them in this bash session: source <(COMMAND completions bash)")]
pub struct Completions {
    /// Shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Write man pages to a folder
#[derive(Args)]
pub struct Man {
    /// Folder for the pages, one per verb; created if it does not exist
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Prints the completions of `command`.
pub fn completions(arguments: &Completions, mut command: Command) -> Result<(), Failure> {
    let name = command.get_name().to_owned();
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, name, &mut text);
    output::print(&String::from_utf8_lossy(&text))
}

fn refused(folder: &Path, error: &io::Error) -> Failure {
    Failure::Usage(format!("cannot write man pages to '{}': {error}. Choose another folder", folder.display()))
}

/// Writes the man pages of `command`.
pub fn man(arguments: &Man, command: Command) -> Result<(), Failure> {
    let folder = &arguments.folder;
    fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(command, folder))
        .map_err(|error| refused(folder, &error))
}
