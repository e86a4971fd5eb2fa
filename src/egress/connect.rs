//! Opens a connection: resolves the name, connects to the first address that accepts, and starts TLS for https.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig};
use rustls_platform_verifier::BuilderVerifierExt;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use super::Error;
use super::guard::{DnsLookup, Guard};

/// How long an address is tried alone before the next is tried in parallel (RFC 8305, section 5).
const CONNECTION_ATTEMPT_DELAY: Duration = Duration::from_millis(250);
/// Idle time after which TCP keep-alive probes start.
const TCP_KEEPALIVE_IDLE: Duration = Duration::from_secs(15);

/// The byte stream of a connection: TCP or TLS.
pub(super) trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// Resolves names. With a guard, one refused address refuses the whole name, so every address that is connected to was
/// checked.
pub(super) struct Resolver {
    pub(super) dns: Arc<dyn DnsLookup>,
    pub(super) guard: Option<Arc<Guard>>,
}

impl Resolver {
    /// A literal IP address in the URL was checked with the URL.
    async fn addresses(&self, url: &Url) -> Result<Vec<SocketAddr>, Error> {
        let port = url.port_or_known_default().unwrap_or_default();
        let found = match url.host() {
            Some(Host::Ipv4(address)) => vec![IpAddr::V4(address)],
            Some(Host::Ipv6(address)) => vec![IpAddr::V6(address)],
            Some(Host::Domain(name)) => self.look_up(name).await?,
            None => Vec::new(),
        };
        Ok(found.into_iter().map(|address| SocketAddr::new(address, port)).collect())
    }

    async fn look_up(&self, name: &str) -> Result<Vec<IpAddr>, Error> {
        let found = self.dns.addresses(name).await.map_err(|error| Error::Unreachable(format!("{name}: {error}")))?;
        match self.guard.as_ref().and_then(|guard| found.iter().find_map(|address| guard.refuses(*address))) {
            Some(kind) => Err(Error::Refused(format!(
                "the name leads to {kind} address, which is not called unless PES_EGRESS_ALLOW names it"
            ))),
            None => Ok(found),
        }
    }
}

/// TLS with the system's certificate authorities.
pub(super) fn tls() -> Result<TlsConnector, Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().and_then(|builder| builder.with_platform_verifier());
    let unusable = |error: rustls::Error| {
        let hint = "if SSL_CERT_FILE is set, it must name a file with authorities";
        Error::Unreachable(format!("any server by TLS: {error}; {hint}"))
    };
    let builder = builder.map_err(unusable)?;
    let mut config = builder.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Connects to the URL's server; `tls` is `Some` iff the scheme is https.
pub(super) async fn connect(
    url: &Url,
    resolver: &Resolver,
    tls: Option<&TlsConnector>,
) -> Result<Box<dyn Transport>, Error> {
    let unreachable = |error: io::Error| {
        let (why, what_to_do) = (without_os_code(&error), of_unknown_authority(&error));
        Error::Unreachable(format!("{}: {why}{what_to_do}", host_and_port(url)))
    };
    let addresses = resolver.addresses(url).await?;
    let stream = dial(interleaved(addresses)).await.map_err(unreachable)?;
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(TCP_KEEPALIVE_IDLE));
    let Some(tls) = tls else { return Ok(Box::new(stream)) };
    let name = server_name(url).map_err(unreachable)?;
    Ok(Box::new(tls.connect(name, stream).await.map_err(unreachable)?))
}

/// The error's text without the `(os error N)` suffix.
fn without_os_code(error: &io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error ").next().unwrap_or_default();
    let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
    first.to_lowercase() + rest
}

/// What to do about a certificate whose authority this system does not know, to follow the error.
fn of_unknown_authority(error: &io::Error) -> &'static str {
    let broken = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    if broken == Some(&rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) {
        "; if its authority is a private one, name a file with all authorities in SSL_CERT_FILE"
    } else {
        ""
    }
}

/// Host and port: the only parts of a URL that are logged, because the rest may contain a secret.
pub(super) fn host_and_port(url: &Url) -> String {
    format!("{}:{}", url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or_default())
}

fn server_name(url: &Url) -> io::Result<ServerName<'static>> {
    match url.host() {
        Some(Host::Ipv4(address)) => Ok(IpAddr::V4(address).into()),
        Some(Host::Ipv6(address)) => Ok(IpAddr::V6(address).into()),
        Some(Host::Domain(name)) => ServerName::try_from(name.to_owned()).map_err(io::Error::other),
        None => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Keeps the resolver's order but alternates between IPv4 and IPv6.
fn interleaved(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let Some(is_ipv6) = addresses.first().map(SocketAddr::is_ipv6) else { return addresses };
    let (first, second): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| address.is_ipv6() == is_ipv6);
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    let mut mixed = Vec::with_capacity(first.len() + second.len());
    while first.len() + second.len() > 0 {
        mixed.extend(first.next());
        mixed.extend(second.next());
    }
    mixed
}

/// Connects to the first address that accepts. Each address gets a head start over the next.
async fn dial(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut rest = addresses.into_iter();
    let mut attempts = FuturesUnordered::new();
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name leads to no address");
    loop {
        match rest.next() {
            Some(address) => attempts.push(TcpStream::connect(address)),
            None if attempts.is_empty() => return Err(failed),
            None => {}
        }
        tokio::select! {
            Some(attempt) = attempts.next() => match attempt {
                Ok(stream) => return Ok(stream),
                Err(error) => failed = error,
            },
            () = tokio::time::sleep(CONNECTION_ATTEMPT_DELAY), if rest.len() > 0 => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn the_families_take_turns() {
        let of = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let found = of(&["[2001:db8::1]:1", "[2001:db8::2]:1", "[2001:db8::3]:1", "192.0.2.1:1"]);
        let expected = of(&["[2001:db8::1]:1", "192.0.2.1:1", "[2001:db8::2]:1", "[2001:db8::3]:1"]);
        assert_eq!(interleaved(found), expected);
        assert_eq!(interleaved(Vec::new()), Vec::new());
    }

    #[tokio::test]
    async fn an_address_that_refuses_does_not_keep_the_next_from_being_tried() {
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let open = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = dial(vec![closed, open.local_addr().unwrap()]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), open.local_addr().unwrap());
        assert!(dial(vec![closed]).await.is_err());
        assert_eq!(dial(Vec::new()).await.unwrap_err().to_string(), "the name leads to no address");
    }

    #[test]
    fn only_a_certificate_of_an_unknown_authority_is_explained() {
        let broken = |why| io::Error::new(io::ErrorKind::InvalidData, rustls::Error::InvalidCertificate(why));
        let expected = "; if its authority is a private one, name a file with all authorities in SSL_CERT_FILE";
        assert_eq!(of_unknown_authority(&broken(CertificateError::UnknownIssuer)), expected);
        assert_eq!(of_unknown_authority(&broken(CertificateError::Expired)), "");
        assert_eq!(of_unknown_authority(&io::ErrorKind::ConnectionRefused.into()), "");
    }
}
