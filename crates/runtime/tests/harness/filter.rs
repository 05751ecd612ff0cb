//! Kernels that refuse a system call, as those of some containers do.

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// What has the calls of a thread, and of all that it starts, come back with this error; 0: as if they were done.
pub fn refusing(call: libc::c_long, error: libc::c_int) -> BpfProgram {
    let refuse = SeccompAction::Errno(error as u32);
    let architecture = std::env::consts::ARCH.try_into().expect("a known architecture");
    let filter = SeccompFilter::new([(call, Vec::new())].into(), SeccompAction::Allow, refuse, architecture);
    filter.and_then(BpfProgram::try_from).expect("a valid filter that can be compiled")
}
