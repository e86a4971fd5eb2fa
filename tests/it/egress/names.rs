//! Host names that resolve to another address at the next look-up.

use std::sync::atomic::Ordering;

use pes::egress::Error;

use super::{Canary, egress, fickle, get, untrusted};
use crate::support::wire::{Wire, answer};

/// One address is allowed here, the other is not: only the address that was checked is ever connected to.
#[tokio::test]
async fn a_name_that_changes_its_mind_reaches_only_what_was_checked() {
    let canary = Canary::listen().await;
    let closing = || answer("200 OK", "connection: close\r\n", "good");
    let good = Wire::at(&format!("127.0.0.2:{}", canary.port), (0..20).map(|_| closing()).collect()).await;
    let names = fickle(&["127.0.0.2", "127.0.0.1"]);
    let egress = egress(&["127.0.0.2/32"], names.clone());
    let url = format!("http://rebinding.example:{}/", canary.port);
    for _ in 0..10 {
        let mut first = egress.send(get(untrusted(&url).unwrap())).await.expect("it leads to the good one");
        assert_eq!(first.read_up_to(10).await, b"good");
        let second = egress.send(get(untrusted(&url).unwrap())).await;
        assert!(matches!(second, Err(Error::Refused(_))), "it leads inside: {:?}", second.err());
    }
    assert_eq!(names.asked.load(Ordering::SeqCst), 20, "one look-up a connection: none after the check");
    assert_eq!((good.connections(), canary.calls()), (10, 0));
}

#[tokio::test]
async fn one_bad_address_among_good_ones_condemns_a_name() {
    let canary = Canary::listen().await;
    let good = Wire::at(&format!("127.0.0.2:{}", canary.port), vec![answer("200 OK", "", "")]).await;
    let egress = egress(&["127.0.0.2"], fickle(&["127.0.0.2 127.0.0.1"]));
    let url = format!("http://both.example:{}/", canary.port);
    let sent = egress.send(get(untrusted(&url).unwrap())).await;
    assert!(matches!(sent, Err(Error::Refused(_))));
    assert_eq!((good.connections(), canary.calls()), (0, 0));
}
