//! One file per section of the configuration; flag > environment > file > default.
