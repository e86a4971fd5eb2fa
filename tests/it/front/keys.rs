//! `/keys`: the list of a tenant's keys, which has pages.

use pes::config::ConfiguredKey;
use serde_json::{Value, json};

use crate::support::app::App;

const BOSS: &str = "boss-0123456789abcdef0123456789ab";

#[tokio::test]
async fn keys_are_listed_page_by_page_and_all_of_them_if_they_fit_on_one() {
    let boss: ConfiguredKey = format!("default/boss:admin:{BOSS}").parse().unwrap();
    let app = App::with(|config| config.auth.keys = vec![boss]).await;
    let get = async |path: &str| app.ask("GET", path).key(BOSS).send().await;
    for n in 0..60 {
        let new = json!({ "tenant": "default", "name": format!("key {n}"), "scopes": ["read"] });
        app.ask("POST", "/keys").key(BOSS).json(&new).send().await.expect(201);
    }
    let whole = get("/keys").await.expect(200);
    let configured = json!([{ "name": "boss", "scopes": ["admin"] }]);
    let items = whole["items"].as_array().unwrap();
    assert_eq!((items.len(), whole.get("nextCursor"), &whole["configured"]), (60, None, &configured));

    let (mut paged, mut path): (Vec<Value>, _) = (Vec::new(), "/keys?limit=25".to_owned());
    for size in [25, 25, 10] {
        let page = get(&path).await.expect(200);
        assert_eq!((page["items"].as_array().unwrap().len(), &page["configured"]), (size, &configured));
        paged.extend(page["items"].as_array().unwrap().iter().cloned());
        path = format!("/keys?limit=25&cursor={}", page["nextCursor"].as_str().unwrap_or_default());
    }
    assert_eq!(&paged, items);
    get(&path).await.problem("invalid");
    get("/keys?limit=1001").await.problem("invalid");
}
