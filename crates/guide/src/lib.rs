//! The Rust code of the guide (`docs/guide`), compiled and run as tests of this crate's documentation. The shell blocks
//! are run by `checks/guide.sh`.
#![forbid(unsafe_code)]

/// A page as the documentation of an item, whose examples are tests.
macro_rules! pages {
    ($($item:ident = $page:literal),+ $(,)?) => {
        $(#[cfg(all(doctest, not(loom)))]
        #[doc = include_str!(concat!("../../../docs/guide/src/", $page, ".md"))]
        pub struct $item;)+

        /// The pages that are tested.
        pub const TESTED: &[&str] = &[$($page),+];
    };
}

pages! {
    Kahn = "kahn",
    OpenmpTbb = "openmp-tbb",
    Rayon = "rayon",
    Tokio = "tokio",
    WritingAPolicy = "writing-a-policy",
}
