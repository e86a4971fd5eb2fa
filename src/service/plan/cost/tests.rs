use super::*;
use crate::domain::model::Usage;

fn call(run: &str, item: &str, model: &str, cost_nanos: Option<Nanos>) -> ModelUse {
    ModelUse {
        run: run.into(),
        item: (!item.is_empty()).then(|| item.into()),
        provider: "a".to_owned(),
        model: model.to_owned(),
        usage: Usage::default(),
        cost_nanos,
    }
}

#[test]
fn items_of_runs_with_another_model_or_without_a_price_do_not_count() {
    let calls = vec![
        call("r1", "x", "m", Some(2)),
        call("r1", "y", "m", Some(3)),
        call("r1", "z", "m", None),
        call("r1", "z", "m", Some(1)),
        call("r1", "x", "m", Some(3)),
        call("r1", "", "m", Some(70)),
        call("r2", "", "n", Some(9)),
        call("r2", "x", "m", Some(90)),
        call("r3", "x", "n", Some(40)),
    ];
    let past = PastCalls { calls, are_older: false };
    let (basis, tenths) = past.of_model("a", "m");
    assert_eq!(basis, CostBasis { days: DAYS, items: 2, calls: 3, unpriced_items: 1 });
    assert_eq!(tenths, Some((3, 5)));
    for (provider, model) in [("a", "o"), ("b", "m")] {
        assert_eq!(past.of_model(provider, model), (CostBasis { days: DAYS, ..CostBasis::default() }, None));
    }
}

#[test]
fn the_cheapest_and_the_dearest_tenth_are_left_out() {
    let calls = (0..20).map(|n| call("r1", &format!("i{n}"), "m", Some(n))).collect();
    assert_eq!(PastCalls { calls, are_older: false }.of_model("a", "m").1, Some((2, 18)));
}

#[test]
fn a_run_that_may_have_begun_before_what_is_known_is_left_out() {
    let calls = [("r2", "x"), ("r1", ""), ("r1", "x"), ("r2", ""), ("r1", "x")];
    let calls: Vec<_> = calls.iter().map(|(run, item)| call(run, item, "m", Some(1))).collect();
    assert_eq!(PastCalls { calls: calls.clone(), are_older: false }.of_model("a", "m").0.items, 2);
    let (basis, _) = PastCalls { calls, are_older: true }.of_model("a", "m");
    assert_eq!((basis.items, basis.calls), (1, 1));
}
