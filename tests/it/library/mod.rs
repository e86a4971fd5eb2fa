//! The crate as a library.
