//! Filters that refuse a system call, like the kernels of some containers.

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// Returns a filter that makes `call` fail with `error`. It applies to a thread, and to threads and processes that
/// the thread starts. If `error` is 0, the call seems to succeed, and has no effect.
pub fn refusing(call: libc::c_long, error: libc::c_int) -> BpfProgram {
    let refuse = SeccompAction::Errno(error as u32);
    let architecture = std::env::consts::ARCH.try_into().expect("a known architecture");
    let filter = SeccompFilter::new([(call, Vec::new())].into(), SeccompAction::Allow, refuse, architecture);
    filter.and_then(BpfProgram::try_from).expect("a valid filter that can be compiled")
}
