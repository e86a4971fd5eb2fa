use super::*;

#[test]
fn a_models_own_price_stands_above_its_providers() {
    let price = |n: f64| Price { input_per_million: n, ..Price::default() };
    let prices = Prices::new(BTreeMap::from([("p:a".to_owned(), price(1.0)), ("p:*".to_owned(), price(2.0))]));
    assert_eq!(prices.of("p", "a"), Some(price(1.0)));
    assert_eq!(prices.of("p", "b"), Some(price(2.0)));
    assert_eq!(prices.of("q", "a"), None);
}
