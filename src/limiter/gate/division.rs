//! How the limit is divided between classes: who is granted what, and when it is taken back.
//!
//! All of it under the room's lock, and none of it on the way of a request that finds room. Before the
//! limit changes, all that classes keep is taken back, and granted anew after the change: nobody enters
//! by units of an old limit.

use super::classes::ClassTable;
use super::{Gate, Room};
use crate::admission::{Class, MAX_CLASSES, Mode, Part, Word, partition};
use crate::sync::{Ordering, lock};

/// How a limit is divided: what only the holder of the room's lock knows.
#[derive(Debug, Default)]
pub(super) struct Division {
    classes: Vec<Class>,
    /// Positions, the highest priority first.
    ranked: Vec<usize>,
    parts: [Part; MAX_CLASSES],
    /// More was in flight than the limit when it changed, and has not drained yet.
    over: bool,
    /// Something that is to be held for a class is still in flight elsewhere.
    pub(super) unfunded: bool,
}

impl Division {
    pub(super) fn set_classes(&mut self, classes: Vec<Class>) {
        self.ranked = (0..classes.len()).collect();
        self.ranked.sort_by_key(|at| std::cmp::Reverse(classes[*at].rank()));
        self.classes = classes;
    }

    /// Tells the classes their parts. Whoever is at swapping a word has to look again.
    fn hold(&self, table: &ClassTable, held: bool) {
        for (line, part) in table.in_use().iter().zip(&self.parts) {
            line.set_part(Part { held: if held { part.held } else { 0 }, ..*part });
            line.update(|word| ((), word.renewed()));
        }
    }
}

impl Gate {
    /// From now on classes give back at once what is not held for them.
    pub(super) fn tighten(&self, table: &ClassTable) {
        if !table.is_tight() {
            for line in table.in_use() {
                let back = line.update(|word| word.with_tight(true).give_back(line.held()));
                self.give_back(back);
            }
            table.tight.store(1, Ordering::Release);
        }
    }

    /// There is room enough again: classes may keep what they were granted. To be called now and then.
    pub(crate) fn relax(&self) {
        let Some(table) = self.classes() else { return };
        let word = self.word();
        if word.mode() != Mode::Enforce || word.is_closed() || word.in_flight() >= word.limit() - word.limit() / 8 {
            return;
        }
        let room = lock(&self.room);
        if !room.division.unfunded && room.rooms.is_empty() {
            table.tight.store(0, Ordering::Release);
            for line in table.in_use() {
                // Nobody keeps more than its cap.
                line.update(|word| ((), word.with_tight(word.is_tight() && word.granted() > line.cap())));
            }
        }
    }

    /// Takes back all that classes keep; what is held for them too.
    pub(super) fn take_back_all(&self, table: &ClassTable) {
        for line in table.in_use() {
            let back = line.update(|word| word.with_tight(true).renewed().give_back(0));
            self.give_back(back);
        }
    }

    /// Changes the common word, and divides the limit anew.
    pub(super) fn divide(&self, table: &ClassTable, room: &mut Room, change: impl Fn(Word) -> Word) {
        let division = &mut room.division;
        table.count.store(division.classes.len() as u64, Ordering::Release);
        division.hold(table, false);
        self.take_back_all(table);
        table.tight.store(1, Ordering::Release);
        let word = self.update(change);
        division.parts = partition(word.limit(), &division.classes);
        if word.mode() != Mode::Enforce || word.is_closed() {
            division.parts.iter_mut().for_each(|part| part.held = 0);
        }
        division.over = word.in_flight() > word.limit();
        division.hold(table, !division.over);
        self.settle(room);
    }

    /// Grants what is to be held, and notes when that does not succeed.
    pub(super) fn settle(&self, room: &mut Room) {
        self.fund(room);
        if room.division.unfunded && !self.word().has_waiting() {
            self.update(|word| word.with_waiting(true));
            // The last look, after the flag.
            self.fund(room);
        }
        if !room.division.unfunded && room.rooms.is_empty() {
            self.update(|word| word.with_waiting(false));
        }
    }

    /// Grants what is to be held for classes, as far as there is room.
    pub(super) fn fund(&self, room: &mut Room) {
        let Some(table) = self.classes() else { return };
        let division = &mut room.division;
        if division.over {
            // More is in flight than the limit allows: nobody keeps anything until it has drained.
            let word = self.word();
            if word.in_flight() > word.limit() {
                division.unfunded = division.parts.iter().any(|part| part.held > 0);
                return;
            }
            division.over = false;
            division.hold(table, true);
        }
        division.unfunded = false;
        for class in &division.ranked {
            let line = &table.lines[*class];
            let missing = line.held().saturating_sub(line.word().granted());
            if missing > 0 {
                let got = self.take_up_to(missing);
                let granted = line.update(|word| match word.grant(got) {
                    Some(granted) => (true, granted),
                    None => (false, word),
                });
                if !granted {
                    self.give_back(got);
                }
                division.unfunded |= got < missing;
            }
        }
    }

    /// Takes as many units from the common word as there are, at most `most`.
    fn take_up_to(&self, most: u32) -> u32 {
        loop {
            let word = self.word();
            let units = word.limit().saturating_sub(word.in_flight()).min(most);
            let taken = word.enter(units).0;
            if units == 0 || self.word.0.compare_exchange(word.0, taken, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return units;
            }
        }
    }
}
