//! What an agent changes of a task while it works, without another status.

use pes_engine::domain::observation::ObservationType;
use pes_engine::domain::task::{PeerReport, PeerState};

use super::agents_ask::{asked, report, reports, waiting};
use super::sim::Sim;

/// The log says so, too, although the status stays the same: `Sim` compares its fold with the state.
#[test]
fn the_context_that_an_agent_names_is_kept_until_it_names_another() {
    let mut sim = waiting();
    let context = |sim: &Sim| sim.tasks()[0].remote_context_id.clone();
    for (named, kept) in [(Some("c1"), "c1"), (None, "c1"), (Some("c2"), "c2")] {
        asked(&mut sim);
        let remote_context_id = named.map(str::to_owned);
        reports(&mut sim, &PeerReport { remote_context_id, ..report(PeerState::Working) });
        assert_eq!(context(&sim).as_deref(), Some(kept));
        let told = sim.contents(ObservationType::A2aTask).pop().unwrap();
        assert_eq!(told["remoteContextId"], kept, "{told:#}");
    }
}

/// Somebody gives it less time while it works.
#[test]
fn a_deadline_that_becomes_shorter_is_recorded() {
    let mut sim = waiting();
    let created = sim.tasks()[0].created_at;
    for (patience_ms, deadline) in [(Some(100_000), created + 100_000), (Some(200_000), created + 100_000)] {
        asked(&mut sim);
        reports(&mut sim, &PeerReport { patience_ms, ..report(PeerState::Working) });
        assert_eq!(sim.tasks()[0].deadline, deadline);
        assert_eq!(sim.contents(ObservationType::A2aTask).pop().unwrap()["deadline"], deadline);
    }
    assert_eq!(sim.contents(ObservationType::A2aTask).len(), 3, "it was sent, it works, it has less time");
}
