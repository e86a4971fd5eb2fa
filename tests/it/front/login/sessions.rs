//! The list of people's sessions.

use serde_json::{Value, json};

use super::Desk;
use crate::front::people::now;
use crate::support::http::{Ask, Said};

const BOSS: &str = "boss-0123456789abcdef0123456789ab";
const READER: &str = "reader-0123456789abcdef0123456789";
const STRANGER: &str = "stranger-0123456789abcdef0123456";

struct Admins {
    desk: Desk,
}

impl Admins {
    async fn new() -> Self {
        let desk = Desk::with(|config| {
            let keys = [format!("one/boss:admin:{BOSS}"), format!("one/reader:read+run+approve:{READER}")];
            let keys = keys.into_iter().chain([format!("two/stranger:admin:{STRANGER}")]);
            config.auth.keys = keys.map(|key| key.parse().unwrap()).collect();
        })
        .await;
        Self { desk }
    }

    async fn ask(&self, key: &str, method: &str, query: &str) -> Said {
        Ask::new(self.desk.app.address, method, &format!("/sessions{query}")).key(key).send().await
    }

    fn name(&self, sub: &str) -> String {
        format!("{}#{sub}", self.desk.issuer.url)
    }

    fn named(&self, sub: &str) -> String {
        url::form_urlencoded::byte_serialize(self.name(sub).as_bytes()).collect()
    }

    /// The names in a list, sorted.
    fn names(list: &Value) -> Vec<String> {
        let items = list["items"].as_array().unwrap();
        let mut names: Vec<String> = items.iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }
}

#[tokio::test]
async fn an_administrator_sees_the_sessions_of_the_people_of_the_tenant() {
    let admins = Admins::new().await;
    for sub in ["eve", "bob", "eve"] {
        admins.desk.sign_in(&json!({ "sub": sub })).await;
    }
    let all = admins.ask(BOSS, "GET", "").await.expect(200);
    assert_eq!(Admins::names(&all), ["bob", "eve", "eve"].map(|sub| admins.name(sub)));
    assert!(all.get("nextCursor").is_none(), "{all:#}");

    let of_bob = admins.ask(BOSS, "GET", &format!("?name={}", admins.named("bob"))).await.expect(200);
    let expires_at = of_bob["items"][0]["expiresAt"].as_i64().unwrap();
    let left = expires_at / 1000 - now();
    assert!((43_000..=43_200).contains(&left), "{left}");
    let bob =
        json!({ "name": admins.name("bob"), "issuer": "corp", "scopes": ["read", "run"], "expiresAt": expires_at });
    assert_eq!(of_bob, json!({ "items": [bob] }));
    let of_ann = admins.ask(BOSS, "GET", &format!("?name={}", admins.named("ann"))).await.expect(200);
    assert_eq!(of_ann, json!({ "items": [] }));

    let first = admins.ask(BOSS, "GET", "?limit=2").await.expect(200);
    let cursor = first["nextCursor"].as_str().unwrap();
    let second = admins.ask(BOSS, "GET", &format!("?limit=2&cursor={cursor}")).await.expect(200);
    assert_eq!((first["items"].as_array().unwrap().len(), second["items"].as_array().unwrap().len()), (2, 1));

    assert_eq!(admins.ask(STRANGER, "GET", "").await.expect(200), json!({ "items": [] }));
    assert_eq!(admins.ask(READER, "GET", "").await.problem("forbidden")["scope"], "admin");
    admins.ask(BOSS, "DELETE", &format!("?name={}", admins.named("eve"))).await.expect(200);
    let left = admins.ask(BOSS, "GET", "").await.expect(200);
    assert_eq!(Admins::names(&left), [admins.name("bob")]);
}

#[tokio::test]
async fn sessions_are_only_looked_for_under_a_name_that_a_person_may_have() {
    let admins = Admins::new().await;
    let url = admins.desk.issuer.url.clone();
    // An unescaped `#` ends the address that a client sends.
    let (empty, other) = (format!("{url}%23"), format!("{url}%2F%23eve"));
    for name in ["boss", "", "https%3A%2F%2Fevil.example%23eve", url.as_str(), empty.as_str(), other.as_str()] {
        for method in ["GET", "DELETE"] {
            let refused = admins.ask(BOSS, method, &format!("?name={name}")).await.problem("invalid");
            assert_eq!(refused["errors"][0]["pointer"], "?name", "{method} {name}");
        }
    }
    let long = format!("{url}%23{}", "a".repeat(256));
    admins.ask(BOSS, "DELETE", &format!("?name={long}")).await.problem("invalid");
    admins.ask(BOSS, "DELETE", &format!("?name={}", admins.named("nobody"))).await.expect(200);
}
