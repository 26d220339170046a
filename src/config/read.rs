//! Text to raw values, finding everything that is wrong on the way: syntax, types, unknown keys.
//!
//! Serde stops at the first error. So each entry that it trips over is noted and taken out of the
//! parsed tree, and the tree is read again, until it reads through; the number of rounds is bounded.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use super::file::File;
use super::violation::Violation;

/// More mistakes than this are not listed: the rest can wait for the next try.
const MOST_VIOLATIONS: usize = 100;

/// Reads the text. With violations, what is returned lacks the entries they are about.
pub(super) fn read(text: &str) -> (File, Vec<Violation>) {
    let (mut tree, errors) = DeTable::parse_recoverable(text);
    let mut found: Vec<Violation> = errors.iter().map(|e| syntax(e, text)).take(MOST_VIOLATIONS).collect();
    if !found.is_empty() {
        return (File::default(), found);
    }
    loop {
        match File::deserialize(Deserializer::from(tree.clone())) {
            Ok(file) => return (file, found),
            Err(err) => {
                let span = err.span().unwrap_or(0..0);
                let Some(entry) = remove(tree.get_mut(), &span, "") else {
                    found.push(Violation { span, ..blank("", "", err.message()) });
                    return (File::default(), found);
                };
                found.push(entry.explain(err.message(), text));
                if found.len() >= MOST_VIOLATIONS {
                    return (File::default(), found);
                }
            }
        }
    }
}

pub(super) fn blank(key: &str, value: &str, message: &str) -> Violation {
    Violation {
        key: key.to_owned(),
        value: value.to_owned(),
        message: message.to_owned(),
        line: 0,
        column: 0,
        span: 0..0,
    }
}

fn syntax(err: &toml::de::Error, text: &str) -> Violation {
    let message = format!("not valid TOML: {}", err.message().replace('\n', ", "));
    Violation { span: err.span().unwrap_or(text.len()..text.len()), ..blank("", "", &message) }
}

/// An entry that serde refused, taken out of the tree.
struct Entry {
    key: String,
    name: String,
    key_span: Range<usize>,
    value_span: Range<usize>,
}

impl Entry {
    fn explain(&self, message: &str, text: &str) -> Violation {
        if message.starts_with("unknown field") {
            let allowed: Vec<&str> = message.split('`').skip(3).step_by(2).collect();
            if let Some(now) = called_now(&self.name, &allowed) {
                let message = format!("is called `{now}`");
                return Violation { span: self.key_span.clone(), ..blank(&self.key, "", &message) };
            }
            let message = match nearest(&self.name, &allowed) {
                Some(near) => format!("unknown key; did you mean `{near}`? allowed: {}", allowed.join(", ")),
                None => format!("unknown key; allowed: {}", allowed.join(", ")),
            };
            return Violation { span: self.key_span.clone(), ..blank(&self.key, "", &message) };
        }
        let value = text.get(self.value_span.clone()).unwrap_or("");
        let value = if value.contains('\n') || value.len() > 80 { "" } else { value };
        Violation { span: self.value_span.clone(), ..blank(&self.key, value, message) }
    }
}

/// Names that keys had, or have elsewhere, and what they are called here.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("bind", "listen"),
    ("address", "listen"),
    ("max_body", "body_limit"),
    ("shutdown_timeout", "drain"),
    ("address", "url"),
    ("timeout", "response_timeout"),
    ("min_limit", "min"),
    ("min_concurrency", "min"),
    ("max_limit", "max"),
    ("max_concurrency", "max"),
    ("max_in_flight", "max"),
    ("initial_limit", "initial"),
    ("algorithm", "law"),
    ("target_latency", "latency_target"),
    ("path", "prefix"),
];

fn called_now(name: &str, allowed: &[&str]) -> Option<&'static str> {
    OTHER_NAMES.iter().find(|(other, now)| *other == name && allowed.contains(now)).map(|(_, now)| *now)
}

/// Takes out the innermost entry whose key or value holds `span`.
fn remove(table: &mut DeTable<'_>, span: &Range<usize>, path: &str) -> Option<Entry> {
    let mut hit = None;
    for (key, value) in table.iter_mut() {
        let path = if path.is_empty() { key.get_ref().to_string() } else { format!("{path}.{}", key.get_ref()) };
        if let Some(entry) = remove_within(value, span, &path) {
            return Some(entry);
        }
        if key.span() == *span || holds(&value.span(), span) {
            hit = Some((
                key.get_ref().to_string(),
                Entry { key: path, name: key.get_ref().to_string(), key_span: key.span(), value_span: value.span() },
            ));
        }
    }
    let (name, entry) = hit?;
    table.remove(name.as_str());
    Some(entry)
}

fn remove_within(value: &mut Spanned<DeValue<'_>>, span: &Range<usize>, path: &str) -> Option<Entry> {
    match value.get_mut() {
        DeValue::Table(table) => remove(table, span, path),
        DeValue::Array(items) => {
            let tables = items.iter_mut().enumerate();
            for (i, item) in tables {
                if let Some(entry) = remove_within(item, span, &format!("{path}[{i}]")) {
                    return Some(entry);
                }
            }
            let i = items.iter().position(|item| holds(&item.span(), span))?;
            let span = items.get(i)?.span();
            *items = items.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, item)| item.clone()).collect();
            Some(Entry { key: format!("{path}[{i}]"), name: String::new(), key_span: span.clone(), value_span: span })
        }
        _ => None,
    }
}

fn holds(outer: &Range<usize>, inner: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}

/// The allowed name that is fewest edits away, when it is near enough to be meant.
pub(super) fn nearest<'a>(name: &str, allowed: &[&'a str]) -> Option<&'a str> {
    let (distance, near) = allowed.iter().map(|a| (edits(name, a), *a)).min()?;
    (distance <= 1 + name.chars().count() / 3).then_some(near)
}

/// Levenshtein's distance, with one row.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        for (a, b, n) in [("min", "min", 0), ("mim", "min", 1), ("", "abc", 3), ("lmit", "limit", 1), ("ab", "ba", 2)] {
            assert_eq!(edits(a, b), n, "{a} {b}");
        }
    }

    #[test]
    fn only_near_names_are_suggested() {
        assert_eq!(nearest("maxx", &["min", "max"]), Some("max"));
        assert_eq!(nearest("colour", &["min", "max"]), None);
    }

    #[test]
    fn every_mistake_is_found_in_one_go() {
        let text =
            "[server]\nlistn = \"x\"\nthreads = \"four\"\n[limiters.a]\nmin = true\nmaxx = 3\n[[routes]]\nprefx = 1\n";
        let (_, found) = read(text);
        let keys: Vec<&str> = found.iter().map(|v| v.key.as_str()).collect();
        for key in ["server.listn", "server.threads", "limiters.a.min", "limiters.a.maxx", "routes[0].prefx"] {
            assert!(keys.contains(&key), "{key} missing in {keys:?}");
        }
        assert_eq!(found.len(), 5, "{found:?}");
        assert!(found.iter().any(|v| v.message.contains("did you mean `listen`")), "{found:?}");
    }

    #[test]
    fn a_key_by_another_name_is_told_its_name_here() {
        let (_, found) = read("[limiters.a]\nmax_concurrency = 3\n[server]\naddress = \"x\"\n");
        let said: Vec<_> = found.iter().map(|v| (v.key.as_str(), v.message.as_str())).collect();
        assert!(said.contains(&("limiters.a.max_concurrency", "is called `max`")), "{said:?}");
        assert!(said.contains(&("server.address", "is called `listen`")), "{said:?}");
    }

    #[test]
    fn broken_syntax_has_a_place() {
        let (_, found) = read("[server]\nlisten = \"127.0.0.1:1\nmin 3\n");
        assert!(!found.is_empty());
        assert!(found.iter().all(|v| v.message.contains("not valid TOML")), "{found:?}");
    }
}
