use super::*;
use crate::store::documents::KeySource;

#[test]
fn a_token_speaks_for_its_task_of_its_tenant_under_its_key_and_for_nothing_else() {
    let sealer = |text: &str| Sealer::new(KeySource::Given(text.to_owned().into()));
    let (task, other) = (TaskId::from("task_1"), TaskId::from("task_2"));
    let mine = token(&sealer("key"), TenantPk(7), &task).unwrap();
    assert_eq!(mine, token(&sealer("key"), TenantPk(7), &task).unwrap(), "sent again, it is the same");
    assert_eq!(check(&sealer("key"), &task, &mine), Some(TenantPk(7)));
    assert_eq!(check(&sealer("key"), &other, &mine), None);
    assert_eq!(check(&sealer("other"), &task, &mine), None);
    let theirs = token(&sealer("key"), TenantPk(8), &task).unwrap();
    assert_eq!(check(&sealer("key"), &task, &theirs), Some(TenantPk(8)), "and a foreign task is not found by it");
    let mut forged = BASE64_URL_SAFE_NO_PAD.decode(&mine).unwrap();
    forged[7] ^= 1;
    assert_eq!(check(&sealer("key"), &task, &BASE64_URL_SAFE_NO_PAD.encode(&forged)), None);
    for short in ["", "AAAA", &mine[..20], &format!("{mine}A")] {
        assert_eq!(check(&sealer("key"), &task, short), None);
    }
}
