//! Each redirect target is checked like the first address.

use http::header::{ACCEPT, AUTHORIZATION, HeaderName};
use http::{HeaderValue, Method};
use pes::egress::{Egress, Error, OutgoingRequest};

use super::{Canary, egress, fickle, get, untrusted};
use crate::support::wire::{Step, Wire, answer};

fn to(status: &str, location: &str) -> Vec<Step> {
    answer(status, &format!("location: {location}\r\n"), "")
}

async fn good(host: &str, exchanges: Vec<Vec<Step>>) -> Wire {
    Wire::at(&format!("{host}:0"), exchanges).await
}

fn with_credentials(url: &str) -> OutgoingRequest {
    let mut request = get(untrusted(url).unwrap());
    request.headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer s"));
    request.headers.insert(HeaderName::from_static("x-api-key"), HeaderValue::from_static("s"));
    request.headers.insert(ACCEPT, HeaderValue::from_static("text/plain"));
    request
}

fn outside() -> std::sync::Arc<Egress> {
    egress(&["127.0.0.2/31"], fickle(&["127.0.0.1"]))
}

#[tokio::test]
async fn a_redirect_inside_reaches_nobody() {
    let canary = Canary::listen().await;
    let port = canary.port;
    let targets = [
        format!("http://127.0.0.1:{port}/"),
        format!("//127.0.0.1:{port}/"),
        format!("http://[::1]:{port}/"),
        format!("http://2130706433:{port}/"),
        format!("http://name.example:{port}/"),
        format!("http://u:p@127.0.0.3:{port}/"),
        format!("http://169.254.169.254:{port}/latest"),
        "file:///etc/passwd".to_owned(),
        "gopher://127.0.0.3/".to_owned(),
    ];
    for status in ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"] {
        let host = good("127.0.0.2", targets.iter().map(|target| to(status, target)).collect()).await;
        let egress = outside();
        for target in &targets {
            let url = format!("http://{}/", host.address);
            let followed = egress.follow(get(untrusted(&url).unwrap())).await;
            assert!(matches!(followed, Err(Error::Refused(_))), "{status} {target}: {:?}", followed.err());
        }
        assert_eq!(host.waiting(), targets.len(), "{status}: each was told where to go");
    }
    assert_eq!(canary.calls(), 0);
}

#[tokio::test]
async fn three_redirects_are_followed_and_a_fourth_is_not() {
    for hops in [3, 4] {
        let mut exchanges: Vec<_> = (0..hops).map(|hop| to("302 Found", &format!("/{hop}"))).collect();
        exchanges.push(answer("200 OK", "", "there"));
        let host = good("127.0.0.2", exchanges).await;
        let followed = outside().follow(get(untrusted(&format!("http://{}/", host.address)).unwrap())).await;
        match followed {
            Ok((url, mut answer)) => {
                assert_eq!((hops, url.path(), answer.read_up_to(10).await), (3, "/2", b"there".to_vec()));
            }
            Err(error) => assert!(hops == 4 && matches!(error, Error::Refused(_)), "{error}"),
        }
    }
}

#[tokio::test]
async fn another_origin_sees_no_credentials() {
    let mut other = good("127.0.0.3", vec![answer("200 OK", "", "")]).await;
    let exchanges = vec![to("302 Found", "/same"), to("302 Found", &format!("http://{}/", other.address))];
    let mut first = good("127.0.0.2", exchanges).await;
    outside().follow(with_credentials(&format!("http://{}/", first.address))).await.unwrap();
    for _ in 0..2 {
        let request = first.request().await;
        assert_eq!((request.header("authorization"), request.header("x-api-key")), (Some("Bearer s"), Some("s")));
    }
    let request = other.request().await;
    assert_eq!((request.header("authorization"), request.header("x-api-key")), (None, None));
    assert_eq!(request.header("accept"), Some("text/plain"));
}

#[tokio::test]
async fn a_body_stays_where_it_was_sent() {
    let mut other = good("127.0.0.3", vec![answer("200 OK", "", "")]).await;
    let away = format!("http://{}/", other.address);
    let first = good("127.0.0.2", vec![to("307 Temporary", &away), to("303 See Other", &away)]).await;
    let egress = outside();
    let url = format!("http://{}/", first.address);
    let with_body = || OutgoingRequest { method: Method::POST, body: "secret".into(), ..get(untrusted(&url).unwrap()) };
    let kept = egress.follow(with_body()).await;
    assert!(matches!(kept, Err(Error::Refused(_))), "{:?}", kept.err());
    let followed = egress.follow(with_body()).await;
    assert_eq!(followed.unwrap().1.status(), 200);
    let request = other.request().await;
    assert!(request.line.starts_with("GET /"), "{}", request.line);
    assert_eq!(request.header("content-length"), None);
}
