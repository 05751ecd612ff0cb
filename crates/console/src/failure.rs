//! How a verb fails: a sentence for a person and an exit code for a script.

use std::process::ExitCode;

use comity_os::writes::to_stderr;

/// Why a verb could not do what it was asked to.
#[derive(Debug)]
pub enum Failure {
    /// The command line is at fault; nothing has run. Exit code 2, as for everything that the parser refuses.
    Usage(String),
    /// Something ran and failed, or gave a wrong result. Exit code 1.
    Run(String),
    /// The command that this one was to become cannot be started. The exit code is the one that shells have for that.
    Start(String, u8),
}

impl Failure {
    /// What is said to people.
    pub fn into_sentence(self) -> String {
        match self {
            Failure::Usage(sentence) | Failure::Run(sentence) | Failure::Start(sentence, _) => sentence,
        }
    }

    /// Says it on standard error, in the parser's own style, and returns the exit code.
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
