//! Verifies the audit chain of each tenant: recomputes every hash from what is stored, and compares them with the
//! checkpoints. Reports the first mismatch of each tenant.

mod arguments;
mod base;
mod kept;
mod signatures;
mod stop;

use std::collections::VecDeque;

use self::base::DeletionRecords;
pub(in crate::service) use self::signatures::{Signatures, SignedBy};
use self::stop::{Match, Stop};
use crate::auth::{AuditKey, VerifyingKey};
use crate::domain::Millis;
use crate::domain::ids::TenantPk;
use crate::store::chain::{NO_HASH, link};
use crate::store::{self, AuditRow, ChainedLine, Checkpoint, Store};

/// Lines that are read at once.
const PAGE: u32 = 500;
/// How far after its original position a moved line is looked for.
const MAX_MOVE_DISTANCE: usize = 1_000;

pub use kept::{KeptCheckpoint, parse_checkpoints};

/// What is verified, and with what.
#[derive(Default)]
pub struct VerifyAsk<'a> {
    /// The current signing key. Without it and without former keys, signatures are not verified.
    pub key: Option<&'a AuditKey>,
    /// The public halves of former signing keys.
    pub former: &'a [VerifyingKey],
    pub since: Since,
    /// Checkpoints that were stored outside of this server.
    pub kept: &'a [KeptCheckpoint],
    /// Lines of this time or later must not have been deleted. `None`: this is not checked.
    pub oldest: Option<Millis>,
}

/// Where verification begins. What is stored there is trusted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Since {
    #[default]
    Beginning,
    /// After this line.
    Line(i64),
    /// After the last checkpoint of that time.
    Time(Millis),
}

/// The result for the chain of one tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainReport {
    pub tenant: String,
    /// Lines whose hashes were recomputed.
    pub lines: i64,
    /// Checkpoints with which the hashes were compared.
    pub checkpoints: usize,
    /// How many of these checkpoints have a verified signature.
    pub signed: usize,
    /// Lines that are not chained yet.
    pub unchained: usize,
    /// The last line that was deleted because of its age; 0: none was.
    pub forgotten: i64,
    /// The chain ends before the line at which verification was to begin: nothing was verified.
    pub is_shorter: bool,
    /// The first mismatch; `None`: the chain is intact.
    pub broken: Option<String>,
}

/// Verifies the chain of every tenant.
pub async fn verify(store: &dyn Store, ask: &VerifyAsk<'_>) -> store::Result<Vec<ChainReport>> {
    let (mut found, tenants) = (Vec::new(), store.tenants().await?);
    for (tenant, name) in &tenants {
        found.push(of_tenant(store, *tenant, name, ask).await?);
    }
    let missing = store.tenants_missing().await?;
    found.extend(missing.into_iter().map(|tenant| ChainReport {
        tenant: format!("number {}", tenant.0),
        broken: Some("there is no such tenant, and the audit has lines or checkpoints of it".to_owned()),
        ..ChainReport::default()
    }));
    let unknown = ask.kept.iter().filter(|kept| !tenants.iter().any(|(_, name)| *name == kept.tenant));
    found.extend(unknown.map(|kept| ChainReport {
        tenant: kept.tenant.clone(),
        broken: Some(format!("there is no such tenant, and a checkpoint of line {} of it was kept", kept.n)),
        ..ChainReport::default()
    }));
    Ok(found)
}

async fn of_tenant(store: &dyn Store, tenant: TenantPk, name: &str, ask: &VerifyAsk<'_>) -> store::Result<ChainReport> {
    loop {
        let mut walk = ChainWalk::new(store, tenant, name, ask);
        let unchained = store.unchained_lines(tenant, PAGE).await?;
        unchained.iter().for_each(|found| walk.names.extend(former_name(&found.line)));
        let broken = match walk.run().await {
            Ok(()) => None,
            Err(Stop::Broken(why)) => Some(why),
            Err(Stop::Store(error)) => return Err(error),
        };
        // Retention deleted lines while they were read. That is no tampering: begin again.
        if broken.is_some() && base::find(store, tenant).await?.is_some_and(|base| base.n > walk.base) {
            continue;
        }
        let (lines, checkpoints, signed) = (walk.n - walk.begun, walk.compared, walk.signed);
        let (tenant, unchained, forgotten) = (name.to_owned(), unchained.len(), walk.base);
        let is_shorter = walk.is_shorter;
        return Ok(ChainReport { tenant, lines, checkpoints, signed, unchained, forgotten, is_shorter, broken });
    }
}

/// Verification of one chain, line by line.
struct ChainWalk<'a> {
    store: &'a dyn Store,
    tenant: TenantPk,
    signatures: Signatures<'a>,
    since: Since,
    oldest: Option<Millis>,
    /// Checkpoints of this chain that were stored elsewhere, ordered by line.
    kept: VecDeque<&'a KeptCheckpoint>,
    /// The current and former names of the tenant, as far as its lines record them.
    names: Vec<String>,
    /// The line after which the chain begins, if lines were deleted; whether that is trusted; and the lines that record it.
    base: i64,
    is_base_believed: bool,
    forgotten: DeletionRecords,
    /// The line after which verification began; whether the chain lacks the line at which it was to begin.
    begun: i64,
    is_shorter: bool,
    /// The last matching line, its hash, and the hash before it.
    n: i64,
    hash: String,
    before: String,
    lines: VecDeque<ChainedLine>,
    checkpoints: VecDeque<Checkpoint>,
    compared: usize,
    signed: usize,
    /// The last line that a checkpoint covers, and whether the current key signed that checkpoint.
    known: i64,
    is_known_signed: bool,
}

impl<'a> ChainWalk<'a> {
    fn new(store: &'a dyn Store, tenant: TenantPk, name: &str, ask: &VerifyAsk<'a>) -> Self {
        let mut kept: Vec<_> = ask.kept.iter().filter(|kept| kept.tenant == name).collect();
        kept.sort_by_key(|kept| kept.n);
        Self {
            store,
            tenant,
            signatures: Signatures::new(ask.key.map(AuditKey::verifying), ask.former),
            since: ask.since,
            oldest: ask.oldest,
            kept: kept.into(),
            names: vec![name.to_owned()],
            base: 0,
            is_base_believed: false,
            forgotten: DeletionRecords::default(),
            begun: 0,
            is_shorter: false,
            n: 0,
            hash: NO_HASH.to_owned(),
            before: NO_HASH.to_owned(),
            lines: VecDeque::new(),
            checkpoints: VecDeque::new(),
            compared: 0,
            signed: 0,
            known: 0,
            is_known_signed: false,
        }
    }

    async fn run(&mut self) -> Result<(), Stop> {
        self.begin().await?;
        loop {
            self.compare().await?;
            self.read(1).await?;
            if self.lines.is_empty() && self.checkpoints.is_empty() {
                // Lines and checkpoints may have been added in the meantime; a line is never added without its checkpoint.
                self.checkpoints = self.store.checkpoints(self.tenant, self.known, PAGE).await?.into();
                self.compare().await?;
                self.read(1).await?;
            }
            let Some(line) = self.lines.pop_front() else { break };
            if line.n > self.n + 1 {
                return Err(missing(self.n + 1, line.n - 1).into());
            }
            let hash = link(&self.hash, &line.line.digest());
            if hash != line.hash {
                self.read(MAX_MOVE_DISTANCE).await?;
                return Err(self.diagnose(&line).into());
            }
            self.before = std::mem::replace(&mut self.hash, hash);
            self.n = line.n;
            self.names.extend(former_name(&line.line));
            self.forgotten.read(&line, &mut self.signatures)?;
            arguments::check(self.store, &line).await?;
        }
        Ok(self.end()?)
    }

    /// Moves to the start. It lies before every checkpoint that was stored elsewhere, so that each of them is compared.
    async fn begin(&mut self) -> Result<(), Stop> {
        let mut begun = match self.since {
            Since::Beginning => 0,
            Since::Line(n) => n,
            Since::Time(at) => self.line_at(at).await?,
        };
        let base = base::find(self.store, self.tenant).await?;
        if let Some(base) = &base {
            (self.base, self.is_base_believed) = (base.n, begun >= base.n);
            self.check_base(base)?;
            self.kept.retain(|kept| kept.n >= base.n);
        }
        begun = self.kept.front().map_or(begun, |kept| begun.min(kept.n)).max(self.base);
        if let Some(base) = base.filter(|base| base.n == begun) {
            self.hash = base.hash;
            (self.begun, self.n, self.known) = (begun, begun, begun);
            self.checkpoints = self.store.checkpoints(self.tenant, begun - 1, PAGE).await?.into();
            return Ok(());
        }
        if begun > 0 {
            let line = self.store.chained_lines(self.tenant, begun - 1, 1).await?.pop().filter(|line| line.n == begun);
            let Some(line) = line else {
                let end = self.store.chain_end(self.tenant).await?;
                let (is_shorter, from) = (end.n < begun, begun.min(end.n + 1));
                (self.begun, self.n, self.known, self.hash) = (end.n, end.n, end.n, end.hash);
                // The chain is shorter, so it has no lines to verify.
                self.is_shorter = self.kept.is_empty() && is_shorter;
                return if self.is_shorter { Ok(()) } else { Err(missing(from, begun).into()) };
            };
            (self.hash, self.before) = (line.hash, String::new());
        }
        (self.begun, self.n, self.known) = (begun, begun, begun);
        self.checkpoints = self.store.checkpoints(self.tenant, begun, PAGE).await?.into();
        Ok(())
    }

    /// Checks that everything up to the base was too old, unless that is trusted.
    fn check_base(&mut self, base: &Checkpoint) -> Match {
        if !self.is_base_believed {
            base::check_age(base, self.oldest, &mut self.signatures)?;
        }
        base::check_kept(base, &self.kept, self.oldest)
    }

    /// The line of the last checkpoint at or before this time.
    async fn line_at(&self, at: Millis) -> store::Result<i64> {
        let mut last = 0;
        loop {
            let page = self.store.checkpoints(self.tenant, last, PAGE).await?;
            let is_all = page.is_empty() || page.iter().any(|checkpoint| checkpoint.at > at);
            last = page.iter().take_while(|checkpoint| checkpoint.at <= at).last().map_or(last, |last| last.n);
            if is_all {
                return Ok(last);
            }
        }
    }

    /// Checks at the end of the chain that no known line is missing, and that the current key signed the last checkpoint.
    fn end(&self) -> Match {
        if !self.is_base_believed {
            self.forgotten.check(self.base, &self.signatures)?;
        }
        let beyond = self.checkpoints.front().map(|checkpoint| checkpoint.n);
        let beyond = beyond.into_iter().chain(self.kept.front().map(|kept| kept.n)).max();
        if let Some(n) = beyond {
            return Err(missing(self.n + 1, n));
        }
        if self.n > self.known {
            let lines = some_lines(self.known + 1, self.n, "has", "have");
            return Err(format!("{lines} no checkpoint: it was taken away"));
        }
        if let Some(other) = self.signatures.of_others(&self.names) {
            return Err(other);
        }
        match self.signatures.current() {
            Some(key) if self.known > self.begun && !self.is_known_signed => Err(format!(
                "checkpoint {}, the last, is not signed with the key {} of PES_AUDIT_KEY; a server that has the key signs it \
                 when it starts",
                self.known,
                key.id()
            )),
            Some(_) | None => Ok(()),
        }
    }

    /// Buffers at least `wanted` lines, if there are so many.
    async fn read(&mut self, wanted: usize) -> store::Result<()> {
        while self.lines.len() < wanted {
            let after = self.lines.back().map_or(self.n, |line| line.n);
            let page = self.store.chained_lines(self.tenant, after, PAGE).await?;
            if page.is_empty() {
                return Ok(());
            }
            self.lines.extend(page);
        }
        Ok(())
    }

    /// Compares the hash of the last line with its checkpoints.
    async fn compare(&mut self) -> Result<(), Stop> {
        while let Some(kept) = self.kept.pop_front_if(|kept| kept.n <= self.n) {
            if kept.hash != self.hash {
                let (n, file) = (kept.n, &kept.file);
                return Err(
                    format!("line {n} is not the one that {file} knows: lines up to it were written anew").into()
                );
            }
            let verified = self.signatures.checkpoint(kept.n, kept.jws.as_deref(), &kept.payload);
            verified.map_err(|broken| format!("{broken}, in {}", kept.file))?;
        }
        while let Some(checkpoint) = self.checkpoints.pop_front_if(|checkpoint| checkpoint.n <= self.n) {
            if checkpoint.hash != self.hash {
                self.read(1).await?;
                let inserted = self.lines.front().and_then(|next| self.inserted_before(next));
                return Err(inserted.unwrap_or_else(|| self.rewritten()).into());
            }
            let payload = checkpoint.payload("");
            let signed_by = self.signatures.checkpoint(checkpoint.n, checkpoint.jws.as_deref(), &payload)?;
            (self.known, self.is_known_signed) = (self.n, signed_by == SignedBy::Current);
            self.signed += usize::from(matches!(signed_by, SignedBy::Current | SignedBy::Former));
            self.compared += 1;
            if self.checkpoints.is_empty() {
                self.checkpoints = self.store.checkpoints(self.tenant, checkpoint.n, PAGE).await?.into();
            }
        }
        Ok(())
    }

    /// The mismatch of a checkpoint that no single line explains.
    fn rewritten(&self) -> String {
        let (from, to) = (self.known + 1, self.n);
        let lines = some_lines(from, to, "was", "were");
        format!("checkpoint {to} has another hash than line {to}: {lines} written anew, or the checkpoint was changed")
    }

    /// Reports the last line as inserted if this one matches the hash before it.
    fn inserted_before(&self, line: &ChainedLine) -> Option<String> {
        let is_inserted = self.n > 0 && link(&self.before, &line.line.digest()) == line.hash;
        is_inserted
            .then(|| format!("line {} was inserted: what was chained as {} stands at {}", self.n, self.n, line.n))
    }

    /// Finds out how a line whose hash does not match was changed. Lines that were moved still have their old hashes, or are
    /// at the position of these hashes.
    fn diagnose(&self, line: &ChainedLine) -> String {
        let (n, digest) = (line.n, line.line.digest());
        if let Some(inserted) = self.inserted_before(line) {
            return inserted;
        }
        let mut between: Vec<String> = Vec::new();
        for other in &self.lines {
            let first = link(&self.hash, &other.line.digest());
            if first == other.hash || first == line.hash {
                let hash = between.iter().fold(first, |hash, digest| link(&hash, digest));
                let last = link(&hash, &digest);
                return if last == line.hash || last == other.hash {
                    format!("lines {n} and {} were swapped", other.n)
                } else {
                    format!(
                        "{} inserted: what was chained as {n} stands at {}",
                        some_lines(n, other.n - 1, "was", "were"),
                        other.n
                    )
                };
            }
            between.push(other.line.digest());
        }
        let ChainedLine { line, .. } = line;
        format!(
            "line {n} was changed, or lines before it were taken away: it says `{}` by `{}` at {}",
            line.action, line.actor, line.at
        )
    }
}

/// The former name of the tenant, if the line records that it was renamed.
fn former_name(line: &AuditRow) -> Option<String> {
    if line.action == "rename tenant" { Some(line.detail["from"].as_str()?.to_owned()) } else { None }
}

fn missing(from: i64, to: i64) -> String {
    format!("{} missing", some_lines(from, to, "is", "are"))
}

fn some_lines(from: i64, to: i64, one: &str, many: &str) -> String {
    if from >= to { format!("line {to} {one}") } else { format!("lines {from} to {to} {many}") }
}
