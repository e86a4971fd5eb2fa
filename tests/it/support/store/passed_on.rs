//! Forwards every call of the store according to its mood.

use super::*;

macro_rules! passed_on {
    ($trait:ident { $($own:tt)* } $($call:ident($($name:ident: $type:ty),*) -> $answer:ty;)*) => {
        #[async_trait]
        impl $trait for Moody {
            $($own)*
            $(async fn $call(&self, $($name: $type),*) -> Result<$answer> {
                self.pass(stringify!($call)).await?;
                let answer = {
                    let _clock = StoppedClock::begin();
                    self.inner.$call($($name),*).await
                };
                self.answered(stringify!($call)).await;
                answer
            })*
        }
    };
}

passed_on! {
    ThreadReads {}
    thread(tenant: TenantPk, id: &ThreadId) -> Option<ThreadRow>;
    thread_by_pk(pk: ThreadPk) -> Option<ThreadRow>;
    threads_by_pk(pks: &[ThreadPk]) -> Vec<ThreadRow>;
    load(pk: ThreadPk) -> Option<(ThreadRow, Vec<Row>)>;
    thread_versions(pks: &[ThreadPk]) -> Vec<ThreadVersion>;
    recent_threads(tenant: TenantPk, since: Millis) -> Vec<RecentThread>;
    newest_activity(until: Millis) -> Option<Millis>;
    outlines(pks: &[ThreadPk]) -> Vec<Outline>;
    run_costs(pks: &[ThreadPk], known: &HashMap<ThreadPk, EndedCost>) -> Vec<RunCosts>;
    titles(pks: &[ThreadPk]) -> Vec<(ThreadPk, String)>;
    threads(tenant: TenantPk, filter: &ThreadFilter, page: &PageAsk) -> Page<ThreadRow>;
}

passed_on! {
    ThreadStore {}
    commit(commit: Commit) -> Committed;
    delete_thread(erasure: Erasure) -> bool;
}

passed_on! {
    RowStore {
        async fn messages(&self, pk: ThreadPk, page: &PageAsk) -> Result<Page<Row>> {
            self.pass("messages").await?;
            let read = {
                let _clock = StoppedClock::begin();
                self.inner.messages(pk, page).await?
            };
            self.messages_read.fetch_add(read.items.len(), Ordering::SeqCst);
            self.answered("messages").await;
            Ok(read)
        }

        async fn history(
            &self,
            pk: ThreadPk,
            before: &MessageId,
            limit: u32,
            bytes: u64,
        ) -> Result<Vec<ConversationMessage>> {
            self.pass("history").await?;
            let read = {
                let _clock = StoppedClock::begin();
                self.inner.history(pk, before, limit, bytes).await?
            };
            self.messages_read.fetch_add(read.len(), Ordering::SeqCst);
            self.answered("history").await;
            Ok(read)
        }
    }
    row(pk: ThreadPk, kind: RowKind, id: &str) -> Option<Row>;
    find_row(tenant: TenantPk, kind: RowKind, id: &str) -> Option<FoundRow>;
    rows(pk: ThreadPk, kind: RowKind, order: Order, page: &PageAsk) -> Page<Row>;
    payloads(pk: ThreadPk, ids: &[PayloadId]) -> Vec<(PayloadId, Arc<Value>)>;
    rows_by_id(wanted: &[RowKey]) -> Vec<(ThreadPk, Row)>;
    row_bytes(wanted: &[RowKey]) -> Vec<(RowKey, u64)>;
    suspensions(ask: &SuspensionAsk) -> Page<FoundRow>;
    tasks(tenant: TenantPk, page: &PageAsk) -> Page<FoundRow>;
    runs_by_caller_status(ask: &RunsByStatusAsk) -> Page<FoundRow>;
    count_by_caller_status(ask: &RunsByStatusAsk) -> u64;
}

passed_on! {
    LogStore {
        async fn observations(&self, pk: ThreadPk, ask: &ObservationAsk) -> Result<Vec<Observation>> {
            self.pass("observations").await?;
            let _clock = StoppedClock::begin();
            let read = self.inner.observations(pk, ask).await?;
            self.observations_read.fetch_add(read.len(), Ordering::SeqCst);
            Ok(read)
        }
    }
    facts(pk: ThreadPk, run: &RunId, until: i64) -> Vec<Recorded>;
    run_began(pk: ThreadPk, run: &RunId) -> Option<i64>;
}

passed_on! {
    LogCompression {}
    compress_log() -> ();
    compress_new_log() -> ();
}

passed_on! {
    AuditStore {}
    audit(tenant: TenantPk, thread: &ThreadId, page: &PageAsk) -> Page<AuditRow>;
    audit_of_tenant(tenant: TenantPk, page: &PageAsk) -> Page<AuditRow>;
}

passed_on! {
    ChainReads {}
    tenants_to_chain() -> Vec<TenantPk>;
    tenants_missing() -> Vec<TenantPk>;
    unchained_lines(tenant: TenantPk, limit: u32) -> Vec<UnchainedLine>;
    chain_end(tenant: TenantPk) -> ChainEnd;
    chained_lines(tenant: TenantPk, after: i64, limit: u32) -> Vec<ChainedLine>;
    chained_lines_of_thread(tenant: TenantPk, thread: &ThreadId, page: &PageAsk) -> Page<ChainedLine>;
    checkpoints(tenant: TenantPk, after: i64, limit: u32) -> Vec<Checkpoint>;
    checkpoint_before(tenant: TenantPk, at: Millis) -> Option<Checkpoint>;
    first_held_line(tenant: TenantPk) -> Option<i64>;
}

passed_on! {
    ChainStore {}
    add_links(new: NewLinks) -> bool;
    add_line(line: AuditRow) -> ();
    forget_lines(tenant: TenantPk, upto: i64) -> u64;
}

passed_on! {
    IdempotencyStore {
        async fn forget_idempotency(&self, before: Millis, limit: u32) -> Result<u64> {
            self.pass("forget_idempotency").await?;
            let _clock = StoppedClock::begin();
            let forgotten = self.inner.forget_idempotency(before, limit).await?;
            self.forgotten.send_modify(|batches| batches.push(forgotten));
            Ok(forgotten)
        }
    }
    idempotency(tenant: TenantPk, scope: &str, key: &str) -> Option<IdempotencyRow>;
}

passed_on! {
    LookupReads {}
    lookups(tenant: TenantPk, key: &LookupKey, limit: u32) -> Vec<FoundRun>;
}

passed_on! {
    LookupStore {}
    listen_until(tenant: TenantPk, key: &LookupKey, run: &RunId, until: Millis) -> bool;
    forget_lookups(before: Millis, behind: &LookupPosition, limit: u32) -> Forgotten<LookupPosition>;
}

passed_on! {
    DocumentStore {}
    write_document(new: Document, old: Expected, audit: AuditRow, response: ResponseToStore) -> Option<i64>;
    document(tenant: TenantPk, kind: DocumentKind, id: &str) -> Option<Document>;
    documents_since(after: i64) -> DocumentChanges;
    forget_documents(before: Millis, at_most: u32) -> u64;
}

passed_on! {
    OutboxReads {}
    tenants_due(now: Millis) -> Vec<TenantPk>;
    next_single() -> Option<Millis>;
    next_batched() -> Option<Millis>;
    deliveries(tenant: TenantPk, kind: TargetKind, target: &str, page: &PageAsk) -> Page<Delivery>;
    deliveries_of_tenant(tenant: TenantPk, kind: TargetKind, status: Option<DeliveryStatus>, page: &PageAsk) -> Page<Delivery>;
}

passed_on! {
    OutboxStore {}
    claim_deliveries(shares: &[Share], now: Millis, until: Millis) -> Vec<Delivery>;
    claim_batch(now: Millis, until: Millis, limit: u32) -> Vec<Delivery>;
    settle_deliveries(settlements: Vec<Settlement>, now: Millis) -> usize;
    replay_delivery(tenant: TenantPk, id: &DeliveryId, now: Millis, audit: AuditRow, response: ResponseToStore) -> Option<bool>;
    abandon_deliveries(abandonment: &Abandonment<'_>, behind: i64) -> Abandoned;
    forget_deliveries(before: Millis, limit: u32) -> u64;
}

passed_on! {
    KeyStore {}
    tenant(name: &str, now: Millis) -> TenantPk;
    tenant_name(tenant: TenantPk) -> Option<String>;
    rename_tenant(from: &str, to: &str, by: &str, now: Millis) -> TenantRenamed;
    add_key(key: KeyRow, max_keys: usize, audit: AuditRow) -> KeyAdded;
    keys() -> Vec<KeyRow>;
    keys_of(tenant: TenantPk) -> Vec<KeyRow>;
    key_page(tenant: TenantPk, page: &PageAsk) -> Page<KeyRow>;
    key(key_id: &str) -> Option<KeyRow>;
    has_keys() -> bool;
    revoke_key(key_id: &str, now: Millis, audit: AuditRow) -> bool;
    rotate_key(rotation: Rotation, audit: AuditRow) -> bool;
    touch_key(key_id: &str, now: Millis, since: Millis, audit: Option<AuditRow>) -> ();
    key_by_hash(hash: &str) -> Option<KeyRow>;
    key_by_name(tenant: TenantPk, name: &str) -> Option<KeyRow>;
    forget_keys(tenant: TenantPk, before: Millis, kept: &[String], limit: u32) -> u64;
}

passed_on! {
    SessionStore {}
    add_session(session: SessionRow, at_most: u32) -> ();
    session(hash: &str) -> Option<SessionRow>;
    sessions_of_people(containing: &str, now: Millis, page: &PageAsk) -> Page<SessionRow>;
    end_session(hash: &str) -> ();
    end_sessions(key_hash: &str, audit: AuditRow) -> u64;
    forget_sessions(before: Millis, limit: u32) -> u64;
}

passed_on! {
    LeaseStore {
        fn leases_expire(&self) -> bool {
            self.leases.is_some() || self.inner.leases_expire()
        }

        async fn register(&self, new: Registration, ttl: Millis) -> Result<()> {
            self.pass("register").await?;
            let _clock = StoppedClock::begin();
            let replica = new.replica;
            self.inner.register(new, ttl).await?;
            if let Some(leases) = &self.leases {
                leases.send_replace(HashMap::from([(replica, expiry(ttl))]));
            }
            Ok(())
        }

        async fn renew(&self, replica: Uuid, ttl: Millis) -> Result<Renewal> {
            self.pass("renew").await?;
            let _clock = StoppedClock::begin();
            let Some(leases) = &self.leases else { return self.inner.renew(replica, ttl).await };
            let is_renewed = leases.send_if_modified(|leases| match leases.get_mut(&replica) {
                Some(until) if *until > Instant::now() => {
                    *until = expiry(ttl);
                    true
                }
                Some(_) | None => false,
            });
            Ok(if is_renewed { Renewal::Renewed { database_time: None } } else { Renewal::Expired })
        }

        async fn end_expired(&self) -> Result<()> {
            self.pass("end_expired").await?;
            let _clock = StoppedClock::begin();
            let Some(leases) = &self.leases else { return self.inner.end_expired().await };
            let (now, mut expired) = (Instant::now(), Vec::new());
            leases.send_modify(|leases| expired = leases.extract_if(|_, until| *until <= now).collect());
            for (replica, _) in expired {
                self.inner.unregister(replica).await?;
            }
            Ok(())
        }
    }
    database_time() -> Option<Millis>;
    unregister(replica: Uuid) -> ();
    claimable(now: Millis, replica: Uuid, lease: Uuid, limit: u32) -> Vec<Claimable>;
    reserve(replica: Uuid, pks: &[ThreadPk]) -> Vec<ThreadPk>;
    process_crashes() -> i64;
    count_crash(pk: ThreadPk) -> ();
    forget_crashes(pks: &[ThreadPk]) -> ();
    forget_crashes_of_others(pks: &[ThreadPk]) -> ();
    due(replica: Uuid, now: Millis, limit: u32) -> Vec<ThreadPk>;
    tenants_to_begin() -> Vec<TenantPk>;
    threads_to_begin(tenant: TenantPk, limit: u32) -> Vec<ThreadPk>;
    crashed(pks: &[ThreadPk]) -> Vec<Claimable>;
    count_to_begin(tenant: TenantPk, most: u32) -> u32;
    next_wake() -> Option<Millis>;
}

passed_on! {
    UsageReads {}
    usage(ask: &UsageAsk) -> Page<UsageSum>;
    latest_calls(tenant: TenantPk, from: Millis, limit: u32) -> Vec<ModelUse>;
}

passed_on! {
    UsageStore {}
    add_usage(tenant: TenantPk, now: Millis, calls: Vec<ModelUse>, spend: Vec<SpendChange>) -> ();
    forget_usage(tenant: TenantPk, before: Millis, behind: &CallPosition, limit: u32) -> Forgotten<CallPosition>;
}

passed_on! {
    SealedStore {}
    sealed_rows(kind: SealedKind, after: Option<&SealedRow>, limit: u32) -> Vec<SealedRow>;
    replace_sealed(row: &SealedRow, body: &str) -> bool;
}

passed_on! {
    FigureStore {
        fn pools(&self) -> Vec<Pooled> {
            self.inner.pools()
        }
    }
    figures(now: Millis, wall: Millis) -> Figures;
}

passed_on! {
    ErasureStore {}
    erase_rows(limit: u32) -> u64;
    overwrite_erased() -> bool;
}

passed_on! {
    RetentionReads {}
    tenants() -> Vec<(TenantPk, String)>;
    threads_at_rest(tenant: TenantPk, before: Millis, behind: (Millis, ThreadPk), limit: u32) -> Vec<(Millis, ThreadPk)>;
    threads_with_terms(behind: ThreadPk, limit: u32) -> Vec<(ThreadPk, TenantPk)>;
    runs_since(tenant: TenantPk, behind: &RunEnd, before: Millis, limit: u32) -> Vec<RunEnd>;
    compacted(tenant: TenantPk) -> RunEnd;
    last_entry(thread: ThreadPk, upto: i64) -> Option<i64>;
    old_entries(thread: ThreadPk, upto: i64, limit: u32) -> Vec<(i64, String)>;
    base(thread: ThreadPk) -> Option<(i64, String)>;
}

passed_on! {
    RetentionStore {}
    set_compacted(tenant: TenantPk, upto: &RunEnd) -> ();
    drop_entries(thread: ThreadPk, upto: i64) -> Dropped;
    drop_rows(thread: ThreadPk, rows: Vec<(RowKind, String)>) -> Dropped;
    drop_below_floor(thread: ThreadPk, limit: u32) -> Dropped;
    compact(compaction: Compaction) -> bool;
}

passed_on! {
    BackupStore {}
    restored() -> Option<Millis>;
    mark_restored(as_of: Millis) -> ();
    unfinished_threads(behind: ThreadPk, limit: u32) -> Vec<ThreadPk>;
    hold_restored(held: RestoreHold) -> Option<HeldCounts>;
}

passed_on! {
    TransferStore {}
    import_thread(import: NewImport) -> Committed;
}

passed_on! {
    ScheduleReads {}
    due_schedules(now: Millis, limit: u32) -> Vec<ScheduleState>;
    next_schedule() -> Option<Millis>;
    schedule_state(tenant: TenantPk, id: &str) -> Option<ScheduleState>;
}

passed_on! {
    ScheduleStore {}
    plan_schedule(planned: PlannedSchedule) -> ();
    move_schedule(moved: ScheduleMove) -> bool;
    forget_schedule(tenant: TenantPk, id: &str) -> ();
}

passed_on! {
    SpendStore {}
    spent(keys: &[SpendKey]) -> Vec<Spent>;
    add_spend_notice(notice: NewSpendNotice) -> bool;
    forget_spend(tenant: TenantPk, before: &PastPeriods, limit: u32) -> u64;
}

passed_on! {
    Store {
        fn traffic(&self) -> Traffic {
            self.inner.traffic()
        }

        fn chores(&self) -> &Chores {
            self.inner.chores()
        }

        fn describe(&self) -> String {
            self.inner.describe()
        }

        fn is_shared(&self) -> bool {
            self.inner.is_shared()
        }

        fn weakness(&self) -> Option<String> {
            self.inner.weakness()
        }

        fn for_people(&self) -> Option<Arc<dyn Store>> {
            self.readers.clone().map(|readers| readers as Arc<dyn Store>)
        }

        async fn close(&self) {
            self.inner.close().await;
        }
    }
    ping() -> ();
}
