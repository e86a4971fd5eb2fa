//! The parts of a run of W1 by themselves: the model calls through this server's client, and the commits through its store,
//! with nothing in between. The bed measures this process beside the server (`scripts/bench --parts W1`). The difference is
//! the overhead of a run over the sum of its parts.
//!
//! Arguments: the address of the model, a folder for SQLite, and optionally the URL of a PostgreSQL to use instead. Prints its
//! address.

mod calls;
mod commits;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use pes::domain::ids::TenantPk;
use pes::provider::ChatModel;
use pes::store::Store;
use pes::store::postgres::Postgres;
use pes::store::sqlite::Sqlite;

/// The same allocator as in the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The server's default.
const CONNECTIONS: u32 = 16;

struct Parts {
    model: Arc<dyn ChatModel>,
    store: Arc<dyn Store>,
    tenant: TenantPk,
    threads: AtomicI64,
}

#[tokio::main]
async fn main() {
    #[cfg(target_os = "linux")]
    rustix::thread::disable_transparent_huge_pages(true).expect("the binary does so too");
    let installed = rustls::crypto::aws_lc_rs::default_provider().install_default();
    installed.expect("nothing else installs a TLS provider");
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let (model, folder, database) = match arguments.as_slice() {
        [model, folder] => (model, folder, None),
        [model, folder, database] => (model, folder, Some(database)),
        _ => {
            println!("The bed starts this: scripts/bench --parts W1");
            return;
        }
    };
    let store: Arc<dyn Store> = match database {
        Some(url) => Arc::new(Postgres::open(&url.clone().into(), CONNECTIONS).await.expect("the database answers")),
        None => {
            let store = Sqlite::open(Path::new(folder), pes::config::Synchronous::Full).await;
            Arc::new(store.expect("the folder is writable"))
        }
    };
    let tenant = store.tenant("parts", 1).await.expect("the store answers");
    let parts = Arc::new(Parts { model: calls::model(model), store, tenant, threads: AtomicI64::new(0) });
    let app = Router::new()
        .route("/calls", post(async |State(parts): State<Arc<Parts>>| calls::make(&*parts.model).await))
        .route("/commits", post(async |State(parts): State<Arc<Parts>>| parts.commit().await))
        .route(
            "/parts",
            post(async |State(parts): State<Arc<Parts>>| {
                calls::make(&*parts.model).await;
                parts.commit().await;
            }),
        )
        .with_state(parts);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback is up");
    println!("{}", listener.local_addr().expect("it is bound"));
    std::io::stdout().flush().expect("whoever started this reads it");
    axum::serve(listener, app).await.expect("it listens");
}

impl Parts {
    /// The commits of one run, on a new thread.
    async fn commit(&self) {
        let nth = self.threads.fetch_add(1, Ordering::Relaxed) + 1;
        commits::make(&*self.store, self.tenant, nth).await;
    }
}
