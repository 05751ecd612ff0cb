//! How long a thread runs before another of the same core may.
//!
//! Under EEVDF, Linux 6.12 and later, a thread may ask for shorter slices than usual. It has them more often: woken, it comes before a thread
//! with a longer slice, where it would else wait for that one's next tick (4 ms at 250 Hz). Its share of the time stays the same. Earlier kernels
//! take the wish and do nothing with it.

use std::time::Duration;

/// The calling thread has slices of this length from now on, 0.1 to 100 ms as the kernel has it. False: it refuses, or the thread is no
/// ordinary one (`SCHED_OTHER`).
pub fn set(length: Duration) -> bool {
    let mut attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    let (this_thread, flags) = (0, 0_u32);
    let size = attributes.size;
    // SAFETY: the kernel writes at most `size` bytes, as many as there are.
    let known = unsafe { libc::syscall(libc::SYS_sched_getattr, this_thread, &mut attributes, size, flags) };
    if known != 0 || attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return false;
    }
    attributes.size = size;
    attributes.sched_runtime = length.as_nanos().try_into().unwrap_or(u64::MAX);
    // SAFETY: the kernel reads `size` bytes, as many as there are.
    unsafe { libc::syscall(libc::SYS_sched_setattr, this_thread, &attributes, flags) == 0 }
}
