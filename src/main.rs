//! The binary: allocator, TLS provider, and the command line.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let installed = rustls::crypto::aws_lc_rs::default_provider().install_default();
    installed.expect("nothing else installs a TLS provider");
    pes::cli::run().await
}
