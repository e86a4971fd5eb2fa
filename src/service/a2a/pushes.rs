//! The push receivers of a task: add, list, remove.

use std::time::Duration;

use crate::a2a::types::{Authentication, PushConfig};
use crate::a2a::wire::Version;
use crate::domain::caller::Caller;
use crate::domain::fault::{Code, Fault};
use crate::domain::ids::{RunId, ThreadPk};
use crate::engine::step::RowKind;
use crate::outbox::PushTarget;
use crate::runtime::rows::read;
use crate::runtime::{AuditedAction, NewReceiver};
use crate::service::once::KeyGuard;
use crate::service::pages::Entries;
use crate::service::{Result, Service, runs};
use crate::store::{Order, PageAsk};

/// How many receivers one task may have.
const MAX_RECEIVERS: usize = 8;
/// How long a receiver waits for others that are being added to its task.
const MAX_WAIT: Duration = Duration::from_secs(10);
const MAX_ID_LENGTH: usize = 128;
const MAX_SECRET_LENGTH: usize = 4_096;
/// Rows read at once.
const CHUNK: u32 = 200;

/// Builds a receiver of this run's changes for storage: checks its address, and seals its secrets.
pub(crate) fn receiver(
    service: &Service,
    caller: &Caller,
    run: &RunId,
    config: &PushConfig,
    version: Version,
) -> Result<NewReceiver> {
    let wrong = |pointer: &str, why: String| Fault::new(Code::Invalid, format!("`{pointer}`: {why}.")).at(pointer, why);
    let to = service.outbox.egress.tenant_destination(caller.tenant, &config.url).map_err(|why| wrong("/url", why))?;
    let id = config.id.clone().filter(|id| !id.is_empty());
    let id = id.unwrap_or_else(|| format!("push_{}", service.mint().hex()));
    if id.len() > MAX_ID_LENGTH || !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte)) {
        return Err(wrong("/id", format!("an id has at most {MAX_ID_LENGTH} characters of A-Z a-z 0-9 . _ : -")));
    }
    let with = config.authentication.as_ref();
    let mut target = PushTarget {
        run_id: run.clone(),
        id,
        url: to.url().to_string(),
        version: version.as_str().to_owned(),
        scheme: with.map(|with| with.scheme.clone()),
        credentials: with.and_then(|with| with.credentials.clone()),
        token: config.token.clone(),
        created_at: service.now(),
    };
    let secrets = [
        ("/authentication/scheme", &target.scheme),
        ("/authentication/credentials", &target.credentials),
        ("/token", &target.token),
    ];
    let is_sound =
        |secret: &str| secret.len() <= MAX_SECRET_LENGTH && secret.bytes().all(|b| (b' '..=b'~').contains(&b));
    for (pointer, secret) in secrets {
        if secret.as_deref().is_some_and(|secret| !is_sound(secret)) {
            return Err(wrong(pointer, format!("this is more than {MAX_SECRET_LENGTH} visible ASCII characters")));
        }
    }
    target.seal(&service.sealer, caller.tenant)?;
    Ok(NewReceiver { target, by: caller.name.clone() })
}

/// Adds a receiver to a run, or replaces the one with the same id. Nothing is sent for a run that has ended.
pub async fn add(
    service: &Service,
    caller: &Caller,
    run: &RunId,
    config: &PushConfig,
    version: Version,
) -> Result<PushConfig> {
    service.runtime.accepting()?;
    let _one_at_a_time = lock(service, caller, run).await?;
    let known = list(service, caller, run).await?;
    let (pk, _) = runs::stored(service, caller, run).await?;
    let new = receiver(service, caller, run, config, version)?;
    check_count(&known, &new.target)?;
    service.runtime.store_row(pk, new.target.row(false), Some(new.audited())).await?;
    Ok(shown(new.target))
}

/// While it is held, this process adds no other receiver to the run: receivers are counted before they are stored.
pub(crate) async fn lock(service: &Service, caller: &Caller, run: &RunId) -> Result<KeyGuard> {
    let locked = service.key_locks.lock(caller.tenant, "push receivers", run.as_str(), MAX_WAIT).await;
    locked.map_err(|busy| Fault { detail: "Others are being added to this task; repeat it.".to_owned(), ..busy })
}

/// Builds the receiver that a further message to the run names; the caller holds its [`lock`]. Clients send it with each
/// message: without an id it replaces the receiver with the same URL.
pub(crate) async fn receiver_of_message(
    service: &Service,
    caller: &Caller,
    run: &RunId,
    config: &PushConfig,
    version: Version,
) -> Result<NewReceiver> {
    let known = list(service, caller, run).await?;
    let is_named = config.id.as_ref().is_some_and(|id| !id.is_empty());
    let url = config.url.parse::<url::Url>().ok().filter(|_| !is_named).map(|url| url.to_string());
    let same = known.iter().find(|other| Some(&other.url) == url.as_ref());
    let id = same.map_or_else(|| config.id.clone(), |same| same.id.clone());
    let new = receiver(service, caller, run, &PushConfig { id, ..config.clone() }, version)?;
    check_count(&known, &new.target)?;
    Ok(new)
}

fn check_count(known: &[PushConfig], target: &PushTarget) -> Result<()> {
    if known.len() >= MAX_RECEIVERS && known.iter().all(|other| other.id.as_ref() != Some(&target.id)) {
        return Err(Fault::new(Code::Invalid, format!("A task has at most {MAX_RECEIVERS} push configurations.")));
    }
    Ok(())
}

/// Oldest first, without their secrets.
pub async fn list(service: &Service, caller: &Caller, run: &RunId) -> Result<Vec<PushConfig>> {
    let (pk, _) = runs::stored(service, caller, run).await?;
    let mut rows = Entries::from(PageAsk::first(CHUNK), |page| async move {
        service.store.rows(pk, RowKind::Push, Order::Ascending, &page).await
    });
    let mut found = Vec::new();
    while let Some(row) = rows.next().await? {
        found.extend(read::<Option<PushTarget>>(&row)?.filter(|target| target.run_id == *run).map(shown));
    }
    Ok(found)
}

/// Returns `None` if the task has no receiver with that id.
pub async fn get(service: &Service, caller: &Caller, run: &RunId, id: &str) -> Result<Option<PushConfig>> {
    let (pk, _) = runs::stored(service, caller, run).await?;
    Ok(stored(service, pk, run, id).await?.map(shown))
}

async fn stored(service: &Service, pk: ThreadPk, run: &RunId, id: &str) -> Result<Option<PushTarget>> {
    let row = service.store.row(pk, RowKind::Push, &PushTarget::name(run, id)).await?;
    Ok(row.as_ref().map(read::<Option<PushTarget>>).transpose()?.flatten())
}

/// Removes a receiver and drops its pending deliveries. Idempotent.
pub async fn delete(service: &Service, caller: &Caller, run: &RunId, id: &str) -> Result<()> {
    service.runtime.accepting()?;
    let (pk, _) = runs::stored(service, caller, run).await?;
    if let Some(target) = stored(service, pk, run, id).await? {
        let audit = AuditedAction::receiver_deleted(&caller.name, &target);
        service.runtime.store_row(pk, PushTarget::deleted(run, id), Some(audit)).await?;
    }
    Ok(())
}

/// The receiver without its secrets, which are never shown again.
fn shown(target: PushTarget) -> PushConfig {
    PushConfig {
        tenant: None,
        id: Some(target.id),
        task_id: Some(target.run_id.to_string()),
        url: target.url,
        token: None,
        authentication: target.scheme.map(|scheme| Authentication { scheme, credentials: None }),
    }
}
