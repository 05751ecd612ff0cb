//! Filters that refuse a system call, like the kernels of some containers.

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// Returns a filter that makes `call` fail with `error`, for a thread and for all that it starts. If `error` is 0,
/// the call seems to succeed without an effect.
pub fn refusing(call: libc::c_long, error: libc::c_int) -> BpfProgram {
    let refuse = SeccompAction::Errno(error as u32);
    let architecture = std::env::consts::ARCH.try_into().expect("a known architecture");
    let filter = SeccompFilter::new([(call, Vec::new())].into(), SeccompAction::Allow, refuse, architecture);
    filter.and_then(BpfProgram::try_from).expect("a valid filter that can be compiled")
}
