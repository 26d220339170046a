//! Classes at the gate: each has a word of its own, for the units it was granted.
//!
//! Units are granted out of the common word, where they count as in flight from then on, whether the
//! class uses them or keeps them. A request that fits into what its class was granted enters by the
//! class's word alone; else the missing units are taken from the common word first. So what all
//! classes use together never passes what the common word admitted, whatever races with what.
//!
//! While there is room a class keeps what it was granted, so that its next request is quick. When
//! the limiter is short of units it is *tight*: classes give back at once what is not held for them
//! (see [`division`](super::division)). Invariants: the sum of all grants is within the limit, or no
//! class keeps anything that is not in flight; and what a class keeps is within its cap.

use super::{Ask, Entered, Gate, Room};
use crate::admission::{Blocked, ClassWord, MAX_CLASS_UNITS, MAX_CLASSES, Mode, Part, Rooms, Word};
use crate::rejection::RejectReason;
use crate::sync::{AtomicU64, Ordering, lock};

/// One class: its word and its part of the limit, on a cache line of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct ClassLine {
    word: AtomicU64,
    /// What is held for it (upper half), and its cap.
    part: AtomicU64,
    reserve: AtomicU64,
}

impl ClassLine {
    #[inline]
    pub(super) fn word(&self) -> ClassWord {
        ClassWord(self.word.load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn held(&self) -> u32 {
        (self.part.load(Ordering::Acquire) >> 32) as u32
    }

    #[inline]
    pub(super) fn cap(&self) -> u32 {
        self.part.load(Ordering::Acquire) as u32
    }

    pub(super) fn set_part(&self, part: Part) {
        let [held, cap] = [part.held, part.cap].map(|units| u64::from(units.min(MAX_CLASS_UNITS)));
        self.part.store(held << 32 | cap, Ordering::Release);
        self.reserve.store(u64::from(part.reserve), Ordering::Relaxed);
    }

    #[inline]
    fn swap(&self, old: ClassWord, new: ClassWord) -> bool {
        self.word.compare_exchange(old.0, new.0, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Changes the word; gives what `change` gave with the word that was swapped in.
    pub(super) fn update<T>(&self, mut change: impl FnMut(ClassWord) -> (T, ClassWord)) -> T {
        loop {
            let old = self.word();
            let (given, new) = change(old);
            if old == new || self.swap(old, new) {
                return given;
            }
        }
    }
}

/// The words of all classes.
#[derive(Debug)]
pub(crate) struct ClassTable {
    pub(super) lines: Box<[ClassLine]>,
    /// How many of them are in use.
    pub(super) count: AtomicU64,
    /// 1 while all of them are tight: then nobody keeps what another could use. Written under the lock.
    pub(super) tight: AtomicU64,
}

impl Default for ClassTable {
    fn default() -> Self {
        Self {
            lines: (0..MAX_CLASSES).map(|_| ClassLine::default()).collect(),
            count: AtomicU64::new(0),
            tight: AtomicU64::new(0),
        }
    }
}

/// What a class has and uses at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClassUse {
    pub(crate) used: u32,
    pub(crate) part: Part,
}

impl ClassTable {
    pub(super) fn is_tight(&self) -> bool {
        self.tight.load(Ordering::Acquire) != 0
    }

    pub(super) fn in_use(&self) -> &[ClassLine] {
        &self.lines[..self.count.load(Ordering::Acquire) as usize]
    }

    /// Units granted and not in flight.
    pub(super) fn spare(&self) -> u32 {
        self.in_use().iter().map(|line| line.word().spare()).fold(0, u32::saturating_add)
    }

    pub(crate) fn usage(&self, class: usize) -> ClassUse {
        let line = &self.lines[class];
        let reserve = u32::try_from(line.reserve.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
        ClassUse { used: line.word().used(), part: Part { reserve, held: line.held(), cap: line.cap() } }
    }

    pub(super) fn claims(&self, class: usize, weight: u32) -> bool {
        let line = &self.lines[class];
        u64::from(line.word().used()) + u64::from(weight) <= line.reserve.load(Ordering::Relaxed)
    }

    pub(super) fn note_queued(&self, class: usize) {
        self.lines[class].update(|word| ((), word.with_queued(true)));
    }

    /// Between a flag in the common word and a look at what is in flight: whoever leaves a class from
    /// here on sees the flag.
    pub(super) fn settle(&self) {
        for line in self.in_use() {
            line.word.fetch_or(0, Ordering::AcqRel);
        }
    }

    pub(super) fn note_drained<T>(&self, rooms: &Rooms<T>) {
        for (class, line) in self.in_use().iter().enumerate() {
            if line.word().is_queued() && rooms.len_of(class) == 0 {
                line.update(|word| ((), word.with_queued(false)));
            }
        }
    }
}

/// Why a newcomer does not enter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Closed,
    /// The limit is reached, or somebody waits who goes first.
    Limit,
    /// Its class is at its cap.
    Class,
}

impl Refusal {
    pub(crate) fn reason(self) -> RejectReason {
        match self {
            Refusal::Closed => RejectReason::Closed,
            Refusal::Limit => RejectReason::LimitReached,
            Refusal::Class => RejectReason::ClassCap,
        }
    }
}

impl From<Blocked> for Refusal {
    fn from(blocked: Blocked) -> Self {
        match blocked {
            Blocked::Class => Refusal::Class,
            Blocked::Shared => Refusal::Limit,
        }
    }
}

/// Who enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    Newcomer,
    /// Goes first of those who wait for what all share.
    Waiter,
    /// Others who wait go first; it may have what its class was granted.
    OwnOnly,
}

/// How somebody entered a class: by the class's own units, or with this common word; and whether shadow
/// mode let it in where it would not have fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InClass {
    pub(crate) word: Option<Word>,
    pub(crate) over: bool,
}

impl Gate {
    #[inline]
    pub(crate) fn classes(&self) -> Option<&ClassTable> {
        self.classes.get().map(|table| &**table)
    }

    /// Enters a class without waiting. Takes no lock as long as there is room.
    #[inline]
    pub(crate) fn try_enter_class(&self, table: &ClassTable, class: usize, weight: u32) -> Result<InClass, Refusal> {
        let line = &table.lines[class];
        let word = ClassWord(line.word.load(Ordering::Acquire));
        if let Some(entered) = word.enter(weight)
            && !word.is_queued()
            && line.swap(word, entered)
        {
            return Ok(InClass { word: None, over: false });
        }
        self.enter_by_common(table, class, weight)
    }

    #[inline(never)]
    fn enter_by_common(&self, table: &ClassTable, class: usize, weight: u32) -> Result<InClass, Refusal> {
        match self.enter_class(&table.lines[class], weight, Who::Newcomer) {
            Err(_) if self.word().is_closed() => Err(Refusal::Closed),
            // What other classes keep may suffice, or it may be too heavy for all but an idle limiter.
            Err(Blocked::Shared) if !table.is_tight() || self.in_flight() == 0 => {
                let mut room = lock(&self.room);
                let ask = Ask { class, tenant: None, weight };
                self.enter_class_locked(table, &mut room, ask)
                    .map(|_| InClass { word: None, over: false })
                    .ok_or(Refusal::Limit)
            }
            other => other.map_err(Refusal::from),
        }
    }

    /// Enters a class: by what it was granted, or with the missing units from the common word.
    fn enter_class(&self, line: &ClassLine, weight: u32, who: Who) -> Result<InClass, Blocked> {
        loop {
            let word = line.word();
            if who == Who::Newcomer && word.is_queued() {
                return Err(Blocked::Shared);
            }
            if let Some(entered) = word.enter(weight) {
                if line.swap(word, entered) {
                    return Ok(InClass { word: None, over: false });
                }
                continue;
            }
            let enforced = self.word().mode() == Mode::Enforce;
            let over_cap = !word.fits(weight, line.cap());
            if over_cap && enforced {
                return Err(Blocked::Class);
            }
            if who == Who::OwnOnly {
                return Err(Blocked::Shared);
            }
            let missing = weight - word.spare();
            let common = self
                .enter_if(missing, |w| if who == Who::Waiter { w.admits_waiter(missing) } else { w.admits(missing) })
                .map_err(|_| Blocked::Shared)?;
            match self.enter_granted(line, weight, missing, enforced, who) {
                Some(()) => {
                    let over = !enforced && (over_cap || !common.leave(missing).fits(missing));
                    return Ok(InClass { word: Some(common), over });
                }
                // The class changed meanwhile: give back and look again. Others may have looked while
                // the units were under way, and wait for them.
                None if self.give_back(missing) && who == Who::Newcomer => self.serve(),
                None => {}
            }
        }
    }

    /// The second half of an entry: `units` more are the class's. `None` when it does not fit any more.
    fn enter_granted(&self, line: &ClassLine, weight: u32, units: u32, enforced: bool, who: Who) -> Option<()> {
        let back = line.update(|word| {
            let fits = !enforced || word.fits(weight, line.cap());
            let may = fits && (who != Who::Newcomer || !word.is_queued());
            let entered = word.grant(units).and_then(|granted| granted.enter(weight)).filter(|_| may);
            match entered {
                Some(entered) => {
                    // What outweighs the cap gives everything back at its end.
                    let entered = entered.with_tight(word.is_tight() || entered.used() > line.cap());
                    let keep = if entered.is_tight() { line.held() } else { line.cap() };
                    let (back, kept) = entered.give_back(keep);
                    (Some(back), kept)
                }
                None => (None, word),
            }
        })?;
        if back > 0 && self.give_back(back) && who == Who::Newcomer {
            self.serve();
        }
        Some(())
    }

    /// A waiter's try, under the room's lock.
    pub(super) fn enter_waiter(
        &self,
        table: &ClassTable,
        class: usize,
        weight: u32,
        own_only: bool,
    ) -> Result<Entered, Blocked> {
        let who = if own_only { Who::OwnOnly } else { Who::Waiter };
        let mut entered = self.enter_class(&table.lines[class], weight, who);
        if entered == Err(Blocked::Shared) && !own_only && self.in_flight() == 0 {
            // Nothing is in flight, and what is held for others stands in the way of a heavy one.
            self.take_back_all(table);
            entered = self.enter_class(&table.lines[class], weight, who);
        }
        entered.map(|_| Entered { level: self.in_flight(), class: class as u32 + 1 })
    }

    /// A newcomer's try, under the room's lock: with what classes keep though it is not held for them.
    pub(super) fn enter_class_locked(&self, table: &ClassTable, room: &mut Room, ask: Ask) -> Option<Entered> {
        self.tighten(table);
        self.fund(room);
        if room.rooms.len_of(ask.class) > 0 {
            return None;
        }
        let own_only = self.word().has_waiting();
        let entered = self.enter_waiter(table, ask.class, ask.weight, own_only).ok();
        self.settle(room);
        entered
    }

    /// Leaves, for whatever class it was counted (position plus one, 0 for none).
    #[inline(never)]
    pub(crate) fn leave_place(&self, class: u32, weight: u32) {
        match class.checked_sub(1) {
            None => self.leave(weight),
            Some(class) => self.leave_class(class as usize, weight),
        }
    }

    #[inline]
    fn leave_class(&self, class: usize, weight: u32) {
        let Some(table) = self.classes() else { return };
        let line = &table.lines[class];
        let word = line.word();
        if !word.is_tight() && !word.is_queued() && line.swap(word, word.leave(weight)) {
            return;
        }
        self.leave_tight(line, weight);
    }

    #[inline(never)]
    fn leave_tight(&self, line: &ClassLine, weight: u32) {
        let (back, last, queued) = line.update(|word| {
            let left = word.leave(weight);
            let (back, kept) = if word.is_tight() { left.give_back(line.held()) } else { (0, left) };
            ((back, left.used() == 0, word.is_queued()), kept)
        });
        let waiting = back > 0 && self.give_back(back);
        // One that is heavier than what nobody holds waits for an idle limiter, not for units.
        let idle = || last && self.word().has_waiting();
        if waiting || queued || idle() {
            self.serve();
        }
    }
}
