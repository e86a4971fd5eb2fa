//! What a browser shows of a sign-in: the page with a problem, or the part of it that the person came for.

use serde_json::json;

use super::{Desk, Sent, cookies};
use crate::support::http::Said;

/// What Chromium accepts of a page.
const HTML: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8";

impl Desk {
    /// A browser comes back.
    async fn shown(&self, cookie: &str, query: &str) -> Said {
        let path = format!("/session/oidc/corp/callback?{query}");
        self.ask(&path).header("cookie", cookie).header("accept", HTML).send().await
    }

    /// The page says this problem, and nothing of the login is left in the browser.
    async fn fails(&self, sent: &Sent, query: &str, problem: &str) {
        let said = self.shown(&sent.cookie, query).await;
        let page = format!("/#/login?problem={problem}&to=%23%2Fusage");
        assert_eq!((said.status, said.header("location")), (303, Some(page.as_str())), "{}", said.text());
        let (name, _) = sent.cookie.split_once('=').unwrap();
        let forgotten = format!("{name}=; Path=/session/oidc; Max-Age=0; HttpOnly; SameSite=Lax");
        assert_eq!(cookies(&said), [forgotten]);
    }
}

fn state(sent: &Sent) -> String {
    format!("state={}", sent.asked["state"])
}

#[tokio::test]
async fn a_browser_is_told_on_the_page_why_nobody_was_signed_in() {
    let desk = Desk::open().await;
    let begin = async || desk.begin_for("?to=%23%2Fusage").await;
    for error in ["access_denied", "%3Cscript%3Ealert(1)%3C/script%3E%0D%0Ax:%20y"] {
        let sent = begin().await;
        desk.fails(&sent, &format!("{}&error={error}", state(&sent)), "denied").await;
    }
    let sent = begin().await;
    desk.fails(&sent, &state(&sent), "unauthorized").await;
    let sent = begin().await;
    desk.grant(&sent, &json!({ "nonce": "other" }));
    desk.fails(&sent, &Desk::good(&sent), "unauthorized").await;
    let sent = begin().await;
    desk.issuer.state.lock().tokens = json!({ "error": "invalid_grant" });
    desk.fails(&sent, &Desk::good(&sent), "issuer_unavailable").await;
    let sent = begin().await;
    desk.grant(&sent, &json!({}));
    assert_eq!(desk.shown(&sent.cookie, &Desk::good(&sent)).await.header("location"), Some("/#/usage"));
    desk.fails(&sent, &Desk::good(&sent), "over").await;

    // What the person came for is not known here.
    let said = desk.shown("theme=dark", &Desk::good(&sent)).await;
    assert_eq!((said.status, said.header("location")), (303, Some("/#/login?problem=over")));
    let said = desk.shown("theme=dark", "code=c0de&state=%0D%0Ax:%20y%C3%A4").await;
    assert_eq!((said.status, said.header("location"), said.header("x")), (303, Some("/#/login?problem=over"), None));
    assert_eq!(cookies(&said), Vec::<&str>::new());

    let begun = async |desk: &Desk, name: &str| {
        let path = format!("/session/oidc/{name}?to=%23%2Fusage");
        desk.ask(&path).header("accept", HTML).send().await.header("location").map(str::to_owned)
    };
    let page = |problem: &str| Some(format!("/#/login?problem={problem}&to=%23%2Fusage"));
    assert_eq!(begun(&desk, "nobody").await, page("not_found"));
    let desk = Desk::open().await;
    desk.issuer.state.lock().is_down = true;
    assert_eq!(begun(&desk, "corp").await, page("issuer_unavailable"));
}

#[tokio::test]
async fn nobody_is_signed_in_to_whom_the_issuer_gives_no_rights() {
    let desk = Desk::open().await;
    for (scope, is_let_in) in [("openid", false), ("openid operator", false), ("openid read", true)] {
        let sent = desk.begin_for("?to=%23%2Fusage").await;
        desk.grant(&sent, &json!({}));
        desk.issuer.state.lock().tokens["scope"] = json!(scope);
        if is_let_in {
            assert_eq!(desk.back(&sent.cookie, &Desk::good(&sent)).await.header("location"), Some("/#/usage"));
            continue;
        }
        desk.fails(&sent, &Desk::good(&sent), "forbidden").await;
        let sent = desk.begin().await;
        desk.grant(&sent, &json!({}));
        desk.issuer.state.lock().tokens["scope"] = json!(scope);
        let problem = desk.back(&sent.cookie, &Desk::good(&sent)).await.problem("forbidden");
        assert_eq!(
            problem["detail"],
            "The issuer gives this person no rights here: the claim `scope` has none of read, run, approve, admin. Ask \
             who runs the issuer."
        );
    }
}

#[tokio::test]
async fn nobody_is_signed_in_to_a_tenant_that_was_removed() {
    const OPS: &str = "key-o-0123456789abcdef0123456789";
    let desk = Desk::with(|config| config.auth.keys.push(format!("ops/ops:operator:{OPS}").parse().unwrap())).await;
    let sent = desk.begin().await;
    desk.grant(&sent, &json!({}));
    assert_eq!(desk.shown(&sent.cookie, &Desk::good(&sent)).await.header("location"), Some("/"));
    desk.app.ask("DELETE", "/tenants/one").key(OPS).send().await.expect(202);
    let sent = desk.begin_for("?to=%23%2Fusage").await;
    desk.grant(&sent, &json!({}));
    desk.fails(&sent, &Desk::good(&sent), "forbidden").await;
}

#[tokio::test]
async fn nobody_is_signed_in_to_a_tenant_that_the_issuer_may_not_name() {
    let desk = Desk::with(|config| {
        let corp = config.auth.oidc.get_mut("corp").unwrap();
        (corp.tenant, corp.tenant_claim) = (None, Some("org".to_owned()));
        corp.tenants = Some(vec!["team-*".to_owned()]);
    })
    .await;
    let sent = desk.begin_for("?to=%23%2Fusage").await;
    desk.grant(&sent, &json!({ "org": "ops" }));
    desk.fails(&sent, &Desk::good(&sent), "forbidden").await;
    let sent = desk.begin().await;
    desk.grant(&sent, &json!({ "org": "team-a" }));
    assert_eq!(desk.shown(&sent.cookie, &Desk::good(&sent)).await.header("location"), Some("/"));
}

#[tokio::test]
async fn logins_in_several_tabs_do_not_replace_each_other() {
    let desk = Desk::open().await;
    let tabs = [desk.begin().await, desk.begin().await];
    let both = format!("{}; {}", tabs[0].cookie, tabs[1].cookie);
    for sent in &tabs {
        desk.grant(sent, &json!({}));
        let said = desk.back(&both, &Desk::good(sent)).await;
        assert_eq!((said.status, said.header("location")), (303, Some("/")), "{}", said.text());
        let (name, _) = sent.cookie.split_once('=').unwrap();
        assert!(cookies(&said)[1].starts_with(&format!("{name}=;")), "{said:?}");
    }
}

#[tokio::test]
async fn a_browser_has_five_logins_at_a_time_and_forgets_the_first() {
    let desk = Desk::open().await;
    let mut sent = Vec::new();
    for _ in 0..5 {
        sent.push(desk.begin().await.cookie);
    }
    for (had, forgotten) in [(0, 0), (4, 0), (5, 1)] {
        let said = desk.ask("/session/oidc/corp").header("cookie", &sent[..had].join("; ")).send().await;
        let set = cookies(&said);
        assert_eq!(set.len(), 1 + forgotten, "{had}: {set:?}");
        assert!(set[0].contains("; Max-Age=600; "), "{set:?}");
        if forgotten == 1 {
            let (name, _) = sent[0].split_once('=').unwrap();
            assert_eq!(set[1], format!("{name}=; Path=/session/oidc; Max-Age=0; HttpOnly; SameSite=Lax"));
        }
    }
}

/// An approver follows the link to a question.
#[tokio::test]
async fn a_sign_in_leads_back_to_the_part_of_the_page_that_one_came_for() {
    let desk = Desk::open().await;
    for (to, location) in [
        ("%23%2Fquestions%2Fsus_1%3Fa%3Db", "/#/questions/sus_1?a=b"),
        ("https%3A%2F%2Fevil.example%2F", "/"),
        ("%2F%2Fevil.example%2F%23%2Fusage", "/"),
        ("%23usage", "/"),
        ("%23%2F%0D%0Ax%3A%20y", "/"),
    ] {
        let sent = desk.begin_for(&format!("?to={to}")).await;
        desk.grant(&sent, &json!({}));
        let said = desk.back(&sent.cookie, &Desk::good(&sent)).await;
        assert_eq!((said.status, said.header("location")), (303, Some(location)), "{to}: {}", said.text());
    }
    let unknown = desk.ask("/session/oidc/corp?next=%23%2Fusage").send().await.problem("invalid");
    assert_eq!(unknown["errors"][0]["pointer"], "?next");
}
