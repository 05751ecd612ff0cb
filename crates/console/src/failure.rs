//! Failures of a verb (a subcommand): a message for the user and an exit code for scripts.

use std::process::ExitCode;

use comity_os::writes::to_stderr;

/// The reason why a verb failed.
#[derive(Debug)]
pub enum Failure {
    /// The command line is invalid, and nothing has run. Exit code 2, like errors of the command-line parser.
    Usage(String),
    /// A run failed, or gave a wrong result. Exit code 1.
    Run(String),
    /// The command that should replace this process cannot be started. The exit code is that of a shell in this case.
    Start(String, u8),
}

impl Failure {
    /// Returns the message for the user.
    pub fn into_sentence(self) -> String {
        match self {
            Failure::Usage(sentence) | Failure::Run(sentence) | Failure::Start(sentence, _) => sentence,
        }
    }

    /// Prints the message on standard error, in the style of the command-line parser, and returns the exit code.
    pub fn report(self) -> ExitCode {
        let code = match self {
            Failure::Usage(_) => 2,
            Failure::Run(_) => 1,
            Failure::Start(_, code) => code,
        };
        to_stderr(&format!("error: {}\n", self.into_sentence()));
        ExitCode::from(code)
    }
}
