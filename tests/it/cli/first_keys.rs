//! What the first key of a server locks, what then helps, and whose the next ones are.

use std::process::Output;

use super::run;
use super::serving::{serve, text};

/// Its output; it must succeed.
#[track_caller]
fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn what_a_first_key_without_admin_advises_makes_the_key_that_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let offline = |arguments: &[&str]| run(folder.path(), arguments, &[("PORT", "1")]);
    let first = offline(&["keys", "new", "--tenant", "acme", "--scopes", "read,run,approve"]);
    let told = text(&first.stderr);
    let advice = told.split('`').find(|quoted| quoted.starts_with("pes keys new")).unwrap();
    assert_eq!(advice, "pes keys new --tenant acme --scopes admin", "{told}");
    let admin = said(&offline(&advice.split_whitespace().skip(1).collect::<Vec<_>>()));
    let _served = serve(folder.path(), &[]);
    let token = [("PES_TOKEN", admin.trim())];
    assert_eq!(said(&run(folder.path(), &["keys", "ls"], &token)).lines().count(), 2);
    assert!(said(&run(folder.path(), &["keys", "new", "--tenant", "acme"], &token)).starts_with("pes_"));
}

#[test]
fn why_a_tenant_adopts_nothing_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let offline = |arguments: &[&str]| run(folder.path(), arguments, &[("PORT", "1")]);
    let refused = |expected: &str| {
        let output = offline(&["keys", "adopt", "acme"]);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), format!("pes: {expected}\n")));
    };
    let first = offline(&["keys", "new", "--tenant", "acme"]);
    let told = text(&first.stderr);
    assert!(told.contains("run `pes keys adopt acme`, before anything is made with this key"), "{told}");
    refused("there is nothing to adopt: what is made without keys belongs to the tenant `default`, and there is none");
    let served = serve(folder.path(), &[]);
    said(&run(folder.path(), &["run", "hello", "-d"], &[("PES_TOKEN", said(&first).trim())]));
    assert_eq!(served.stop().0, Some(0));
    refused(
        "`acme` has threads or settings of its own, and the data of two tenants is never merged; name a tenant that has none",
    );
}

/// What is told of the key after its id, once it was made.
#[track_caller]
fn told_of(made: &Output) -> String {
    said(made);
    let told = text(&made.stderr);
    let told = told.lines().last().unwrap_or_default();
    told.split_once("  ").unwrap_or_else(|| panic!("{told}")).1.to_owned()
}

#[test]
fn a_key_without_a_named_tenant_is_of_the_tenant_whose_key_asks_or_of_the_only_one() {
    let folder = tempfile::tempdir().unwrap();
    let offline = |arguments: &[&str]| run(folder.path(), arguments, &[("PORT", "1")]);
    let boss = offline(&["keys", "new", "--tenant", "acme", "--name", "boss"]);
    assert_eq!(told_of(&boss), "acme  admin  boss  ends never (shown only now)");
    let bob = offline(&["keys", "new", "--name", "bob"]);
    assert_eq!(told_of(&bob), "acme  read+run+approve  bob  ends never (shown only now)");

    let served = serve(folder.path(), &[]);
    let boss = said(&boss);
    let asked =
        run(folder.path(), &["keys", "new", "--name", "eve", "--scopes", "read"], &[("PES_TOKEN", boss.trim())]);
    assert_eq!(told_of(&asked), "acme  read  eve  ends never (shown only now)");
    assert_eq!(served.stop().0, Some(0));

    said(&offline(&["keys", "new", "--tenant", "zeta"]));
    let several = offline(&["keys", "new"]);
    let expected = "pes: There are keys of the tenants acme, zeta. Name one: pes keys new --tenant TENANT\n";
    assert_eq!((several.status.code(), text(&several.stderr)), (Some(2), expected.to_owned()));
}
