//! Being told of forks.

/// Calls `hook` in every child that this process, or a child of it, forks from now on, on the thread that forked, before
/// `fork` returns there.
///
/// Other threads of the parent are not there in the child, but what they had locked is: `hook` must not lock, and calls
/// only what a signal handler may. A fork that goes past the C library (a bare `clone`) is not seen.
pub fn call_in_children(hook: extern "C" fn()) {
    // SAFETY: `pthread_atfork` keeps a pointer to a function that lives as long as the program, and calls it without
    // arguments, as its type says.
    let refused = unsafe { libc::pthread_atfork(None, None, Some(hook)) };
    assert_eq!(refused, 0, "the C library has no memory for a pointer to a function");
}

/// As [`call_in_children`], with two more: `before` is called before each fork, `in_parent` after it where it was called.
pub fn call_around(before: extern "C" fn(), in_parent: extern "C" fn(), in_child: extern "C" fn()) {
    // SAFETY: as above.
    let refused = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    assert_eq!(refused, 0, "the C library has no memory for three pointers to functions");
}
