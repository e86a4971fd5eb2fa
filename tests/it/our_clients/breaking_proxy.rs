//! A proxy between a client and the server, whose connections break where a test wants.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};

/// An address that outlives the servers behind it.
pub struct BreakingProxy {
    pub address: SocketAddr,
    behind: watch::Sender<Option<SocketAddr>>,
    /// How many response bytes the next connection carries before it breaks, and how many more the one after it; 0:
    /// none breaks.
    carries: Arc<AtomicUsize>,
    broken: Arc<AtomicUsize>,
    /// Closes the open connections.
    end: Arc<Notify>,
}

/// Each connection carries this many bytes more than the one before, so that everything arrives in the end.
const MORE: usize = 211;

impl BreakingProxy {
    pub async fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let behind = watch::Sender::new(Some(server));
        let (carries, broken, end) = <(Arc<AtomicUsize>, Arc<AtomicUsize>, Arc<Notify>)>::default();
        let proxy = Self { address, behind, carries, broken, end };
        let (behind, carries) = (proxy.behind.clone(), proxy.carries.clone());
        let (broken, end) = (proxy.broken.clone(), proxy.end.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let add = |carries: usize| (carries > 0).then_some(carries + MORE);
                let carries = carries.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).unwrap_or(0);
                let (behind, broken, end) = (behind.subscribe(), broken.clone(), end.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = end.notified() => {}
                        has_carried_enough = carry(client, behind, carries) => {
                            broken.fetch_add(usize::from(has_carried_enough), Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        proxy
    }

    /// Closes every connection. Later ones break after this many bytes, each a little later. Returns how many did since
    /// the last call.
    pub fn breaks_after(&self, bytes: usize) -> usize {
        self.carries.store(bytes, Ordering::Relaxed);
        self.end.notify_waiters();
        self.broken.swap(0, Ordering::Relaxed)
    }

    /// `None`: connections are refused.
    pub fn leads_to(&self, server: Option<SocketAddr>) {
        self.behind.send_replace(server);
    }
}

/// Whether it broke because its byte limit was reached.
async fn carry(mut client: TcpStream, behind: watch::Receiver<Option<SocketAddr>>, carries: usize) -> bool {
    let Some(server) = *behind.borrow() else { return false };
    let Ok(mut server) = TcpStream::connect(server).await else { return false };
    let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut left = if carries == 0 { usize::MAX } else { carries };
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(read @ 1..) = read else { return false };
                if server.write_all(&asked[..read]).await.is_err() { return false }
            }
            read = server.read(&mut answered) => {
                let Ok(read @ 1..) = read else { return false };
                if client.write_all(&answered[..read.min(left)]).await.is_err() { return false }
                if read >= left { return true }
                left -= read;
            }
        }
    }
}
