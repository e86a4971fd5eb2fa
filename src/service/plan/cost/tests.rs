use super::*;

fn page(sums: &[(&str, &str, Nanos, u64)]) -> Page<UsageSum> {
    let sum = |&(key, sub, cost_nanos, unpriced): &(&str, &str, Nanos, u64)| UsageSum {
        key: key.to_owned(),
        sub: sub.to_owned(),
        calls: 2,
        cost_nanos,
        unpriced,
        ..UsageSum::default()
    };
    Page { items: sums.iter().map(sum).collect(), next_cursor: None }
}

#[test]
fn items_of_runs_with_another_model_or_without_a_price_do_not_count() {
    let models = [("r1", "a:m", 9, 0), ("r2", "a:m", 9, 0), ("r2", "b:m", 9, 0), ("r3", "b:m", 9, 0)];
    let items = [
        ("r1", "", 70, 0),
        ("r1", "x", 5, 0),
        ("r1", "y", 3, 0),
        ("r1", "z", 1, 1),
        ("r2", "x", 90, 0),
        ("r3", "x", 40, 0),
    ];
    let past = Past { models: page(&models), items: page(&items) };
    let (basis, tenths) = past.of_model("a:m");
    assert_eq!(basis, CostBasis { days: DAYS, items: 2, calls: 4, unpriced_items: 1 });
    assert_eq!(tenths, Some((3, 5)));
    assert_eq!(past.of_model("c:m"), (CostBasis { days: DAYS, ..CostBasis::default() }, None));
}

#[test]
fn the_cheapest_and_the_dearest_tenth_are_left_out() {
    let items: Vec<(String, Nanos)> = (0..20).map(|n| (format!("i{n}"), n)).collect();
    let items: Vec<_> = items.iter().map(|(id, cost)| ("r1", id.as_str(), *cost, 0)).collect();
    let past = Past { models: page(&[("r1", "a:m", 0, 0)]), items: page(&items) };
    assert_eq!(past.of_model("a:m").1, Some((2, 18)));
}

#[test]
fn a_run_at_which_the_page_ends_is_left_out() {
    let mut past = Past {
        models: page(&[("r1", "a:m", 0, 0), ("r2", "a:m", 0, 0)]),
        items: page(&[("r1", "x", 1, 0), ("r2", "x", 2, 0)]),
    };
    assert_eq!(past.of_model("a:m").0.items, 2);
    past.models.next_cursor = Some("more".to_owned());
    assert_eq!(past.of_model("a:m").0.items, 1);
}
