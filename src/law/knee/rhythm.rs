//! The rhythm: short slots, of which a rare one is held lower to look at the unloaded latency.
//!
//! While the limit binds, all requests meet nearly the same in-flight level, and one level alone
//! tells nothing about a knee. A dip shows what latency is with fewer in flight. Slots also carry
//! the fraction of a small limit: 3.4 is 3 in three slots and 4 in two.

use std::time::Duration;

use crate::time::Nanos;

/// A slot, in mean latencies.
const SLOT: f64 = 1.5;
/// A dip in so many slots: at first, and at most after the knee has stayed where it was.
const RARITY: (u32, u32) = (8, 96);
/// The knee stayed when its log moved less than this.
const STAYED: f64 = 0.22;
/// A dip, in slots.
const DIP: u32 = 2;
/// Where latency hardly varies, dips are deeper by this.
const STEADY_NOISE: f64 = 0.3;
const STEADY_DEPTH: f64 = 0.25;
/// Fractions are carried by slots below this limit.
const FRACTIONAL_BELOW: f64 = 32.0;
const GOLDEN: f64 = 0.618_033_988_749_894_9;

#[derive(Clone, Debug)]
pub(super) struct Rhythm {
    slot_opened: Nanos,
    /// Slots since the last dip.
    slots: u32,
    rarity: u32,
    dip_left: u32,
    phase: f64,
    kappa: f64,
}

impl Rhythm {
    pub(super) fn new() -> Self {
        Self { slot_opened: Nanos(0), slots: 0, rarity: RARITY.0, dip_left: 0, phase: 0.0, kappa: f64::NAN }
    }

    /// Moves to the next slot when it is time.
    pub(super) fn turn(&mut self, now: Nanos, beat: f64, bound: bool, blind: bool, kappa: f64) {
        if now.since(self.slot_opened) < Duration::from_secs_f64((SLOT * beat).min(1e6)) {
            return;
        }
        self.slot_opened = now;
        self.phase = (self.phase + GOLDEN).fract();
        self.dip_left = self.dip_left.saturating_sub(1);
        if !bound {
            self.dip_left = 0;
            return;
        }
        self.slots += u32::from(blind);
        if self.slots >= self.rarity {
            let stayed = (kappa - self.kappa).abs() < STAYED;
            self.rarity = if stayed { (2 * self.rarity).min(RARITY.1) } else { RARITY.0 };
            self.kappa = kappa;
            self.slots = 0;
            self.dip_left = DIP;
        }
    }

    /// The downstream changed: look again soon.
    pub(super) fn restart(&mut self) {
        self.rarity = RARITY.0;
        self.slots = 0;
    }

    pub(super) fn is_dip(&self) -> bool {
        self.dip_left > 0
    }

    /// The limit of this slot for a `limit` where latency may rise by `exp(tol)`.
    pub(super) fn limit(&self, limit: f64, tol: f64, noise: f64) -> f64 {
        let depth = tol + 0.1 + if noise < STEADY_NOISE { STEADY_DEPTH } else { 0.0 };
        let limit = if self.is_dip() { limit * (-depth).exp() } else { limit };
        if limit < FRACTIONAL_BELOW { (limit + self.phase).floor().max(1.0) } else { limit }
    }
}
