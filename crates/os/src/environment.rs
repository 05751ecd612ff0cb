//! Reading environment variables.

use std::ffi::{OsStr, OsString};

use crate::system::calls;

/// Returns the value of the variable `name`, or `None` if the variable is empty or not set.
///
/// Also returns `None` if this process [has more rights than its caller](has_more_rights_than_its_caller). Without this
/// rule, the caller could control the use of these rights through its environment.
pub fn variable(name: &str) -> Option<OsString> {
    if has_more_rights_than_its_caller() {
        return None;
    }
    #[expect(clippy::disallowed_methods, reason = "other code reads variables by this function")]
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// True if this program may do more than the process that started it (`AT_SECURE`). Such a program is set-user-id or
/// set-group-id, or has file capabilities.
pub fn has_more_rights_than_its_caller() -> bool {
    calls::is_secure()
}

/// True for a value that switches something off: `off`, `none`, `no`, `false` or `0`, in any case.
pub fn is_off(value: impl AsRef<OsStr>) -> bool {
    ["off", "none", "no", "false", "0"].iter().any(|word| value.as_ref().eq_ignore_ascii_case(word))
}
