//! The hold-off of a layer: asked before a request goes out, told what came back.

use std::borrow::Cow;

use http::request::Parts;

use super::layer::Settings;
use super::reading::Reading;
use crate::classify::Verdict;
use crate::hold_off::HoldOff;
use crate::limiter::Admit;
use crate::outcome::Outcome;
use crate::rejection::{RejectReason, Rejected};

pub(super) type KeyBy = dyn for<'a> Fn(&'a Parts) -> Cow<'a, str> + Send + Sync;

/// Tells the hold-off what came back, under the key that the request went out with.
#[derive(Debug)]
pub(super) struct Watch {
    hold_off: HoldOff,
    key: Box<str>,
}

impl Watch {
    /// Tells what the head tells; itself again when there is more to come. A long stream that began
    /// well need not end for that to be good news.
    pub(super) fn see_head(self, reading: &mut Reading) -> Option<Self> {
        if !reading.is_open() {
            self.see(&reading.end(None));
            return None;
        }
        if reading.so_far() == Outcome::Success {
            self.see(&Verdict::of(Outcome::Success));
        }
        Some(self)
    }

    pub(super) fn see(&self, verdict: &Verdict<'_>) {
        self.hold_off.see(verdict, &self.key);
    }
}

impl<E> Settings<E> {
    /// Refuses what would be held off: to be asked before there is a permit.
    pub(super) fn look(&self, request: &Parts, admit: &Admit<'_>) -> Result<(), Rejected> {
        let Some(hold_off) = &self.hold_off else { return Ok(()) };
        match hold_off.remaining(&self.key(request)) {
            Some(left) => Err(self.limiter.refuse(admit, RejectReason::HoldOff, left)),
            None => Ok(()),
        }
    }

    /// Passes, or refuses: to be asked right before the request goes out.
    pub(super) fn pass(&self, request: &Parts) -> Result<Option<Watch>, Rejected> {
        let Some(hold_off) = &self.hold_off else { return Ok(None) };
        let key = self.key(request);
        match hold_off.check(&key) {
            Ok(()) => Ok(Some(Watch { hold_off: hold_off.clone(), key: key.into() })),
            Err(held) => {
                let admit = self.admit(request);
                Err(self.limiter.refuse(&admit, RejectReason::HoldOff, held.retry_after))
            }
        }
    }

    fn key<'a>(&self, request: &'a Parts) -> Cow<'a, str> {
        self.key_by.as_ref().map_or(Cow::Borrowed(""), |by| by(request))
    }
}
