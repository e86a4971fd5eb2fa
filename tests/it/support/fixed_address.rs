//! An address that outlives the servers behind it. A client that connects while there is none waits for the next.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub struct FixedAddress {
    pub address: SocketAddr,
    behind: watch::Sender<Option<SocketAddr>>,
}

impl FixedAddress {
    pub async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let behind = watch::Sender::new(None);
        let shared = behind.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(carry(client, shared.subscribe()));
            }
        });
        Self { address, behind }
    }

    /// `None`: there is no server; clients wait for one.
    pub fn leads_to(&self, server: Option<SocketAddr>) {
        self.behind.send_replace(server);
    }
}

async fn carry(mut client: TcpStream, mut behind: watch::Receiver<Option<SocketAddr>>) {
    let Ok(Some(server)) = behind.wait_for(Option::is_some).await.map(|server| *server) else { return };
    // A server that was just killed accepts no connection.
    let Ok(mut server) = TcpStream::connect(server).await else { return };
    copy_bidirectional(&mut client, &mut server).await.ok();
}
