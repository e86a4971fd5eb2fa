//! The binary: allocator, TLS provider, and the command line.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    disable_huge_pages();
    let installed = rustls::crypto::aws_lc_rs::default_provider().install_default();
    installed.expect("nothing else installs a TLS provider");
    pes::run_command_line()
}

/// Transparent huge pages would double the memory of an idle server: a page of two megabytes stays for a few live kilobytes.
/// Does nothing if the system does not allow it.
fn disable_huge_pages() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}
