//! The minimum and maximum that a limit may take: an operator's, checked once.

use std::fmt;

/// The largest limit that can be set. In-flight units, limit and flags share one word.
pub const MAX_LIMIT: u32 = (1 << 29) - 1;

/// `1 <= min <= max <=` [`MAX_LIMIT`]; a value of this type cannot be wrong.
///
/// Zero never means unlimited: it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    min: u32,
    max: u32,
}

impl Bounds {
    /// Checks and builds bounds, in units in flight.
    ///
    /// # Errors
    /// [`InvalidBounds`] when `min` is 0, `min > max`, or `max > MAX_LIMIT`.
    pub const fn new(min: u32, max: u32) -> Result<Self, InvalidBounds> {
        if min == 0 || min > max || max > MAX_LIMIT {
            return Err(InvalidBounds { min, max });
        }
        Ok(Self { min, max })
    }

    /// The smallest limit.
    pub const fn min(self) -> u32 {
        self.min
    }

    /// The largest limit.
    pub const fn max(self) -> u32 {
        self.max
    }

    /// Whether `limit` lies within.
    pub const fn contains(self, limit: u32) -> bool {
        self.min <= limit && limit <= self.max
    }

    /// The fractional limit of a law, held within the bounds. NaN becomes the minimum.
    pub fn clamp(self, limit: f64) -> f64 {
        if limit.is_nan() {
            return f64::from(self.min);
        }
        limit.clamp(f64::from(self.min), f64::from(self.max))
    }

    /// The whole number that is enforced for a law's fractional `limit`: rounded, within the bounds.
    pub fn apply(self, limit: f64) -> u32 {
        // The clamp keeps the value within u32, so the cast cannot wrap.
        self.clamp(limit).round() as u32
    }
}

impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..={}", self.min, self.max)
    }
}

/// Bounds that cannot be: says the values and what is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidBounds {
    /// The minimum asked for.
    pub min: u32,
    /// The maximum asked for.
    pub max: u32,
}

impl fmt::Display for InvalidBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bounds min = {}, max = {} are not allowed: need 1 <= min <= max <= {MAX_LIMIT}", self.min, self.max)
    }
}

impl std::error::Error for InvalidBounds {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_bounds_are_refused_with_the_values() {
        for (min, max) in [(0, 10), (0, 0), (50, 10), (1, MAX_LIMIT + 1)] {
            let err = Bounds::new(min, max).expect_err("must be refused");
            assert!(err.to_string().contains(&format!("min = {min}")), "{err}");
        }
    }

    #[test]
    fn any_float_is_held_within() {
        let bounds = Bounds::new(2, 10).expect("valid");
        for (given, applied) in
            [(f64::NAN, 2), (f64::INFINITY, 10), (f64::NEG_INFINITY, 2), (-0.0, 2), (5.4, 5), (5.5, 6)]
        {
            assert_eq!(bounds.apply(given), applied, "{given}");
        }
    }
}
