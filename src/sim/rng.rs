//! Random numbers: xoshiro256++, seeded by splitmix64, one stream for each purpose.
//!
//! Separate streams keep arrivals and work the same whatever a limiter decides, so that two laws
//! meet the same requests. The same seed gives the same bits on every machine.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// The stream number `stream` of a seed.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut x = seed ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03);
        Self { state: std::array::from_fn(|_| splitmix(&mut x)) }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let out = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }

    /// Uniform in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Uniform in `low..high`.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Log-uniform in `low..high`; both positive.
    pub fn log_between(&mut self, low: f64, high: f64) -> f64 {
        self.between(low.ln(), high.ln()).exp()
    }

    /// One of `n`, each as likely: `0..n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.unit() * n as f64) as usize).min(n.saturating_sub(1))
    }

    /// Exponential with mean 1.
    pub fn exp(&mut self) -> f64 {
        -(1.0 - self.unit()).ln()
    }

    /// Standard normal, by Box and Muller.
    pub fn normal(&mut self) -> f64 {
        let radius = (2.0 * self.exp()).sqrt();
        radius * (std::f64::consts::TAU * self.unit()).cos()
    }
}

fn splitmix(x: &mut u64) -> u64 {
    *x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (*x ^ (*x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut rng = Rng::new(1, 2);
        let n = 200_000;
        let (mut exp, mut normal, mut square) = (0.0, 0.0, 0.0);
        for _ in 0..n {
            exp += rng.exp();
            let x = rng.normal();
            normal += x;
            square += x * x;
        }
        let mean = |sum: f64| sum / f64::from(n);
        assert!((mean(exp) - 1.0).abs() < 0.01, "{}", mean(exp));
        assert!(mean(normal).abs() < 0.01 && (mean(square) - 1.0).abs() < 0.02);
    }

    #[test]
    fn streams_differ_and_repeat() {
        let first = |seed, stream| Rng::new(seed, stream).bits();
        assert_eq!(first(7, 1), first(7, 1));
        assert_ne!(first(7, 1), first(7, 2));
        assert_ne!(first(7, 1), first(8, 1));
    }
}
