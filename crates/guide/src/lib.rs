//! The Rust code of the guide (`docs/guide`), compiled and run as tests of this crate's documentation.
//! `checks/guide.sh` runs the shell blocks.
#![forbid(unsafe_code)]

/// Declares an item for each page, with the page as its documentation. The page's examples are then tests.
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
    Library = "library",
    OpenmpTbb = "openmp-tbb",
    Rayon = "rayon",
    Tokio = "tokio",
    WritingAPolicy = "writing-a-policy",
}
