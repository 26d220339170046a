//! What is generated from the config's parser and checked in: `config/tidegate.schema.json` for
//! editors, `docs/config.md` for people. With `TIDEGATE_WRITE=1` this writes them anew.

use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::Value;
use tidegate::config::{Config, Overrides, difference, schema};

#[test]
fn the_schema_is_current() {
    current("config/tidegate.schema.json", &schema());
}

#[test]
fn the_key_reference_is_current() {
    current("docs/config.md", &reference());
}

fn current(path: &str, text: &str) {
    if std::env::var_os("TIDEGATE_WRITE").is_some() {
        std::fs::write(path, text).expect("written");
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert!(there == text, "{path} is out of date; TIDEGATE_WRITE=1 cargo test --test schema writes it anew");
}

#[test]
fn every_key_has_a_description() {
    for (section, keys) in sections() {
        for (key, says) in keys {
            assert!(!says.is_empty(), "{section}.{key}");
        }
    }
}

/// Each key of the schema makes a difference, so that none is missing in what the audit log compares.
#[test]
fn a_change_of_any_key_is_seen() {
    let full = std::fs::read_to_string("config/full.toml").expect("config/full.toml");
    let parse = |text: &str| Config::parse("test", text, &Overrides::default());
    let base =
        parse("[upstreams.main]\nurl = \"http://127.0.0.1:1\"\n[limiters.default]\nlaw = \"fixed\"\n").expect("good");
    let full = parse(&full).map_err(|err| err.to_string()).expect("good");
    let seen: BTreeSet<String> = difference(&base, &full).into_iter().map(|change| plain(&change.key)).collect();
    let how_only = ["change.", "routes.prefix", "routes.methods", "routes.header"];
    for (section, keys) in sections() {
        for (key, _) in keys {
            let path = if section.is_empty() { key } else { format!("{section}.{key}") };
            let is_how = how_only.iter().any(|how| path.starts_with(how));
            assert!(is_how || seen.contains(&path), "{path} is not compared, or config/full.toml has its default");
        }
    }
}

/// What the schema allows at its ends the parser takes, and what is beyond it refuses.
#[test]
fn ranges_and_words_are_those_of_the_parser() {
    let root: Value = serde_json::from_str(&schema()).expect("JSON");
    let mut asked = 0;
    for_each_key(&root, &root, "", &mut |section, key, schema| {
        // The initial limit must lie within the limiter's own bounds.
        if key == "initial" {
            return;
        }
        let refused = |value: &str| {
            let base = "[upstreams.main]\nurl = \"http://127.0.0.1:1\"\n";
            let parsed = Config::parse("test", &format!("{base}[{section}]\n{key} = {value}\n"), &Overrides::default());
            let path = format!("{section}.{key}");
            parsed.is_err_and(|invalid| invalid.violations().iter().any(|v| v.key == path))
        };
        let mut ask = |value: String, allowed: bool| {
            assert_eq!(!refused(&value), allowed, "{section}.{key} = {value}");
            asked += 1;
        };
        if let (Some(least), Some(most)) = (schema["minimum"].as_f64(), schema["maximum"].as_f64()) {
            let shown = |n: f64| if schema["type"] == "integer" { format!("{n:.0}") } else { format!("{n:?}") };
            let beyond = [(least, true), (most, true), (least - 1.0, false), (most + 1.0, false)];
            beyond.into_iter().for_each(|(n, allowed)| ask(shown(n), allowed));
        }
        for word in schema["enum"].as_array().into_iter().flatten() {
            ask(word.to_string(), true);
            ask(if word.is_string() { "\"nonsense\"".to_owned() } else { "1".to_owned() }, false);
        }
    });
    assert!(asked > 60, "{asked}");
}

fn for_each_key(root: &Value, section: &Value, path: &str, ask: &mut impl FnMut(&str, &str, &Value)) {
    for (key, value) in section["properties"].as_object().expect("a section") {
        let target = resolve(root, value);
        let inside = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let named = resolve(root, &target["additionalProperties"]);
        if target["properties"].is_object() {
            for_each_key(root, target, &inside, ask);
        } else if named["properties"].is_object() {
            for_each_key(root, named, &format!("{inside}.x"), ask);
        } else if !path.is_empty() {
            ask(path, key, value);
        }
    }
}

/// `limiters.full.max` as `limiters.max`, `routes[/x].upstream` as `routes.upstream`.
fn plain(key: &str) -> String {
    for list in ["routes", "classify"] {
        if let Some(rest) = key.strip_prefix(list).filter(|rest| rest.starts_with('[')) {
            return format!("{list}{}", rest.rsplit(']').next().unwrap_or_default());
        }
    }
    let parts: Vec<&str> = key.split('.').collect();
    match parts.as_slice() {
        ["alerts", kind @ ("webhooks" | "alertmanagers"), _, rest @ ..] => format!("alerts.{kind}.{}", rest.join(".")),
        ["limiters", _, "classes", _, rest @ ..] => format!("limiters.classes.{}", rest.join(".")),
        ["limiters" | "upstreams" | "ceilings", _, rest @ ..] => format!("{}.{}", parts[0], rest.join(".")),
        _ => key.to_owned(),
    }
}

/// Sections of the schema in the order of the file: path, and keys with what is said about them.
fn sections() -> Vec<(String, Vec<(String, String)>)> {
    let schema: Value = serde_json::from_str(&schema()).expect("JSON");
    let mut found = vec![(String::new(), Vec::new())];
    walk(&schema, &schema, "", &mut found);
    found
}

fn walk(root: &Value, section: &Value, path: &str, found: &mut Vec<(String, Vec<(String, String)>)>) {
    let at = found.len() - 1;
    for (key, value) in section["properties"].as_object().expect("a section") {
        let target = resolve(root, value);
        let inner = ["additionalProperties", "items"].iter().map(|within| resolve(root, &target[*within]));
        let table = std::iter::once(target).chain(inner).find(|schema| schema["properties"].is_object());
        match table {
            Some(table) => {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                found.push((path.clone(), Vec::new()));
                walk(root, table, &path, found);
            }
            None => found[at].1.push((key.clone(), said(value))),
        }
    }
}

fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str().and_then(|name| name.strip_prefix('#')) {
        Some(pointer) => root.pointer(pointer).expect("a definition"),
        None => schema,
    }
}

fn said(schema: &Value) -> String {
    schema["description"].as_str().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn allowed(schema: &Value) -> String {
    if let Some(words) = schema["enum"].as_array() {
        return words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    }
    if let Some(format @ ("duration" | "size")) = schema["format"].as_str() {
        return format.to_owned();
    }
    let kind = match schema["type"].as_str() {
        Some("integer") => "whole number",
        Some("array") => "list of texts",
        Some("object") => "table of texts",
        Some("boolean") => "`true`, `false`",
        Some("string") => "text",
        Some(other) => other,
        None => "",
    };
    match (&schema["minimum"], &schema["maximum"]) {
        (Value::Number(least), Value::Number(most)) => format!("{kind}, {least} to {most}"),
        _ => kind.to_owned(),
    }
}

fn reference() -> String {
    let root: Value = serde_json::from_str(&schema()).expect("JSON");
    let mut text = String::from(
        "# The config file\n\nTOML. Unknown keys are errors, and so is every value out of its range; `tidegate check FILE` \
         lists all\nof them with their places. Durations are whole numbers with units (`250ms`, `1m30s`, `2h`), sizes \
         too\n(`64KiB`, `10MiB`). `config/tidegate.schema.json` is the same for editors. This page is generated \
         from the\nparser's own comments.\n",
    );
    for (path, keys) in sections().into_iter().filter(|(_, keys)| !keys.is_empty()) {
        let section = find(&root, &path);
        let title = match path.as_str() {
            "" => "At the top".to_owned(),
            "routes" | "classify" => format!("`[[{path}]]`"),
            _ => format!(
                "`[{}]`",
                ["upstreams", "limiters", "ceilings", "webhooks", "alertmanagers"]
                    .iter()
                    .fold(path.clone(), |path, named| path.replacen(named, &format!("{named}.NAME"), 1))
            ),
        };
        let about = if path.is_empty() { String::new() } else { said(section) + "\n\n" };
        write!(text, "\n## {title}\n\n{about}| key | allowed | what it does |\n|---|---|---|\n").expect("text");
        for (key, says) in keys {
            let allowed = allowed(&section["properties"][&key]).replace('|', "\\|");
            writeln!(text, "| `{key}` | {allowed} | {says} |").expect("text");
        }
    }
    text
}

fn find<'a>(root: &'a Value, path: &str) -> &'a Value {
    path.split('.').filter(|part| !part.is_empty()).fold(root, |section, key| {
        let target = resolve(root, &section["properties"][key]);
        let inner = ["additionalProperties", "items"].map(|within| resolve(root, &target[within]));
        std::iter::once(target).chain(inner).find(|schema| schema["properties"].is_object()).expect("a section")
    })
}
