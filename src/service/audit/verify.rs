//! Whether the chain of each tenant's audit is what it was: every hash is made again from what is stored, and compared with
//! the checkpoints. What does not fit is named, the first of each tenant.

use std::collections::VecDeque;

use crate::domain::ids::TenantPk;
use crate::store::chain::{NO_HASH, link};
use crate::store::{ChainedLine, Checkpoint, Result, Store};

/// Lines that are read at once.
const PAGE: u32 = 500;
/// How far behind its place a line is looked for.
const FAR: usize = 1_000;

/// What was found of the audit of a tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    pub tenant: String,
    /// Lines whose hashes were made again.
    pub lines: i64,
    /// Checkpoints that they were compared with.
    pub checkpoints: usize,
    /// Lines that are not chained yet.
    pub unchained: usize,
    /// The first that is not what it was; `None`: all is.
    pub broken: Option<String>,
}

/// Of every tenant.
pub async fn verify(store: &dyn Store) -> Result<Vec<Verified>> {
    let mut found = Vec::new();
    for (tenant, name) in store.tenants().await? {
        let mut walk = Walk::new(store, tenant).await?;
        let broken = walk.run().await?.err();
        let unchained = store.unchained_lines(tenant, PAGE).await?.len();
        found.push(Verified { tenant: name, lines: walk.n, checkpoints: walk.compared, unchained, broken });
    }
    Ok(found)
}

/// What is broken, as a sentence.
type Checked = std::result::Result<(), String>;

/// A walk along one chain.
struct Walk<'s> {
    store: &'s dyn Store,
    tenant: TenantPk,
    /// The last line that fits, its hash, and the one before.
    n: i64,
    hash: String,
    before: String,
    lines: VecDeque<ChainedLine>,
    checkpoints: VecDeque<Checkpoint>,
    compared: usize,
    /// The last line that a checkpoint knows.
    known: i64,
}

impl<'s> Walk<'s> {
    async fn new(store: &'s dyn Store, tenant: TenantPk) -> Result<Self> {
        let (hash, before) = (NO_HASH.to_owned(), NO_HASH.to_owned());
        let checkpoints = store.checkpoints(tenant, 0, PAGE).await?.into();
        let lines = VecDeque::new();
        Ok(Self { store, tenant, n: 0, hash, before, lines, checkpoints, compared: 0, known: 0 })
    }

    async fn run(&mut self) -> Result<Checked> {
        loop {
            if self.lines.is_empty() {
                self.read(1).await?;
            }
            let Some(line) = self.lines.pop_front() else { break };
            if let Err(broken) = self.follows(&line) {
                return Ok(Err(broken));
            }
            let hash = link(&self.hash, &line.line.digest());
            if hash != line.hash {
                self.read(FAR).await?;
                return Ok(Err(self.named(&line)));
            }
            self.before = std::mem::replace(&mut self.hash, hash);
            self.n = line.n;
            if let Err(broken) = self.compare().await? {
                return Ok(Err(broken));
            }
        }
        Ok(match self.checkpoints.front() {
            Some(checkpoint) => Err(missing(self.n + 1, checkpoint.n)),
            None => Ok(()),
        })
    }

    /// Has so many lines at hand, if there are.
    async fn read(&mut self, wanted: usize) -> Result<()> {
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

    /// Whether it has the next number.
    fn follows(&self, line: &ChainedLine) -> Checked {
        let expected = self.n + 1;
        if line.n > expected { Err(missing(expected, line.n - 1)) } else { Ok(()) }
    }

    /// Compares with the checkpoints of the last line.
    async fn compare(&mut self) -> Result<Checked> {
        while let Some(checkpoint) = self.checkpoints.front() {
            if checkpoint.n > self.n {
                break;
            }
            if checkpoint.hash != self.hash {
                self.read(1).await?;
                let inserted = self.lines.front().and_then(|next| self.inserted_before(next));
                return Ok(Err(inserted.unwrap_or_else(|| self.rewritten())));
            }
            self.known = self.n;
            self.compared += 1;
            let last = checkpoint.n;
            self.checkpoints.pop_front();
            if self.checkpoints.is_empty() {
                self.checkpoints = self.store.checkpoints(self.tenant, last, PAGE).await?.into();
            }
        }
        Ok(Ok(()))
    }

    /// What no line tells by itself.
    fn rewritten(&self) -> String {
        let (from, to) = (self.known + 1, self.n);
        let lines = some_lines(from, to, "was", "were");
        format!("checkpoint {to} has another hash than line {to}: {lines} written anew, or the checkpoint was changed")
    }

    /// Whether the last line that fits does not belong before this one, which fits behind the line before it.
    fn inserted_before(&self, line: &ChainedLine) -> Option<String> {
        let is_inserted = self.n > 0 && link(&self.before, &line.line.digest()) == line.hash;
        is_inserted
            .then(|| format!("line {} was inserted: what was chained as {} stands at {}", self.n, self.n, line.n))
    }

    /// What happened to a line whose hash does not fit. Lines that were moved still have the hashes that they had, or
    /// stand where those hashes are.
    fn named(&self, line: &ChainedLine) -> String {
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

fn missing(from: i64, to: i64) -> String {
    format!("{} missing", some_lines(from, to, "is", "are"))
}

fn some_lines(from: i64, to: i64, one: &str, many: &str) -> String {
    if from >= to { format!("line {to} {one}") } else { format!("lines {from} to {to} {many}") }
}
