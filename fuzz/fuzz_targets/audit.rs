//! Any bytes can be read as a log: each line is a record or is named as broken, and what follows is
//! still checked.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate::audit::Checker;

fuzz_target!(|bytes: &[u8]| {
    let mut checker = Checker::default();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if let Ok(record) = checker.take(line) {
            assert_eq!(record.seq, checker.end().seq());
        }
    }
});
