//! How two configs differ, key by key. Pure.

use serde::{Deserialize, Serialize};

use super::Config;
use super::settings::{is_secret, settings};

/// A key whose effective value differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The key with its path, as in `limiters.payments.max`.
    pub key: String,
    /// The value before; `None` when the key was not there.
    pub old: Option<String>,
    /// The value after; `None` when the key is gone.
    pub new: Option<String>,
}

impl Changed {
    /// The limiter that it is about, if it is about one.
    pub fn limiter(&self) -> Option<&str> {
        self.key.strip_prefix("limiters.")?.split('.').next()
    }
}

/// What is different in `new`, in the order of keys. Defaults count like values that are written out,
/// so a file that only says what was in force anyway differs in nothing. Secrets are not shown.
pub fn difference(old: &Config, new: &Config) -> Vec<Changed> {
    let (old, new) = (settings(old), settings(new));
    let shown = |key: &str, value: &String| if is_secret(key) { "(secret)".to_owned() } else { value.clone() };
    let mut changes: Vec<Changed> = old
        .iter()
        .filter(|(key, value)| new.get(*key) != Some(value))
        .map(|(key, value)| Changed {
            key: key.clone(),
            old: Some(shown(key, value)),
            new: new.get(key).map(|value| shown(key, value)),
        })
        .collect();
    let added = new.iter().filter(|(key, _)| !old.contains_key(*key));
    changes.extend(added.map(|(key, value)| Changed { key: key.clone(), old: None, new: Some(shown(key, value)) }));
    changes.sort_by(|a, b| a.key.cmp(&b.key));
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Overrides;

    const BASE: &str = "[upstreams.api]\nurl = \"http://127.0.0.1:9000\"\n\
                        [limiters.payments]\nmin = 8\nmax = 400\n[limiters.other]\n\
                        [[routes]]\nprefix = \"/pay\"\nupstream = \"api\"\nlimiter = \"payments\"\n\
                        [[routes]]\nupstream = \"api\"\nlimiter = \"other\"\n";

    fn between(old: &str, new: &str) -> Vec<(String, Option<String>, Option<String>)> {
        let parse = |text| Config::parse("test", text, &Overrides::default()).expect("good");
        difference(&parse(old), &parse(new)).into_iter().map(|c| (c.key, c.old, c.new)).collect()
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn a_changed_value_shows_old_and_new() {
        let new = BASE.replace("max = 400", "max = 120");
        assert_eq!(between(BASE, &new), [("limiters.payments.max".to_owned(), some("400"), some("120"))]);
    }

    #[test]
    fn comments_order_and_written_out_defaults_are_no_difference() {
        let new = BASE.replace("max = 400", "# room\nmax = 400\nmode = \"enforce\"\nqueue.length = 0");
        assert_eq!(between(BASE, &new), []);
    }

    #[test]
    fn what_is_added_or_gone_shows_on_one_side() {
        let new = BASE.replace("[limiters.other]", "[limiters.other]\nlatency_target = \"250ms\"");
        assert_eq!(between(BASE, &new), [("limiters.other.latency_target".to_owned(), None, some("250ms"))]);
        assert_eq!(between(&new, BASE), [("limiters.other.latency_target".to_owned(), some("250ms"), None)]);
    }

    #[test]
    fn a_route_in_front_does_not_change_the_others() {
        let new = format!("{BASE}[[routes]]\nprefix = \"/new\"\nupstream = \"api\"\n");
        let keys: Vec<_> = between(BASE, &new).into_iter().map(|(key, ..)| key).collect();
        assert_eq!(keys, ["routes[/new].upstream"]);
    }

    #[test]
    fn the_order_of_routes_matters_only_where_they_compete() {
        let rule = |methods: &str| {
            format!("[[routes]]\nprefix = \"/x\"\nupstream = \"api\"\nlimiter = \"other\"\nmethods = [{methods}]\n")
        };
        let (get, any) = (rule("\"GET\""), rule("\"GET\", \"PUT\""));
        let keys: Vec<_> = between(&format!("{BASE}{get}{any}"), &format!("{BASE}{any}{get}"));
        assert_eq!(keys.len(), 1, "{keys:?}");
        assert_eq!(keys[0].0, "routes[/x].order");
    }

    #[test]
    fn a_change_knows_its_limiter() {
        let change = |key: &str| Changed { key: key.into(), old: None, new: None };
        assert_eq!(change("limiters.payments.queue.wait").limiter(), Some("payments"));
        assert_eq!(change("server.listen").limiter(), None);
    }
}
