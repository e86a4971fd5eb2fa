//! The load: transitions of about 6.4 KB, one after another on each thread, 2 % of them stale.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use pes::domain::facts::IntentBody;
use pes::domain::ids::{ThreadId, ThreadPk};
use pes::domain::observation::{Observation, Record};
use pes::domain::thread::{ThreadProfile, ThreadStatus};
use pes::engine::step::{Keep, Row, RowKind};
use pes::store::{Commit, Committed, Fence, LeaseChange, NewThread, Store};
use uuid::Uuid;

pub const THREADS: [usize; 4] = [1, 16, 64, 256];
const WARM_UP: Duration = Duration::from_millis(300);
const MEASURED: Duration = Duration::from_secs(2);

#[derive(Clone, Copy)]
pub struct Rate {
    pub per_second: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

/// Calls `once(worker, nth)` in a loop in each worker, and counts the calls.
pub async fn rate<F, Fut>(workers: usize, once: F) -> Rate
where
    F: Fn(usize, u64) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    let start = Instant::now() + WARM_UP;
    let end = start + MEASURED;
    let tasks: Vec<_> = (0..workers)
        .map(|worker| {
            let once = once.clone();
            tokio::spawn(async move {
                let mut times = Vec::new();
                for nth in 0.. {
                    let began = Instant::now();
                    if began > end {
                        break;
                    }
                    once(worker, nth).await;
                    if began >= start {
                        times.push(began.elapsed());
                    }
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.expect("no worker fails"));
    }
    times.sort();
    let at = |share: f64| times[(times.len() as f64 * share) as usize].as_secs_f64() * 1e3;
    Rate { per_second: times.len() as f64 / MEASURED.as_secs_f64(), p50_ms: at(0.5), p99_ms: at(0.99) }
}

/// Transitions through a store; each thread waits for its commit before the next.
pub async fn transitions(store: Arc<dyn Store>, threads: usize) -> Rate {
    let pks = self::threads(&store, threads).await;
    let places: Arc<Vec<_>> = Arc::new(pks.into_iter().map(|pk| (pk, std::sync::Mutex::new((1, 0)))).collect());
    rate(threads, move |worker, nth| {
        let (store, places) = (store.clone(), places.clone());
        async move {
            let (pk, place) = &places[worker];
            let (version, last_seq) = *place.lock().expect("one worker each");
            let is_stale = nth % 50 == 49;
            let commit = transition(*pk, nth, version - i64::from(is_stale), last_seq);
            let records = commit.records.len() as i64;
            match store.commit(commit).await.expect("the store answers") {
                Committed::Done => *place.lock().expect("one worker each") = (version + 1, last_seq + records),
                refused => assert!(is_stale && refused == Committed::Stale, "{refused:?}"),
            }
        }
    })
    .await
}

/// New threads, ready for their first transition.
pub async fn threads(store: &Arc<dyn Store>, count: usize) -> Vec<ThreadPk> {
    let tenant = store.tenant("bench", 1).await.expect("the store answers");
    let mut pks = Vec::new();
    for n in 0..count {
        let pk = ThreadPk(Uuid::new_v4().as_u128() as i64 >> 1 << 8 | n as i64);
        let id = format!("thr_{}", Uuid::new_v4()).into();
        let new = NewThread { tenant, thread_id: id, core: "pes".into(), created_at: 1, created_by: "ann".into() };
        let created = store.commit(Commit::creating(pk, new, ThreadProfile::default(), None)).await;
        assert_eq!(created.expect("the store answers"), Committed::Done);
        pks.push(pk);
    }
    pks
}

/// The bytes that a commit stores, as text: head, rows with their ids, and observations as clients read them, without the
/// ids and numbers that the thread's key replaces.
pub fn payload(commit: &Commit) -> usize {
    let rows: usize = commit.rows.iter().map(|row| row.id.len() + row.body.len()).sum();
    let shown = |record: &Record| Observation::of(record.clone(), ThreadId::from(""), 0);
    let text = |record: &Record| serde_json::to_string(&shown(record)).expect("plain data").len();
    let records: usize = commit.records.iter().map(text).sum();
    commit.head.as_ref().map_or(0, String::len) + rows + records
}

/// The observations of a transition as one row: their types and contents.
pub fn entry(commit: &Commit) -> (String, String) {
    let record = &commit.records[0];
    let told: Vec<_> = commit
        .records
        .iter()
        .map(|told| {
            serde_json::json!({ "type": told.kind(), "id": told.id, "parentId": told.parent_id, "content": told.fact })
        })
        .collect();
    let body = serde_json::json!({
        "runId": record.run_id, "traceId": record.trace_id, "timestamp": record.timestamp, "told": told,
    });
    (record.kind().as_str().to_owned(), body.to_string())
}

/// Head 1 KB, 3 items, a step output, 1–6 observations, up to 2 calls.
pub fn transition(pk: ThreadPk, nth: u64, version: i64, last_seq: i64) -> Commit {
    let observations = 1 + nth % 6;
    let item = |n: u64| {
        let place = (nth + n) % 12;
        row(RowKind::Item, format!("item_{place}"), place as i64, Keep::Always, 500)
    };
    let call = |n: u64| row(RowKind::Call, format!("call_{pk:?}_{nth}_{n}"), n as i64, Keep::UntilFloor, 350);
    let mut rows: Vec<Row> = (0..3).map(item).collect();
    rows.push(row(RowKind::Payload, format!("out_{nth}"), 0, Keep::Never, 1300));
    rows.extend((0..nth % 3).map(call));
    Commit {
        pk,
        create: None,
        fence: Fence { epoch: 0, lease: None, version },
        lease: LeaseChange::Keep,
        token: Uuid::new_v4(),
        now: nth as i64,
        head: Some(text(1000)),
        profile: None,
        status: ThreadStatus::Running,
        wake_at: None,
        floor: nth as i64,
        rows,
        last_seq,
        records: (0..observations).map(|n| record(nth, n)).collect(),
        idempotency: None,
        lookups: Vec::new(),
        audit: Vec::new(),
        deliveries: Vec::new(),
        fire: None,
        spend: Vec::new(),
    }
}

fn row(kind: RowKind, id: String, ord: i64, keep: Keep, bytes: usize) -> Row {
    Row { kind, id, ord, keep, body: text(bytes) }
}

fn record(nth: u64, n: u64) -> Record {
    Record {
        id: format!("obs_019a-{nth}-{n}").into(),
        run_id: "run_019a0000-0000-7000-8000-000000000000".into(),
        parent_id: Some("item_1".into()),
        trace_id: "0123456789abcdef0123456789abcdef".into(),
        timestamp: nth as i64,
        title: String::new(),
        fact: IntentBody { intent: text(340) }.into(),
        metadata: None,
    }
}

/// JSON that compresses about as well as prose. It is cut from one text that is generated once, so that generating the load
/// is not measured.
fn text(bytes: usize) -> String {
    static PROSE: LazyLock<String> = LazyLock::new(|| {
        const WORDS: &str =
            "the plan has three steps and each of them waits for what the one before it found out about";
        let words = WORDS.split(' ').cycle();
        words.take(20_000).map(|word| format!("{word} {} ", &Uuid::new_v4().simple().to_string()[..5])).collect()
    });
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let start = NEXT.fetch_add(997, Ordering::Relaxed) % (PROSE.len() - bytes);
    let mut text = String::with_capacity(bytes + 2);
    for part in ["\"", &PROSE[start..start + bytes], "\""] {
        text.push_str(part);
    }
    text
}
