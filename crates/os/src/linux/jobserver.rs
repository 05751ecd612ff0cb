//! The jobserver that this process inherits, by GNU make's protocol.

use jobserver::{Client, FromEnvErrorKind};

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
        Ok(_client) => Inherited::Works,
        Err(error) => match error.kind() {
            FromEnvErrorKind::NoEnvVar | FromEnvErrorKind::NoJobserver | FromEnvErrorKind::NegativeFd => {
                Inherited::Nothing
            }
            _ => Inherited::Gone(error.to_string()),
        },
    }
}
