//! Which item works next where there are fewer places than items.

use pes_engine::effect::Effect;
use serde_json::json;

use super::sim::*;
use super::suspend::ran;

#[test]
fn items_go_on_in_the_order_in_which_people_let_them() {
    let mut sim = Sim::new(|request| match which(request).as_str() {
        "planning" => plan(&[("a", &[], &[]), ("b", &[], &[]), ("c", &[], &[])]),
        "a.1" | "b.1" => calls(&[("gated", json!({ "x": which(request) }))]),
        other => says(other),
    });
    sim.ask("go").unwrap();
    while sim.suspensions().len() < 2 {
        assert!(sim.step());
    }
    assert!(matches!(sim.in_flight[..], [Effect::CallModel { .. }]), "c has the place: {:?}", sim.in_flight);
    for at in [1, 0] {
        sim.answer(at, |answer| answer.approved = Some(true)).unwrap();
    }
    sim.go();
    assert_eq!(ran(&sim), ["gated:b.1", "gated:a.1"]);
}
