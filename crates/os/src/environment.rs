//! The variables of the environment that a program obeys.

use std::ffi::{OsStr, OsString};

use crate::system::calls;

/// What `name` is set to. Set to nothing is not set.
///
/// `None` also where this process [has more rights than its caller](has_more_rights_than_its_caller): the caller's environment
/// would decide what is done with them.
pub fn variable(name: &str) -> Option<OsString> {
    if has_more_rights_than_its_caller() {
        return None;
    }
    #[expect(clippy::disallowed_methods, reason = "other code reads variables by this function")]
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Whether this program was made set-user-id or set-group-id or has capabilities of its own, so that it may do what the process
/// that started it may not (`AT_SECURE`).
pub fn has_more_rights_than_its_caller() -> bool {
    calls::is_secure()
}

/// True for a value that switches something off: `off`, `none`, `no`, `false` or `0`, in any case.
pub fn is_off(value: impl AsRef<OsStr>) -> bool {
    ["off", "none", "no", "false", "0"].iter().any(|word| value.as_ref().eq_ignore_ascii_case(word))
}
