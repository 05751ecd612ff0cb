//! How a verb fails: a sentence for a person and an exit code for a script.

use std::process::ExitCode;

/// Why a verb could not do what it was asked to.
#[derive(Debug)]
pub enum Failure {
    /// The command line is at fault; nothing has run. Exit code 2, as for everything that the parser refuses.
    Usage(String),
    /// Something ran and failed, or gave a wrong result. Exit code 1.
    Run(String),
}

impl Failure {
    /// Says it on standard error, in the parser's own style, and returns the exit code.
    pub fn report(&self) -> ExitCode {
        let (sentence, code) = match self {
            Failure::Usage(sentence) => (sentence, 2),
            Failure::Run(sentence) => (sentence, 1),
        };
        eprintln!("error: {sentence}");
        ExitCode::from(code)
    }
}
