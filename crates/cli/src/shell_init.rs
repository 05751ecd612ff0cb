//! The verb `comity shell-init`: functions of a shell that run named tools under `comity run`.

use std::fmt::Write;

use clap::{Args, ValueEnum};
use comity_console::{Failure, output};

const HELP: &str = "Examples:
  eval \"$(comity shell-init bash make cargo ninja)\"     in ~/.bashrc
  eval \"$(comity shell-init zsh make cargo ninja)\"      in ~/.zshrc
  comity shell-init fish make cargo ninja | source      in config.fish

The shell then runs `comity run make` where you type `make`. Inside of a command
of `comity run`, and if `comity` is not in PATH, it runs the tool alone. To run
the tool alone once, type `command make`. Scripts do not have the functions:
`comity run SCRIPT` runs a script with all that it starts.

Exit codes: 0: printed; 2: invalid command line.";

/// Print functions for a shell, so that named tools run under `comity run`
#[derive(Args)]
#[command(after_help = HELP)]
pub struct Arguments {
    /// Shell that reads the functions
    shell: Shell,
    /// Tools, for example make cargo ninja npm pytest go
    #[arg(required = true, value_name = "TOOL", value_parser = parse_tool)]
    tools: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Fish,
    Zsh,
}

/// Parses the name of a tool, which becomes the name of a function.
fn parse_tool(text: &str) -> Result<String, String> {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "._+-".contains(letter);
    if text.chars().all(is_letter) && text.starts_with(|first: char| first.is_ascii_alphabetic()) && text != "comity" {
        return Ok(text.to_owned());
    }
    Err("give the name of a program in PATH: a letter, then letters, digits and . _ + -".to_owned())
}

/// Runs the verb.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut text = String::new();
    for tool in &arguments.tools {
        let _ = match arguments.shell {
            Shell::Bash | Shell::Zsh => writeln!(
                text,
                "function {tool} {{\n  if [ -z \"${{COMITY_RUN-}}\" ] && command -v comity >/dev/null; then\n    \
                 comity run {tool} \"$@\"\n  else\n    command {tool} \"$@\"\n  fi\n}}"
            ),
            Shell::Fish => writeln!(
                text,
                "function {tool} --wraps {tool}\n  if not set -q COMITY_RUN; and command -q comity\n    comity run \
                 {tool} $argv\n  else\n    command {tool} $argv\n  end\nend"
            ),
        };
    }
    output::print(&text)
}
