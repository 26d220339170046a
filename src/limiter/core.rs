//! The shell around the pure values: owns the clock, the gate, the counters and the control.

use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::Poll;
use std::time::Duration;

use super::admit::Admit;
use super::classes::{InvalidClasses, NamedClasses};
use super::events;
use super::gate::{Arrival, Ask, ClassTable, Entered, Fate, Gate, Patience, Refusal, Wait};
use super::permit::Held;
use super::recorder::Recorder;
use super::tenants::Tenants;
use super::thread::roll;
use crate::admission::{Class, MAX_CLASS_UNITS, Mode, Word};
use crate::canary::Canary;
use crate::clock::Clock;
use crate::control::Control;
use crate::law::Reason;
use crate::outcome::Outcome;
use crate::rejection::{RejectReason, Rejected, Rejection, retry_after};
use crate::time::Nanos;
use crate::window::{Sample, level_of};

/// How long and how many may wait.
#[derive(Debug)]
struct RoomSize {
    len: AtomicU32,
    wait_ns: AtomicU64,
}

/// Control and what only its owner writes.
#[derive(Debug)]
pub(super) struct Controlled {
    pub(super) control: Control,
    pub(super) decisions: [u64; Reason::ALL.len()],
    stalled: bool,
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(super) name: Arc<str>,
    pub(super) clock: Clock,
    pub(super) gate: Gate,
    pub(super) classes: NamedClasses,
    /// Hashes tenants, differently in each limiter: nobody can aim at another's turns.
    tenant_names: RandomState,
    pub(super) recorder: Recorder,
    room: RoomSize,
    controlled: Mutex<Controlled>,
    /// Copies of what the control has learned, for refusals: nanoseconds, and finished per 1000 s.
    typical_ns: AtomicU64,
    drain_milli: AtomicU64,
    canary: Option<Canary>,
}

impl Core {
    pub(super) fn new(
        name: Arc<str>,
        clock: Clock,
        control: Control,
        mode: Mode,
        len: u32,
        wait: Duration,
        canary: Option<Canary>,
    ) -> Self {
        let core = Self {
            name,
            clock,
            gate: Gate::new(control.applied(), mode, clock),
            classes: NamedClasses::default(),
            tenant_names: RandomState::new(),
            recorder: Recorder::new(control.sampler()),
            room: RoomSize { len: AtomicU32::new(0), wait_ns: AtomicU64::new(0) },
            controlled: Mutex::new(Controlled { control, decisions: [0; Reason::ALL.len()], stalled: false }),
            typical_ns: AtomicU64::new(0),
            drain_milli: AtomicU64::new(0),
            canary,
        };
        core.set_room(len, wait);
        core
    }

    pub(super) fn set_room(&self, len: u32, wait: Duration) {
        self.room.len.store(len, Ordering::Relaxed);
        self.room.wait_ns.store(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn room_size(&self) -> (u32, Duration) {
        (self.room.len.load(Ordering::Relaxed), Duration::from_nanos(self.room.wait_ns.load(Ordering::Relaxed)))
    }

    pub(super) fn set_classes(&self, classes: &[Class]) -> Result<(), InvalidClasses> {
        // Under the lock, so that two changes do not mix.
        let _control = self.controlled();
        self.gate.set_classes(self.classes.assign(classes)?);
        Ok(())
    }

    pub(super) fn set_tenants(&self, tenants: &Tenants) {
        self.gate.set_turns(&tenants.policy(&self.tenant_names));
    }

    /// Enters without waiting.
    #[inline]
    pub(super) fn enter(&self, admit: &Admit<'_>) -> Result<Held, Refusal> {
        let weight = admit.units();
        if let Some(table) = self.gate.classes() {
            return self.enter_class(table, admit);
        }
        match self.gate.try_enter(weight) {
            Ok(word) => Ok(self.entered(weight, word)),
            Err(word) => Err(if word.is_closed() { Refusal::Closed } else { Refusal::Limit }),
        }
    }

    #[inline(never)]
    fn enter_class(&self, table: &ClassTable, admit: &Admit<'_>) -> Result<Held, Refusal> {
        let (class, weight) = (self.classes.position(admit), admit.units().min(MAX_CLASS_UNITS));
        let entered = self.gate.try_enter_class(table, class, weight)?;
        let mode = entered.word.map_or(Mode::Enforce, Word::mode);
        if entered.over && mode == Mode::Shadow {
            self.recorder.would_reject();
        }
        let level = if mode != Mode::Off && self.recorder.is_timed() {
            let level = self.gate.in_flight();
            (level, self.start_timing(level))
        } else {
            (self.gate.word().in_flight(), Nanos::NEVER)
        };
        Ok(Held::new(weight, level.0, level.1).of_class(class as u32 + 1))
    }

    #[inline]
    fn entered(&self, weight: u32, word: Word) -> Held {
        let start = match word.mode() {
            Mode::Enforce if self.recorder.is_timed() => self.start_timing(word.in_flight()),
            Mode::Enforce => Nanos::NEVER,
            _ => self.entered_unenforced(weight, word),
        };
        Held::new(weight, word.in_flight(), start)
    }

    #[cold]
    fn entered_unenforced(&self, weight: u32, word: Word) -> Nanos {
        if word.mode() == Mode::Off {
            return Nanos::NEVER;
        }
        if !word.leave(weight).fits(weight) {
            self.recorder.would_reject();
        }
        if self.recorder.is_timed() { self.start_timing(word.in_flight()) } else { Nanos::NEVER }
    }

    #[inline(never)]
    fn start_timing(&self, in_flight: u32) -> Nanos {
        let start = self.clock.now();
        self.recorder.unfinished.start(level_of(in_flight), start);
        start
    }

    /// A timed request has its outcome.
    #[inline(never)]
    pub(super) fn sample(&self, start: Nanos, in_flight: u32, outcome: Outcome) {
        let end = self.clock.now();
        let sample = Sample { start, end, in_flight, outcome };
        self.recorder.unfinished.finish(level_of(in_flight), start);
        self.recorder.latency.record(sample.latency(), self.recorder.one_in());
        self.recorder.sample(sample);
        self.close_window_if_due(end);
    }

    /// A timed request whose answer began well was refused after all: in trailers, or inside a stream. Its
    /// latency was taken; what is left to tell the law is the refusal, which took no time of its own.
    #[cold]
    pub(super) fn late_pressure(&self, in_flight: u32, outcome: Outcome) {
        let now = self.clock.now();
        self.recorder.sample(Sample { start: now, end: now, in_flight, outcome });
    }

    /// A timed request gives its place back.
    #[inline(never)]
    pub(super) fn record_hold(&self, start: Nanos) {
        self.recorder.hold.record(self.clock.now().since(start), self.recorder.one_in());
    }

    /// Enters, after a wait if need be. Cancel-safe: a dropped future leaves nothing behind.
    pub(super) async fn wait(&self, admit: &Admit<'_>) -> Result<Held, Rejected> {
        let now = self.clock.now();
        let ask = self.ask(admit);
        let (most, longest) = self.room_size();
        let (most_of_class, longest_of_class) = self.room_of(ask.class);
        let longest = longest.min(longest_of_class);
        let client = admit.until().map(|at| self.clock.at(at));
        let deadline = client.map_or(now + longest, |client| client.min(now + longest));
        let arrival = self.gate.arrive(ask, |ahead| {
            if most.min(most_of_class) == 0 {
                Err(RejectReason::LimitReached)
            } else if client.is_some_and(|client| now + self.estimate(ahead) >= client) {
                Err(RejectReason::DeadlineUnmeetable)
            } else {
                Ok(Patience { deadline, most_of_class, most })
            }
        });
        let fate = match arrival {
            Err(reason) => return Err(self.reject(admit, reason)),
            Ok(Arrival::Closed) => Fate::Closed,
            Ok(Arrival::Full) => Fate::Evicted,
            Ok(Arrival::Admitted(entered)) => return Ok(self.admitted(ask.weight, entered)),
            Ok(Arrival::Waits(wait)) => self.wait_until(wait, deadline).await,
        };
        match fate {
            Fate::Admitted(entered) => {
                self.recorder.waited(self.clock.now().since(now));
                if let Some(class) = entered.class.checked_sub(1) {
                    self.classes.at(class as usize).waited.fetch_add(1, Ordering::Relaxed);
                }
                Ok(self.admitted(ask.weight, entered))
            }
            Fate::Closed => Err(self.reject(admit, RejectReason::Closed)),
            Fate::Evicted => Err(self.reject(admit, RejectReason::QueueFull)),
            // An adaptive queue may have sent it away before its own time was up.
            Fate::Expired if client.is_some_and(|client| client <= deadline && client <= self.clock.now()) => {
                Err(self.reject(admit, RejectReason::ClientDeadline))
            }
            Fate::Expired => Err(self.reject(admit, RejectReason::QueueTimeout)),
        }
    }

    fn ask(&self, admit: &Admit<'_>) -> Ask {
        let tenant = admit.tenant_name().map(|name| self.tenant_names.hash_one(name));
        match self.gate.classes() {
            Some(_) => Ask { class: self.classes.position(admit), tenant, weight: admit.units().min(MAX_CLASS_UNITS) },
            None => Ask { class: 0, tenant, weight: admit.units() },
        }
    }

    /// How many of a class may wait, and how long.
    fn room_of(&self, class: usize) -> (u32, Duration) {
        match self.gate.classes() {
            Some(_) => self.classes.at(class).room(),
            None => (u32::MAX, Duration::MAX),
        }
    }

    async fn wait_until(&self, wait: Wait<'_>, deadline: Nanos) -> Fate {
        let mut wait = wait;
        let mut time_out = pin!(tokio::time::sleep_until(self.clock.instant_of(deadline)));
        let fate = poll_fn(|cx| match wait.poll(cx) {
            Poll::Ready(fate) => Poll::Ready(Some(fate)),
            Poll::Pending => time_out.as_mut().poll(cx).map(|()| None),
        })
        .await;
        match fate {
            Some(fate) => fate,
            None => wait.give_up(),
        }
    }

    fn admitted(&self, weight: u32, Entered { level, class }: Entered) -> Held {
        let timed = self.gate.word().mode() != Mode::Off && self.recorder.is_timed();
        let start = if timed { self.start_timing(level) } else { Nanos::NEVER };
        Held::new(weight, level, start).of_class(class)
    }

    /// Estimated wait behind `ahead` others, and the time the work itself takes.
    fn estimate(&self, ahead: u32) -> Duration {
        let drain = self.drain_rate();
        let wait = if drain > 0.0 { (f64::from(ahead) + 1.0) / drain } else { 0.0 };
        Duration::from_secs_f64(wait.min(1e6)) + self.typical_latency()
    }

    pub(super) fn typical_latency(&self) -> Duration {
        Duration::from_nanos(self.typical_ns.load(Ordering::Relaxed))
    }

    pub(super) fn drain_rate(&self) -> f64 {
        self.drain_milli.load(Ordering::Relaxed) as f64 / 1000.0
    }

    /// Counts a refusal and says it in full.
    #[cold]
    pub(super) fn reject(&self, admit: &Admit<'_>, reason: RejectReason) -> Rejected {
        self.recorder.rejected(reason);
        self.close_window_if_due(self.clock.now());
        let word = self.gate.word();
        let queued = self.gate.queued();
        let class = self.gate.classes().map(|_| self.classes.at(self.classes.position(admit)));
        if let Some(class) = class {
            class.count_rejected(reason);
        }
        let name = class.and_then(|class| class.name().map(|name| &**name)).or(admit.class_name());
        let jitter = f64::from(roll()) / f64::from(u32::MAX);
        Rejection {
            limiter: Arc::clone(&self.name),
            class: name.map(Into::into),
            reason,
            limit: word.limit(),
            in_flight: self.gate.in_flight(),
            queued,
            retry_after: retry_after(queued, self.drain_rate(), jitter),
        }
        .into()
    }

    /// Closes the window when it is time. Nobody waits: if another is at it, it is theirs.
    #[inline]
    pub(super) fn close_window_if_due(&self, now: Nanos) {
        if self.recorder.may_be_due(now) {
            self.close_window(now);
        }
    }

    fn close_window(&self, now: Nanos) {
        let controlled = match self.controlled.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        self.close_window_locked(controlled, now);
    }

    fn close_window_locked(&self, mut controlled: MutexGuard<'_, Controlled>, now: Nanos) {
        let control = &mut controlled.control;
        while let Some(sample) = self.recorder.next_sample() {
            control.push(sample);
        }
        let (word, in_flight) = (self.gate.word(), self.gate.in_flight());
        if !control.is_due(now) || word.mode() == Mode::Off {
            return;
        }
        control.set_local_overload(self.canary.as_ref().and_then(Canary::late).map(|late| (late.by, late.news)));
        let record = control.close(now, &self.recorder.totals(), in_flight, &self.recorder.unfinished);
        let (new, reason, stalled) = (record.new, record.reason, record.stalled);
        let moved = (record.old != new).then(|| record.clone());
        self.recorder.follow(control.sampler());
        self.typical_ns.store((control.sampler().typical_latency() * 1e9) as u64, Ordering::Relaxed);
        self.drain_milli.store((control.sampler().drain_rate() * 1e3) as u64, Ordering::Relaxed);
        controlled.decisions[reason.index()] += 1;
        let was_stalled = std::mem::replace(&mut controlled.stalled, stalled);
        // The word changes under the lock, so that limits are put in force in the order of decisions.
        let waiting = moved.is_some() && self.gate.set_limit(new);
        drop(controlled);
        if waiting {
            self.gate.serve();
        }
        self.gate.relax();
        if let Some(record) = moved {
            events::limit_changed(&self.name, &record);
        }
        match (was_stalled, stalled) {
            (false, true) => events::stall_began(&self.name, in_flight),
            (true, false) => events::stall_ended(&self.name),
            _ => {}
        }
    }

    /// The control, after whatever window is due was closed. Held for a few microseconds only.
    pub(super) fn controlled(&self) -> MutexGuard<'_, Controlled> {
        let lock = || self.controlled.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.clock.now();
        if self.recorder.may_be_due(now) {
            self.close_window_locked(lock(), now);
        }
        lock()
    }

    /// Changes the control and puts its limit in force at once.
    pub(super) fn change(&self, change: impl FnOnce(&mut Control, Nanos)) {
        let mut controlled = self.controlled();
        change(&mut controlled.control, self.clock.now());
        let waiting = self.gate.set_limit(controlled.control.applied());
        drop(controlled);
        if waiting {
            self.gate.serve();
        }
    }
}
