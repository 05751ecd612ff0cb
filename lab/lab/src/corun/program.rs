//! The programs of a co-run: a kernel, or any shell command.

use std::fmt;

use comity_console::Failure;
use comity_kernels::catalog;

use crate::kernel;

/// A program of a co-run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// A kernel of the catalog, with valid parameters.
    Kernel(String),
    /// A command for `/bin/sh`.
    Command(String),
}

impl Program {
    /// Parses a program from its text alone. The text is a kernel if the part before the first `:` is the name of a
    /// kernel. Another text is a command if it contains a space or a slash. A text with neither is an error.
    pub fn parse(text: &str) -> Result<Program, Failure> {
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        if catalog::DEFINITIONS.iter().any(|definition| definition.name == name) {
            // Only building the input shows if the values are valid. The default values are valid.
            if !parameters.is_empty() {
                catalog::prepare(text).map_err(|error| Failure::Usage(error.to_string()))?;
            }
            return Ok(Program::Kernel(text.to_owned()));
        }
        if text.contains(|letter: char| letter.is_whitespace() || letter == '/') && !text.trim().is_empty() {
            return Ok(Program::Command(text.to_owned()));
        }
        Err(Failure::Usage(format!(
            "no kernel is called '{name}'. Choose one of {}, or give a command with its path or its arguments in \
             quotes",
            kernel::catalog_names()
        )))
    }

    /// Returns the program's text, as on the command line.
    pub fn text(&self) -> &str {
        match self {
            Program::Kernel(text) | Program::Command(text) => text,
        }
    }

    /// Returns `kernel` or `command`.
    pub fn kind(&self) -> &'static str {
        match self {
            Program::Kernel(_) => "kernel",
            Program::Command(_) => "command",
        }
    }
}

/// Formats the program in quotes, for use in a sentence.
impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_before_the_colon_is_a_kernel_and_a_space_or_slash_a_command() {
        for (text, expected) in [
            ("fib", Program::Kernel("fib".to_owned())),
            ("fib:n=3", Program::Kernel("fib:n=3".to_owned())),
            ("fib --help", Program::Command("fib --help".to_owned())),
            ("./fib", Program::Command("./fib".to_owned())),
            ("echo a:b", Program::Command("echo a:b".to_owned())),
        ] {
            assert_eq!(Program::parse(text).unwrap(), expected, "{text}");
        }
        for text in ["fibonacci", "", "  ", "true", "fib:depth=3", "fib:n=many", "sort:n=3"] {
            assert!(matches!(Program::parse(text), Err(Failure::Usage(_))), "{text}");
        }
    }
}
