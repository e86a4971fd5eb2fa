//! Wires, byte by byte.
