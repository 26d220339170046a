//! Laws over scenarios over seeds, on all cores.
//!
//! Oracles first (or out of their cache), then every run. The answer does not depend on how many
//! threads there are.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::chart;
use super::engine::{Policy, run};
use super::oracle::{self, Limits, Reached};
use super::scenario::Scenario;
use super::score::Score;
use crate::law::Law;

/// A law under test: its name and how to make one.
pub struct Contender<'a> {
    /// Its name in tables.
    pub name: &'a str,
    /// Makes one.
    pub law: &'a (dyn Fn() -> Box<dyn Law> + Sync),
}

/// One run's result.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Position of its scenario.
    pub scenario: usize,
    /// The set of its scenario.
    pub set: String,
    /// Name of the scenario; with `@initial` when it is run from several initial limits.
    pub name: String,
    /// The law.
    pub law: String,
    /// The seed.
    pub seed: u64,
    /// How it did.
    pub score: Score,
}

/// How to compare.
pub struct Comparison<'a> {
    /// The scenarios; checked.
    pub scenarios: &'a [Scenario],
    /// The laws.
    pub laws: &'a [Contender<'a>],
    /// The seeds.
    pub seeds: &'a [u64],
    /// Where oracles are kept, if anywhere.
    pub cache: Option<PathBuf>,
    /// How many threads.
    pub threads: usize,
    /// Told (done, of how many) after each piece of work.
    pub progress: &'a (dyn Fn(usize, usize) + Sync),
}

impl Comparison<'_> {
    /// Runs everything; rows by scenario, initial limit, law, seed.
    pub fn run(&self) -> Vec<Row> {
        let count = self.scenarios.len();
        let jobs: Vec<(usize, u64)> =
            self.seeds.iter().flat_map(|seed| (0..count).map(move |scenario| (scenario, *seed))).collect();
        let all = count + jobs.len();
        let done = AtomicUsize::new(0);
        let note = || (self.progress)(done.fetch_add(1, Ordering::Relaxed) + 1, all);
        let limits = parallel(self.threads, count, |i| {
            let limits = self.limits(&self.scenarios[i]);
            note();
            limits
        });
        let rows = parallel(self.threads, jobs.len(), |i| {
            let (scenario, seed) = jobs[i];
            let rows = self.rows(scenario, &limits[scenario], seed);
            note();
            rows
        });
        let mut rows: Vec<Row> = rows.into_iter().flatten().collect();
        // Stable: within a scenario the order of initial limits and laws stays.
        rows.sort_by_key(|row| row.scenario);
        rows
    }

    /// The oracle's limits of a scenario, from the cache or found now.
    pub fn limits(&self, scenario: &Scenario) -> Limits {
        kept(self.cache.as_deref(), &oracle::key(scenario, 0), || oracle::find(scenario))
    }

    /// What the oracle reaches with a seed, from the cache or run now.
    pub fn reached(&self, scenario: &Scenario, limits: &Limits, seed: u64) -> Reached {
        kept(self.cache.as_deref(), &oracle::key(scenario, seed), || oracle::reach(scenario, limits, seed))
    }

    /// Draws every scenario, start and law with the first seed into `dir`, as `SCENARIO-LAW.svg`.
    ///
    /// # Errors
    /// When a file cannot be written or a chart cannot be drawn.
    pub fn charts(&self, dir: &Path) -> std::io::Result<()> {
        std::fs::create_dir_all(dir)?;
        let seed = self.seeds.first().copied().unwrap_or(1);
        for scenario in self.scenarios {
            let limits = self.limits(scenario);
            let reached = self.reached(scenario, &limits, seed);
            for (name, initial) in starts(scenario) {
                for contender in self.laws {
                    let policy = Policy::Law { law: contender.law, initial: &initial };
                    let measure = run(scenario, &policy, seed).measure;
                    let title = format!("{name}: {}", contender.name);
                    let svg =
                        chart::draw(scenario, &title, &measure, &limits, &reached).map_err(std::io::Error::other)?;
                    std::fs::write(dir.join(format!("{name}-{}.svg", contender.name)), svg)?;
                }
            }
        }
        Ok(())
    }

    fn rows(&self, at: usize, limits: &Limits, seed: u64) -> Vec<Row> {
        let scenario = &self.scenarios[at];
        let reached = self.reached(scenario, limits, seed);
        let mut rows = Vec::new();
        for (name, initial) in starts(scenario) {
            for contender in self.laws {
                let policy = Policy::Law { law: contender.law, initial: &initial };
                let measure = run(scenario, &policy, seed).measure;
                let score = Score::of(scenario, &measure, &reached);
                let (set, law) = (scenario.set.clone(), contender.name.to_owned());
                rows.push(Row { scenario: at, set, name: name.clone(), law, seed, score });
            }
        }
        rows
    }
}

/// The starts of a scenario: a name and the initial limits for each.
pub fn starts(scenario: &Scenario) -> Vec<(String, Vec<f64>)> {
    let initial = &scenario.limiter.initial;
    if scenario.limiter.count > 1 || initial.len() == 1 {
        return vec![(scenario.name.clone(), initial.clone())];
    }
    initial.iter().map(|from| (format!("{}@{from}", scenario.name), vec![*from])).collect()
}

/// Reads a value kept under `key`, or makes and keeps it. A cache that cannot be read or written
/// only costs time.
fn kept<T: Serialize + DeserializeOwned>(cache: Option<&Path>, key: &str, make: impl FnOnce() -> T) -> T {
    let Some(dir) = cache else { return make() };
    let path = dir.join(format!("{key}.json"));
    let read = std::fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok());
    read.unwrap_or_else(|| {
        let made = make();
        let half = dir.join(format!("{key}.{}.tmp", std::process::id()));
        let text = serde_json::to_vec(&made).unwrap_or_default();
        // Renamed when whole, so that no reader sees half of it.
        let _ = std::fs::create_dir_all(dir)
            .and_then(|()| std::fs::write(&half, text))
            .and_then(|()| std::fs::rename(&half, &path));
        made
    })
}

/// `work` for `0..count` on some threads; answers in order.
fn parallel<T: Send>(threads: usize, count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut made = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= count {
                return made;
            }
            made.push((at, work(at)));
        }
    };
    let mut made: Vec<(usize, T)> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(worker)).collect();
        handles.into_iter().flat_map(|handle| handle.join().expect("a run does not panic")).collect()
    });
    made.sort_by_key(|(at, _)| *at);
    made.into_iter().map(|(_, value)| value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::law::{Aimd, Fixed};
    use crate::sim::scenario::{Demand, Downstream, PhaseSpec};

    fn small(name: &str, rate: f64) -> Scenario {
        let mut made = Scenario::bare(name, 0.05, Demand::Exponential, Downstream::Fifo { backlog: None });
        made.phases = vec![PhaseSpec { seconds: 4.0, rate: Some(rate), workers: Some(4.0), ..PhaseSpec::default() }];
        made.limiter.initial = vec![4.0, 30.0];
        made
    }

    #[test]
    fn threads_and_cache_change_nothing_and_rows_stand_in_order() {
        let scenarios = [small("calm", 30.0), small("overload", 200.0)];
        let (fixed, aimd) = (|| Box::new(Fixed) as Box<dyn Law>, || Box::new(Aimd::default()) as Box<dyn Law>);
        let laws = [Contender { name: "fixed", law: &fixed }, Contender { name: "aimd", law: &aimd }];
        let dir = std::env::temp_dir().join(format!("tidegate-oracle-{}", std::process::id()));
        let run = |threads, cache: Option<&Path>| {
            let cache = cache.map(Path::to_owned);
            let (scenarios, laws) = (&scenarios[..], &laws[..]);
            Comparison { scenarios, laws, seeds: &[1, 2], cache, threads, progress: &|_, _| {} }.run()
        };
        let plain = run(1, None);
        assert_eq!(plain, run(3, Some(&dir)), "made");
        assert_eq!(plain, run(2, Some(&dir)), "read");
        std::fs::remove_dir_all(&dir).expect("it was made");
        let names: Vec<_> = plain.iter().map(|r| (r.name.as_str(), r.law.as_str(), r.seed)).take(5).collect();
        let want = [
            ("calm@4", "fixed", 1),
            ("calm@4", "aimd", 1),
            ("calm@30", "fixed", 1),
            ("calm@30", "aimd", 1),
            ("calm@4", "fixed", 2),
        ];
        assert_eq!(names, want);
    }
}
