//! What a request brings to the limiter.

use std::time::Instant;

use super::classes::ClassId;
use crate::admission::MAX_WEIGHT;

/// Who asks, for how much, and until when. Everything has a default: `Admit::new()` is one unit,
/// no class, no tenant, no deadline.
#[derive(Clone, Copy, Debug, Default)]
pub struct Admit<'a> {
    class: Option<&'a str>,
    chosen: Option<ClassId>,
    tenant: Option<&'a str>,
    weight: u32,
    deadline: Option<Instant>,
}

impl<'a> Admit<'a> {
    /// One unit.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// The class it belongs to, by name. One that the limiter does not know counts as its default class.
    /// Named in refusals.
    #[must_use]
    pub fn class(mut self, class: &'a str) -> Self {
        self.class = Some(class);
        self
    }

    /// The class it belongs to, found once by [`Limiter::class_id`](super::Limiter::class_id). Goes before
    /// a name.
    #[must_use]
    #[inline]
    pub fn class_id(mut self, class: ClassId) -> Self {
        self.chosen = Some(class);
        self
    }

    /// Who asks: those who wait take turns by tenant.
    #[must_use]
    pub fn tenant(mut self, tenant: &'a str) -> Self {
        self.tenant = Some(tenant);
        self
    }

    /// Units it takes, `1..=`[`MAX_WEIGHT`]; what lies outside counts as the nearer end.
    /// More than the limit is admitted alone, when nothing else is in flight.
    #[must_use]
    pub fn weight(mut self, weight: u32) -> Self {
        self.weight = weight;
        self
    }

    /// When its answer is no longer of use. It is refused on arrival when that cannot be met, and
    /// leaves the waiting room at this moment.
    #[must_use]
    pub fn deadline(mut self, at: Instant) -> Self {
        self.deadline = Some(at);
        self
    }

    /// As [`Admit::deadline`], unless it has an earlier one.
    #[must_use]
    pub fn deadline_at_most(mut self, at: Instant) -> Self {
        self.deadline = Some(self.deadline.map_or(at, |known| known.min(at)));
        self
    }

    /// The tenant, if one was named.
    pub fn tenant_name(&self) -> Option<&'a str> {
        self.tenant
    }

    /// The class, if one was named.
    pub fn class_name(&self) -> Option<&'a str> {
        self.class
    }

    #[inline]
    pub(super) fn class_chosen(&self) -> Option<ClassId> {
        self.chosen
    }

    #[inline]
    pub(super) fn units(&self) -> u32 {
        self.weight.clamp(1, MAX_WEIGHT)
    }

    #[inline]
    pub(super) fn until(&self) -> Option<Instant> {
        self.deadline
    }
}
