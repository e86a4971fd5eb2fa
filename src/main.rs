//! The binary: allocator, TLS provider, and the command line.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    stay_small();
    let installed = rustls::crypto::aws_lc_rs::default_provider().install_default();
    installed.expect("nothing else installs a TLS provider");
    pes::cli::run()
}

/// Without huge pages: two megabytes for every few kilobytes that are alive double what an idle server holds. Where the
/// system does not let us choose, they stay.
fn stay_small() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}
