//! The house's own rules, read off the sources.
