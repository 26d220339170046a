//! Changes values in a config's text and leaves everything else as it is: comments, order, spaces.
//! Pure; whether the result is a good config is for [`Config::parse`](super::Config::parse) to say.

use std::fmt;

use toml_edit::{DocumentMut, Item, Table, TableLike, Value};

/// New bounds for a limiter, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewBounds {
    /// The limiter's name.
    pub limiter: String,
    /// The smallest limit; `None` leaves it.
    pub min: Option<u32>,
    /// The largest limit; `None` leaves it.
    pub max: Option<u32>,
    /// The reason, for the audit log.
    pub reason: Option<String>,
    /// How long the change is watched, as a duration; without one it is not.
    pub bake: Option<String>,
}

/// Why a text cannot be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CannotEdit {
    /// The text is no TOML.
    NoToml(String),
    /// There is no such limiter in it.
    NoLimiter(String),
    /// Something else stands where a table should be.
    NoTable(String),
}

impl fmt::Display for CannotEdit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoToml(why) => write!(f, "the config file is not valid TOML: {why}"),
            Self::NoLimiter(name) => write!(f, "the config file has no limiter \"{name}\""),
            Self::NoTable(key) => write!(f, "{key} is not a table in the config file"),
        }
    }
}

impl std::error::Error for CannotEdit {}

/// `text` with the new bounds in it. The section `change` tells of this change, and of no other.
///
/// # Errors
/// [`CannotEdit`]; a limiter that only exists by default can be changed when it is called `default`.
pub fn set_bounds(text: &str, new: &NewBounds) -> Result<String, CannotEdit> {
    let mut document: DocumentMut =
        text.parse().map_err(|err: toml_edit::TomlError| CannotEdit::NoToml(err.message().to_owned()))?;
    let limiter = limiter(&mut document, &new.limiter)?;
    for (key, value) in [("min", new.min), ("max", new.max)] {
        if let Some(value) = value {
            put(limiter, key, i64::from(value).into());
        }
    }
    let has_change = document.contains_key("change");
    if has_change || new.reason.is_some() || new.bake.is_some() {
        let change = document.entry("change").or_insert_with(table);
        let change = change.as_table_like_mut().ok_or_else(|| CannotEdit::NoTable("change".to_owned()))?;
        let old: Vec<String> = change.iter().map(|(key, _)| key.to_owned()).collect();
        let given = [("reason", &new.reason), ("bake", &new.bake)];
        for key in old.iter().filter(|key| !given.iter().any(|(name, value)| name == key && value.is_some())) {
            change.remove(key);
        }
        for (key, value) in given {
            if let Some(value) = value {
                put(change, key, value.as_str().into());
            }
        }
    }
    Ok(document.to_string())
}

fn limiter<'a>(document: &'a mut DocumentMut, name: &str) -> Result<&'a mut dyn TableLike, CannotEdit> {
    let limiters = document.entry("limiters").or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let limiters = limiters.as_table_like_mut().ok_or_else(|| CannotEdit::NoTable("limiters".to_owned()))?;
    if limiters.is_empty() && name == super::DEFAULT {
        limiters.insert(name, table());
    }
    let limiter = limiters.get_mut(name).ok_or_else(|| CannotEdit::NoLimiter(name.to_owned()))?;
    limiter.as_table_like_mut().ok_or_else(|| CannotEdit::NoTable(format!("limiters.{name}")))
}

fn table() -> Item {
    Item::Table(Table::new())
}

/// Keeps the comment behind the value and the space around it.
fn put(table: &mut dyn TableLike, key: &str, mut value: Value) {
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) => {
            *value.decor_mut() = old.decor().clone();
            *old = value;
        }
        None => drop(table.insert(key, Item::Value(value))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# who owns this: payments team\n[upstreams.api]\nurl = \"http://127.0.0.1:9000\" # the old one\n\n\
                        [limiters.payments]   # busiest\nmin=8\nmax    = 400  # agreed with the bank\n\n[limiters.other]\n";

    fn new(limiter: &str, min: Option<u32>, max: Option<u32>) -> NewBounds {
        NewBounds { limiter: limiter.to_owned(), min, max, ..NewBounds::default() }
    }

    #[test]
    fn only_the_value_changes() {
        let changed = set_bounds(TEXT, &new("payments", None, Some(120))).expect("changed");
        assert_eq!(changed, TEXT.replace("400", "120"));
        let changed = set_bounds(TEXT, &new("payments", Some(4), Some(120))).expect("changed");
        assert_eq!(changed, TEXT.replace("400", "120").replace("min=8", "min=4"));
    }

    #[test]
    fn keys_that_are_not_there_are_added_to_their_section() {
        let changed = set_bounds(TEXT, &new("other", None, Some(50))).expect("changed");
        assert_eq!(changed, format!("{TEXT}max = 50\n"));
        let changed =
            set_bounds("[upstreams.a]\nurl = \"http://a\"\n", &new("default", Some(2), None)).expect("changed");
        assert_eq!(changed, "[upstreams.a]\nurl = \"http://a\"\n\n[limiters.default]\nmin = 2\n");
    }

    #[test]
    fn inline_tables_and_dotted_keys_are_found() {
        for text in ["limiters = { a = { max = 3 } }\n", "limiters.a.max = 3\n", "[limiters]\na.max = 3\n"] {
            let changed = set_bounds(text, &new("a", None, Some(7))).expect("changed");
            assert_eq!(changed, text.replace('3', "7"));
        }
    }

    #[test]
    fn the_reason_is_that_of_this_change_alone() {
        let text = "[limiters.a]\nmax = 3\n[change]\n# say why\nreason = \"old\"\nbake = \"5m\"\n";
        let with = NewBounds { reason: Some("new \"one\"".into()), ..new("a", None, Some(7)) };
        let changed = set_bounds(text, &with).expect("changed");
        assert_eq!(changed, "[limiters.a]\nmax = 7\n[change]\n# say why\nreason = 'new \"one\"'\n");
        let changed = set_bounds(text, &new("a", None, Some(7))).expect("changed");
        assert!(!changed.contains("old") && !changed.contains("bake"), "{changed}");
    }

    #[test]
    fn what_is_not_there_is_not_made_up() {
        assert_eq!(set_bounds(TEXT, &new("paiments", None, Some(1))), Err(CannotEdit::NoLimiter("paiments".into())));
        assert_eq!(set_bounds("limiters = 3\n", &new("a", None, None)), Err(CannotEdit::NoTable("limiters".into())));
        assert!(matches!(set_bounds("[", &new("a", None, None)), Err(CannotEdit::NoToml(_))));
    }
}
