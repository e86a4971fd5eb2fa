//! Named persistence boundaries at which a test can stop the process.
