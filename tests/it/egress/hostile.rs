//! URLs of internal addresses are refused in every place that takes a URL.

use std::sync::Arc;

use pes::config::Mcp;
use pes::domain::tool::ToolSpec;
use pes::egress::{Egress, Error};
use pes::mcp::{Catalog, Health, Parts};
use pes::store::documents::{Change, DocumentCache, DocumentKind, Expected};
use pes::tool::http::HttpTool;
use pes::tool::{Tool, builtin};
use serde_json::json;

use super::{Canary, egress, fickle, get, untrusted};
use crate::mcp::bed::caller;
use crate::support::http::soon;
use crate::support::store::fresh_store;
use crate::support::tool::{context, spec};

/// Every notation of an internal address, with the port of a listener there.
fn urls(port: u16) -> Vec<String> {
    let hosts = [
        // Loopback, plain and disguised.
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "127.0.0.1.",
        "127.255.255.254",
        "0",
        "0.0.0.0",
        "0.0.0.0.",
        "0x7f.0.0.1",
        "0x7f000001",
        "0x7F.1",
        "0177.0.0.1",
        "0177.0.0.01",
        "017700000001",
        "2130706433",
        "00000177.0.0.1",
        "0x7f.0x0.0x0.0x1",
        "127.0.0.0x1",
        "%31%32%37.0.0.1",
        "127%2e0%2e0%2e1",
        "①②⑦.⓪.⓪.①",
        "１２７.０.０.１",
        "127。0。0。1",
        "127．0．0．1",
        "localhost",
        "LOCALHOST",
        "localhost.",
        "foo.localhost",
        "ⓛocalhost",
        "localhos𝐭",
        "localhost.localdomain",
        "ip6-localhost",
        "loopback.example",
        "127.0.0.1.nip.example",
        "xn--lcalhost-n4a.example",
        // The same in IPv6.
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[0000:0000:0000:0000:0000:0000:0000:0001]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[::7f00:1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b:1::7f00:1]",
        "[2002:7f00:1::]",
        "[2002:7f00:1::1]",
        "[2001::1]",
        "[2001:0:0:0:0:0:80ff:fffe]",
        "[fe80::1]",
        "[fec0::1]",
        "[fc00::1]",
        "[fd00:ec2::254]",
        "[ff02::1]",
        "[::ffff:0:127.0.0.1]",
        "[2001:db8::1]",
        "[3fff::1]",
        "[100::1]",
        "[5f00::1]",
        // Private, shared, metadata and the rest.
        "10.0.0.1",
        "10.255.255.255",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.0.1",
        "0xa000001",
        "012.0.0.1",
        "100.64.0.1",
        "100.100.100.200",
        "169.254.169.254",
        "0xa9fea9fe",
        "2852039166",
        "0251.0376.0251.0376",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "metadata.google.internal",
        "instance-data",
        "168.63.129.16",
        "192.0.0.192",
        "192.0.2.1",
        "198.18.0.1",
        "198.51.100.7",
        "203.0.113.7",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
    ];
    let mut urls: Vec<String> = hosts.iter().map(|host| format!("http://{host}:{port}/")).collect();
    let whole = [
        "http://user:password@127.0.0.1:PORT/",
        "http://example.com@127.0.0.1:PORT/",
        "http://127.0.0.1:PORT@example.com/",
        "http://127.0.0.1:PORT#@example.com/",
        "http://127.0.0.1:PORT\\@example.com/",
        "http:\\\\127.0.0.1:PORT\\",
        "http:127.0.0.1:PORT",
        "http:/127.0.0.1:PORT/",
        "http:///127.0.0.1:PORT/",
        " http://127.0.0.1:PORT/ ",
        "http://127.0.0.1\t:PORT/",
        "ht\ntp://127.0.0.1:PORT/",
        "HTTP://127.0.0.1:PORT/",
        "https://127.0.0.1:PORT/",
        "http://example.com:25/",
        "http://example.com:22/",
        "http://example.com:0/",
        "ftp://127.0.0.1:PORT/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:PORT/_x",
        "ws://127.0.0.1:PORT/",
        "unix:///run/docker.sock",
        "data:text/plain,x",
        "javascript:alert(1)",
        "jar:http://127.0.0.1:PORT!/",
        "//127.0.0.1:PORT/",
        "127.0.0.1:PORT",
        "dict://127.0.0.1:PORT/",
        "ldap://127.0.0.1:PORT/",
        "http://[::1%25lo]:PORT/",
        "http://[fe80::1%25eth0]:PORT/",
        "http://[::ffff:127.0.0.1]:PORT/latest/meta-data/",
    ];
    urls.extend(whole.iter().map(|url| url.replace("PORT", &port.to_string())));
    urls
}

fn service(url: &str, egress: &Arc<Egress>) -> Option<HttpTool> {
    let spec = ToolSpec { input_schema: json!({}), timeout_ms: 5_000, ..spec("service") };
    Some(HttpTool::new(spec, untrusted(url)?, Ok(Vec::new()), egress.clone(), 1_000))
}

#[tokio::test]
async fn a_hostile_url_reaches_nobody_from_any_place_that_takes_one() {
    let canary = Canary::listen().await;
    let urls = urls(canary.port);
    assert!(urls.len() >= 80, "{}", urls.len());
    let egress = egress(&[], fickle(&["127.0.0.1", "::1", "127.0.0.1 93.184.216.34", "93.184.216.34 127.0.0.1"]));
    let fetch = builtin::calling_out(&egress).remove(0);
    for url in &urls {
        let fetched = fetch.call(json!({ "url": url }), context()).await.expect_err(url);
        assert!(["egress_refused", "invalid_arguments"].contains(&fetched.code.as_str()), "{url}: {fetched:?}");
        let Some(to) = untrusted(url) else { continue };
        assert!(matches!(egress.send(get(to.clone())).await, Err(Error::Refused(_))), "{url}");
        assert!(matches!(egress.follow(get(to)).await, Err(Error::Refused(_))), "{url}");
        let called = service(url, &egress).unwrap().call(json!({}), context()).await.expect_err(url);
        assert_eq!(called.code, "egress_refused", "{url}: {called:?}");
    }
    assert_eq!(canary.calls(), 0);
}

/// Written directly to the store, past the checks of a tenant's request.
#[tokio::test]
async fn an_mcp_server_at_a_hostile_url_is_never_reached() {
    let canary = Canary::listen().await;
    let egress = egress(&[], fickle(&["127.0.0.1", "::1", "127.0.0.1 93.184.216.34", "93.184.216.34 127.0.0.1"]));
    let documents = DocumentCache::open(fresh_store().await).await.unwrap();
    let hostile: Vec<String> = urls(canary.port).into_iter().filter(|url| untrusted(url).is_some()).collect();
    assert!(hostile.len() >= 80, "{}", hostile.len());
    for (at, url) in hostile.iter().enumerate() {
        let (id, kind) = (format!("s{at}"), DocumentKind::McpServer);
        let body = Some(json!({ "name": id, "url": url }));
        let change = Change {
            tenant: caller().tenant,
            kind,
            id,
            body,
            by: "ann".to_owned(),
            former: None,
            by_tenant: None,
            why: None,
            now: 0,
        };
        documents.write(change, Expected::Absent).await.unwrap();
    }
    let catalog = Catalog::start(Parts { config: Mcp::default(), documents, egress, now: Arc::new(|| 0) });
    let mut offers = catalog.offers();
    let is_over = |catalog: &Catalog| {
        let seen = catalog.list(&caller());
        seen.len() == hostile.len() && seen.iter().all(|view| view.health == Health::Down)
    };
    while !is_over(&catalog) {
        soon(offers.changed()).await.unwrap();
    }
    for view in catalog.list(&caller()) {
        let why = view.reason.unwrap_or_default();
        assert!(why.contains("refused"), "{:?}: {why}", view.settings);
    }
    assert_eq!(canary.calls(), 0);
    catalog.close();
}

#[tokio::test]
async fn a_url_is_judged_when_it_is_written_as_far_as_that_can_be() {
    let egress = egress(&[], fickle(&["127.0.0.1"]));
    let judged = |url: &str| egress.judge(&untrusted(url).unwrap()).is_ok();
    assert!(judged("https://example.com/hook") && judged("https://[2606:4700::1111]:8443/"));
    assert!(!judged("http://10.0.0.1/") && !judged("https://user@example.com/") && !judged("ftp://example.com/"));
}
