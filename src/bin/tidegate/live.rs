//! What runs now: limiters, upstreams and the table that leads to them; and how a new config is put
//! in their place.
//!
//! Everything that can fail happens before anything changes. Limiters keep what is in flight, what
//! they learned and who waits; upstreams whose settings are the same keep their connections.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use arc_swap::ArcSwap;
use tidegate::alerts::Alerts;
use tidegate::config::{Config, LimiterConfig};
use tidegate::{Canary, Ceiling, HoldOff, Limiter, LimiterBuilder};

use crate::alerting;
use crate::ceilings::{self, Turns};
use crate::proxy::Answers;
use crate::route::{Guard, Table};
use crate::upstream::Upstream;

/// The running parts.
pub(crate) struct Live {
    workers: usize,
    alerts: Alerts,
    /// Watches the worker threads: one that is late is this process's own overload.
    canary: Canary,
    /// What happens to shared ceilings.
    turns: Turns,
    table: ArcSwap<Table>,
    parts: Mutex<Parts>,
}

/// A config with everything that it needs, ready to be put in force.
pub(crate) struct Prepared(Parts);

/// What the table was made from.
struct Parts {
    config: Arc<Config>,
    upstreams: BTreeMap<String, Arc<Upstream>>,
    limiters: BTreeMap<String, Limiter>,
    /// One for each upstream, heeded or not.
    hold_offs: BTreeMap<String, HoldOff>,
    /// What the upstreams' answers meant, so far.
    answers: BTreeMap<String, Arc<Answers>>,
    ceilings: BTreeMap<String, Ceiling>,
}

impl Live {
    /// Starts everything that `config` names, for so many worker threads.
    pub(crate) fn start(config: Config, workers: usize) -> anyhow::Result<Self> {
        let alerts = alerting::new(config.alerts());
        let canary = Canary::new(workers);
        let turns = Turns::new();
        let parts = Parts::grown_from(None, config, workers, (&canary, &turns))?;
        canary.set_threshold(parts.config.server().overload_delay());
        alerting::apply(&alerts, parts.config.alerts());
        let table = ArcSwap::from_pointee(parts.table(&alerts));
        Ok(Self { workers, alerts, canary, turns, table, parts: Mutex::new(parts) })
    }

    /// Makes what `config` needs and does not have yet. Changes nothing; all that can fail is here.
    pub(crate) fn prepare(&self, config: Config) -> anyhow::Result<Prepared> {
        Parts::grown_from(Some(&self.parts()), config, self.workers, (&self.canary, &self.turns)).map(Prepared)
    }

    /// Puts what was prepared in force, in place. To be called by one at a time, and for what was
    /// prepared last.
    pub(crate) fn commit(&self, Prepared(new): Prepared) {
        let mut parts = self.parts();
        new.settle(&parts);
        new.settle_hold_offs(&parts);
        ceilings::settle(&new.ceilings, &parts.config, &new.config);
        if new.needs_restart(&parts) {
            tracing::warn!(
                "listen addresses, threads, TLS, max_connections or header_timeout: changed at the next start"
            );
        }
        self.canary.set_threshold(new.config.server().overload_delay());
        alerting::apply(&self.alerts, new.config.alerts());
        self.table.store(Arc::new(new.table(&self.alerts)));
        for (_, removed) in parts.limiters.iter().filter(|(name, _)| !new.limiters.contains_key(*name)) {
            // No route leads there any more: who still waits is told so, who is in flight may finish.
            removed.close();
        }
        *parts = new;
    }

    /// Refuses newcomers and those who wait; who is in flight may finish.
    pub(crate) fn close(&self) {
        for limiter in self.limiters() {
            limiter.close();
        }
    }

    /// The table in force.
    pub(crate) fn table(&self) -> &ArcSwap<Table> {
        &self.table
    }

    /// Alerts of this gateway.
    pub(crate) fn alerts(&self) -> &Alerts {
        &self.alerts
    }

    /// What watches the worker threads.
    pub(crate) fn canary(&self) -> &Canary {
        &self.canary
    }

    /// The config in force.
    pub(crate) fn config(&self) -> Arc<Config> {
        self.parts().config.clone()
    }

    /// The limiters in force, by name.
    pub(crate) fn limiters(&self) -> Vec<Limiter> {
        self.parts().limiters.values().cloned().collect()
    }

    /// What the upstreams' answers meant, by the upstream's name.
    pub(crate) fn answers(&self) -> Vec<(String, Arc<Answers>)> {
        self.parts().answers.iter().map(|(name, answers)| (name.clone(), answers.clone())).collect()
    }

    /// The upstreams' hold-offs.
    pub(crate) fn hold_offs(&self) -> Vec<HoldOff> {
        self.parts().hold_offs.values().cloned().collect()
    }

    /// The ceilings in force.
    pub(crate) fn ceilings(&self) -> Vec<Ceiling> {
        self.parts().ceilings.values().cloned().collect()
    }

    /// What happens to shared ceilings.
    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// One limiter.
    pub(crate) fn limiter(&self, name: &str) -> Option<Limiter> {
        self.parts().limiters.get(name).cloned()
    }

    /// Closes connections that `worker` no longer uses.
    pub(crate) fn sweep(&self, worker: usize) {
        let upstreams: Vec<_> = self.parts().upstreams.values().cloned().collect();
        for upstream in upstreams {
            upstream.sweep(worker);
        }
    }

    fn parts(&self) -> std::sync::MutexGuard<'_, Parts> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Parts {
    /// The parts for `config`: those of `old` where they can stay, new ones else. Changes nothing.
    fn grown_from(
        old: Option<&Parts>,
        config: Config,
        workers: usize,
        (canary, turns): (&Canary, &Turns),
    ) -> anyhow::Result<Self> {
        let mut upstreams = BTreeMap::new();
        for (name, settings) in config.upstreams() {
            let kept = old.and_then(|old| old.upstreams.get(name)).filter(|kept| kept.config() == settings);
            let upstream = match kept {
                Some(kept) => kept.clone(),
                None => {
                    Arc::new(Upstream::new(settings.clone(), workers).with_context(|| format!("upstream \"{name}\""))?)
                }
            };
            upstreams.insert(name.clone(), upstream);
        }
        let mut limiters = BTreeMap::new();
        for (name, settings) in config.limiters() {
            let limiter = match old.and_then(|old| old.limiters.get(name)) {
                Some(kept) => {
                    kept.check_classes(settings.shares().classes()).with_context(|| format!("limiter \"{name}\""))?;
                    kept.clone()
                }
                None => build(name, settings, canary).with_context(|| format!("limiter \"{name}\""))?,
            };
            limiters.insert(name.clone(), limiter);
        }
        let hold_off = |name: &String| match old.and_then(|old| old.hold_offs.get(name)) {
            Some(kept) => kept.clone(),
            None => HoldOff::builder(name.as_str()).cap(config.hold_offs()[name].cap()).build(),
        };
        let hold_offs = config.hold_offs().keys().map(|name| (name.clone(), hold_off(name))).collect();
        let counted = |name: &String| old.and_then(|old| old.answers.get(name)).cloned().unwrap_or_default();
        let answers = config.upstreams().keys().map(|name| (name.clone(), counted(name))).collect();
        let ceilings = ceilings::grown_from(old.map(|old| &old.ceilings), &config, turns)?;
        Ok(Self { config: Arc::new(config), upstreams, limiters, hold_offs, answers, ceilings })
    }

    /// Tells the limiters that stayed what is new for them. Cannot fail.
    fn settle(&self, old: &Parts) {
        for (name, limiter) in &self.limiters {
            let (Some(was), Some(now)) = (old.config.limiters().get(name), self.config.limiters().get(name)) else {
                continue;
            };
            if was.bounds() != now.bounds() {
                limiter.set_bounds(now.bounds());
            }
            if was.mode() != now.mode() {
                limiter.set_mode(now.mode());
            }
            if was.queue() != now.queue() {
                limiter.set_waiting_room(now.queue().length(), now.queue().wait());
            }
            if was.shares().tenants() != now.shares().tenants() {
                limiter.set_tenants(&now.shares().tenants().build());
            }
            if was.shares().classes() != now.shares().classes() {
                limiter.set_classes(now.shares().classes()).expect("looked at before");
            }
            if was.law() != now.law() {
                limiter.set_law(now.law().build());
            }
        }
    }

    /// Hold-offs that stayed are told their cap; one that is no longer heeded begins anew later.
    fn settle_hold_offs(&self, old: &Parts) {
        for (name, now) in self.config.hold_offs() {
            let Some(was) = old.config.hold_offs().get(name) else { continue };
            if was.cap() != now.cap() {
                self.hold_offs[name].set_cap(now.cap());
            }
            if was != now && (!now.on() || was.by_header() != now.by_header()) {
                self.hold_offs[name].clear();
            }
        }
    }

    /// Whether something changed that a running gateway keeps as it was when it started.
    fn needs_restart(&self, old: &Parts) -> bool {
        let kept = |parts: &Parts| {
            let (server, admin) = (parts.config.server(), parts.config.admin().listen());
            let (listen, tls) = (server.listen(), server.tls().cloned());
            (listen, tls, server.threads(), server.max_connections(), server.header_timeout(), admin)
        };
        kept(self) != kept(old)
    }

    fn table(&self, alerts: &Alerts) -> Table {
        let guard = |name: &str, route: &str| {
            let (settings, limiter) = (self.config.limiters().get(name)?, self.limiters.get(name)?.clone());
            let tally = alerts.tally(limiter.name(), &route.into());
            Some(Arc::new(Guard::new(limiter, settings, tally)))
        };
        let hold_off = |name: &str| Some((self.hold_offs.get(name)?.clone(), self.answers.get(name)?.clone()));
        let ceiling = |name: &str| self.ceilings.get(name).cloned();
        Table::new(&self.config, |name| self.upstreams.get(name).cloned(), hold_off, ceiling, guard)
    }
}

fn build(name: &str, settings: &LimiterConfig, canary: &Canary) -> anyhow::Result<Limiter> {
    let bounds = settings.bounds();
    let limiter = Limiter::builder(name)
        .bounds(bounds.min(), bounds.max())
        .initial(settings.initial())
        .law(settings.law().build())
        .mode(settings.mode())
        .waiting_room(settings.queue().length(), settings.queue().wait())
        .canary(canary)
        .tenants(settings.shares().tenants().build());
    let limiter = settings.shares().classes().iter().cloned().fold(limiter, LimiterBuilder::class);
    Ok(limiter.build()?)
}
