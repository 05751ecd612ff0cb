//! Shell completions and man pages, generated from the definitions of the parser and the help.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::{Failure, output};

/// Print the completions for a shell
#[derive(Args)]
#[command(after_help = "In bash, for this session: source <(COMMAND completions bash)")]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Write the man pages into a folder
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

/// Writes the man pages of `command`.
pub fn man(arguments: &Man, command: Command) -> Result<(), Failure> {
    let folder = &arguments.folder;
    fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(command, folder))
        .map_err(|error| Failure::Usage(format!("cannot write man pages into '{}': {error}", folder.display())))
}
