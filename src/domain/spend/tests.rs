use super::*;

#[test]
fn periods_begin_at_midnight_and_on_the_first() {
    // 2026-12-31T23:59:59.999Z and a millisecond later.
    let (last, first) = (1_798_761_599_999, 1_798_761_600_000);
    assert_eq!(
        (Capped::TenantDay.period(last), Capped::KeyDay.period(first)),
        ("2026-12-31".into(), "2027-01-01".into())
    );
    assert_eq!(
        (Capped::TenantMonth.period(last), Capped::TenantMonth.period(first)),
        ("2026-12".into(), "2027-01".into())
    );
    for capped in Capped::ALL {
        assert_eq!(capped.ends_at(last), first, "{capped:?}");
    }
    assert_eq!(Capped::TenantDay.ends_at(first), first + 86_400_000);
    assert_eq!(Capped::TenantMonth.ends_at(first), first + 31 * 86_400_000);
    let words = Capped::KeyMonthTokens.words(500, last);
    assert_eq!(words, "the cap of 500 tokens a month of the key is reached until 2027-01-01T00:00:00Z");
    let words = Capped::TenantDay.words(5_500_000_000, last);
    assert_eq!(words, "the cap of 5.5 US dollars a day of the tenant is reached until 2027-01-01T00:00:00Z");
    let words = Capped::TenantDayTokens.words_of_too_little(100, 250);
    assert_eq!(
        words,
        "the cap of 100 tokens a day of the tenant is less than the first model call needs, which is 250 tokens; raise it"
    );
}

#[test]
fn a_part_of_a_cap_is_reached_when_no_less_is_used() {
    assert_eq!((part_of(100, 80), part_of(1, 80), part_of(11, 80), part_of(11, 100)), (80, 1, 9, 11));
    let most = nanos(MAX_USD);
    assert_eq!((part_of(most, 80), part_of(most, 100)), (most / 5 * 4, most));
}

#[test]
fn each_cap_has_a_place_of_its_own() {
    let each = Capped::ALL.map(|capped| {
        let caps = SpendCaps::new(|other| (other == capped).then_some(7));
        assert!(Capped::ALL.into_iter().all(|other| other.is_in(caps.set()) == (other == capped)), "{capped:?}");
        let of_a_tenant = (capped.spender() != Spender::Server).then_some(7);
        assert_eq!(TenantCaps::from(caps).of(capped), of_a_tenant, "{capped:?}");
        let period = capped.period(0);
        assert_eq!(Capped::of_period(&period, capped.unit(), capped.spender()), Some(capped));
        caps.set().0
    });
    assert_eq!(each, std::array::from_fn(|place| 1 << place), "as stored sets have them");
}
