//! The jobserver that this process inherits, by GNU make's protocol.

use std::path::Path;

use jobserver::{Client, FromEnvErrorKind};
use rustix::fs::{Mode, OFlags, open};

use crate::environment;

/// The jobserver that the environment names.
#[derive(Debug)]
pub enum Inherited {
    /// The environment names none, or says that this process may not use it.
    Nothing,
    /// A jobserver that can be used.
    Works,
    /// A jobserver that cannot be used, for this reason.
    Gone(String),
}

/// Returns the jobserver that `CARGO_MAKEFLAGS`, `MAKEFLAGS` or `MFLAGS` names: the first of them that is set.
pub fn inherited() -> Inherited {
    // SAFETY: the library takes no descriptor over. It opens those that the variable names again, after a check that
    // they are pipes, and closes only what it has opened.
    let found = unsafe { Client::from_env_ext(true) };
    match found.client {
        Ok(client) => {
            drop(client);
            match fifo().filter(|path| !has_reader(path.as_ref())) {
                Some(path) => Inherited::Gone(format!("no process has the jobserver '{path}' open")),
                None => Inherited::Works,
            }
        }
        Err(error) => match error.kind() {
            FromEnvErrorKind::NoEnvVar | FromEnvErrorKind::NoJobserver | FromEnvErrorKind::NegativeFd => {
                Inherited::Nothing
            }
            _ => Inherited::Gone(error.to_string()),
        },
    }
}

/// Returns the path of the jobserver that the environment names, if it is a FIFO.
fn fifo() -> Option<String> {
    let variables = ["CARGO_MAKEFLAGS", "MAKEFLAGS", "MFLAGS"];
    let flags = variables.iter().find_map(|name| environment::variable(name))?;
    let (_, path) = flags.to_str()?.rsplit_once("--jobserver-auth=fifo:")?;
    path.split_whitespace().next().map(str::to_owned)
}

/// True if a process has a FIFO open to read. Otherwise a client that opens it would wait.
fn has_reader(path: &Path) -> bool {
    open(path, OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).is_ok()
}
