//! A proxy between a client and a server whose connection can be cut at a chosen moment.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::task::JoinHandle;

/// What happens to the connection on which the client sends a given mark.
#[derive(Clone, Copy, Debug)]
pub enum Cut {
    /// The server never receives it.
    Before,
    /// The server processes it, and its response is lost.
    After,
    /// The client is disconnected at once, while the server still processes it.
    During,
    /// The server never receives it. The client receives nothing more, not even the end of the connection.
    Silently,
    /// The server processes it, and its response arrives. The server receives nothing that is sent later, and the
    /// client receives nothing more.
    Later,
}

/// Listens on a loopback port and forwards everything to a Unix socket.
pub struct Proxy {
    pub port: u16,
    plan: Plan,
    ended: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

type Plan = Arc<Mutex<Option<(Vec<u8>, Cut)>>>;

impl Proxy {
    pub async fn before(socket: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (plan, ended) = (Plan::default(), Arc::new(AtomicUsize::new(0)));
        let (shared, count) = (plan.clone(), ended.clone());
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = UnixStream::connect(&socket).await.unwrap();
                let (plan, count) = (shared.clone(), count.clone());
                tokio::spawn(async move {
                    carry(client, server, plan).await;
                    count.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        Self { port, plan, ended, accepting }
    }

    /// From now on connections are refused; those that are open stay so.
    pub async fn stop(self) {
        self.accepting.abort();
        let _ = self.accepting.await;
    }

    /// Applies once.
    pub fn cut(&self, mark: &str, cut: Cut) {
        *self.plan.lock().unwrap() = Some((mark.as_bytes().to_vec(), cut));
    }

    /// How many connections are over.
    pub fn ended(&self) -> usize {
        self.ended.load(Ordering::SeqCst)
    }

    pub fn has_cut(&self) -> bool {
        self.plan.lock().unwrap().is_none()
    }
}

async fn carry(mut client: TcpStream, mut server: UnixStream, plan: Plan) {
    let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(1..) = read else { return };
                let asked = &asked[..read.unwrap()];
                match planned(&plan, asked) {
                    None => if server.write_all(asked).await.is_err() { return },
                    Some(Cut::Before) => return,
                    Some(Cut::Silently) => std::future::pending().await,
                    Some(Cut::After) => {
                        settle(&mut server, asked).await;
                        return;
                    }
                    Some(Cut::During) => {
                        drop(client);
                        settle(&mut server, asked).await;
                        return;
                    }
                    Some(Cut::Later) => {
                        let answer = settle(&mut server, asked).await;
                        client.write_all(&answer).await.unwrap();
                        std::future::pending().await
                    }
                }
            }
            read = server.read(&mut answered) => {
                let Ok(1..) = read else { return };
                if client.write_all(&answered[..read.unwrap()]).await.is_err() { return }
            }
        }
    }
}

fn planned(plan: &Plan, asked: &[u8]) -> Option<Cut> {
    let mut plan = plan.lock().unwrap();
    let is_marked = |(mark, _): &mut (Vec<u8>, Cut)| asked.windows(mark.len()).any(|window| window == mark);
    plan.take_if(is_marked).map(|(_, cut)| cut)
}

/// Forwards the query and waits until the server is ready for the next one; returns its response.
async fn settle(server: &mut UnixStream, asked: &[u8]) -> Vec<u8> {
    const READY: &[u8] = &[b'Z', 0, 0, 0, 5];
    server.write_all(asked).await.unwrap();
    let mut answered = Vec::new();
    while !answered.windows(READY.len()).any(|window| window == READY) {
        if server.read_buf(&mut answered).await.unwrap_or(0) == 0 {
            break;
        }
    }
    answered
}
