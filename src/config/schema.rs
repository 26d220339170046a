//! The JSON schema of the config file, for editors and checks outside.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use serde_json::Value;

use super::file::File;

/// The schema as JSON text, generated from what the parser takes.
pub fn schema() -> String {
    let settings = SchemaSettings::draft2020_12().with_transform(RecursiveTransform(without_null));
    let mut schema = settings.into_generator().into_root_schema_for::<File>();
    schema.insert("title".to_owned(), "tidegate".into());
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema is always JSON");
    text.push('\n');
    text
}

/// A key may be left out, but TOML has no null to write.
fn without_null(schema: &mut Schema) {
    for key in ["format", "minimum"] {
        // What the Rust type says; ranges and formats that are meant are not of these.
        let meant = schema.get(key).is_none_or(|value| value != "int64" && value != "double");
        if !meant {
            schema.remove(key);
        }
    }
    schema.remove("default");
    if let Some(Value::Array(types)) = schema.get("type") {
        let real: Vec<Value> = types.iter().filter(|kind| **kind != "null").cloned().collect();
        if let [only] = real.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(choices)) = schema.get("anyOf").cloned() {
        let real: Vec<Value> = choices.into_iter().filter(|choice| choice["type"] != "null").collect();
        if let [Value::Object(only)] = real.as_slice() {
            schema.remove("anyOf");
            for (key, value) in only {
                schema.insert(key.clone(), value.clone());
            }
        }
    }
}
