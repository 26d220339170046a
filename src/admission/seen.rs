//! Which names come again and again: a count-min sketch (Cormode, Muthukrishnan 2005) that halves
//! every ten seconds. Bounded, whatever is thrown at it. A plain value.

use crate::time::Nanos;

const ROWS: usize = 4;
const CELLS: usize = 1024;
const PERIOD: u64 = 10_000_000_000;
/// Fewer sightings than this prove nothing.
const FEW: f64 = 4.0;

#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Empty until the first sighting.
    cells: Vec<u16>,
    total: u32,
    halved: Nanos,
}

impl Seen {
    /// Notes a sighting; tells whether the name comes more often than chance would have it.
    pub(super) fn stands_out(&mut self, key: u64, now: Nanos) -> bool {
        self.fade(now);
        self.cells.resize(ROWS * CELLS, 0);
        self.total = self.total.saturating_add(1);
        let mut least = u16::MAX;
        for row in 0..ROWS {
            let cell = &mut self.cells[row * CELLS + cell_of(key, row)];
            *cell = cell.saturating_add(1);
            least = least.min(*cell);
        }
        // A name that comes once shares its cells with others: about so many, by chance.
        let mean = f64::from(self.total) / CELLS as f64;
        f64::from(least) >= FEW.max(mean + 3.0 * mean.sqrt())
    }

    fn fade(&mut self, now: Nanos) {
        let periods = now.0.saturating_sub(self.halved.0) / PERIOD;
        if periods == 0 {
            return;
        }
        self.halved = Nanos(self.halved.0 + periods * PERIOD);
        let by = u32::try_from(periods).unwrap_or(u32::MAX).min(15);
        self.cells.iter_mut().for_each(|cell| *cell >>= by);
        self.total >>= by;
    }
}

/// A cell for each row: the key stirred with the row's own odd number.
fn cell_of(key: u64, row: usize) -> usize {
    const STIRS: [u64; ROWS] =
        [0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F, 0x1656_67B1_9E37_79F9, 0xFF51_AFD7_ED55_8CCD];
    let stirred = (key ^ (key >> 29)).wrapping_mul(STIRS[row]);
    ((stirred ^ (stirred >> 32)).wrapping_mul(STIRS[row]) >> 54) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_again_stands_out_and_a_flood_of_names_does_not_hide_it() {
        let mut seen = Seen::default();
        assert_eq!(
            (0..6).map(|_| seen.stands_out(7, Nanos(0))).collect::<Vec<_>>(),
            [false, false, false, true, true, true]
        );
        let mut seen = Seen::default();
        let mut found = 0;
        for n in 0..10_000_u64 {
            found += u32::from(seen.stands_out(n.wrapping_mul(0xD134_2543_DE82_EF95), Nanos(0)));
            if n % 200 == 0 && seen.stands_out(7, Nanos(0)) {
                found += 1_000_000;
            }
        }
        assert!(found >= 10_000_000, "{found}: 50 in 10,000 are noticed");
        assert_eq!(found % 1_000_000, 0, "and none of the others");
    }

    #[test]
    fn sightings_fade() {
        let mut seen = Seen::default();
        (0..3).for_each(|_| assert!(!seen.stands_out(7, Nanos(0))));
        assert!(!seen.stands_out(7, Nanos(10 * PERIOD)));
        assert!(!seen.stands_out(7, Nanos(u64::MAX)));
    }
}
