//! Any text is either a config or a list of violations that can be drawn; an edit of a good config
//! keeps it readable.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate::config::edit::{NewBounds, set_bounds};
use tidegate::config::{Config, Overrides, difference};

fuzz_target!(|text: &str| {
    match Config::parse("fuzz", text, &Overrides::default()) {
        Ok(config) => {
            assert!(difference(&config, &config).is_empty());
            for name in config.limiters().keys() {
                let new = NewBounds { limiter: name.clone(), min: Some(1), max: Some(7), ..NewBounds::default() };
                if let Ok(edited) = set_bounds(text, &new) {
                    // The initial limit may lie outside now; nothing else can be wrong.
                    let _ = Config::parse("edited", &edited, &Overrides::default());
                }
            }
        }
        Err(invalid) => {
            assert!(!invalid.violations().is_empty());
            let _ = invalid.drawn();
        }
    }
});
