//! `google.rpc.RetryInfo` out of `grpc-status-details-bin`: base64 around a protobuf `google.rpc.Status`.
//!
//! Only what is needed is decoded, in one pass and within the header's own length; anything that is
//! not as it should be reads as "not told".

use std::time::Duration;

/// A longer header is not looked at.
const LONGEST: usize = 32 << 10;

/// The wait that a `grpc-status-details-bin` asks for.
pub(super) fn retry_info(header: &str) -> Option<Duration> {
    let status = base64(header.split(',').next()?.trim())?;
    // Status.details is field 3, each a google.protobuf.Any: type_url is 1, value is 2.
    bytes_fields(&status, 3).find_map(|any| {
        let name = bytes_fields(any, 1).next()?;
        if !name.ends_with(b"/google.rpc.RetryInfo") {
            return None;
        }
        // RetryInfo.retry_delay is field 1, a google.protobuf.Duration: seconds is 1, nanos is 2.
        let info = bytes_fields(any, 2).next().unwrap_or_default();
        let delay = bytes_fields(info, 1).next().unwrap_or_default();
        let (seconds, nanos) = (varint_field(delay, 1), varint_field(delay, 2));
        let nanos = u32::try_from(nanos).ok().filter(|nanos| *nanos < 1_000_000_000)?;
        // Negative numbers are huge varints here: no server waits for 2^40 seconds.
        (seconds < 1 << 40).then(|| Duration::new(seconds, nanos))
    })
}

/// A field of a message.
enum Field<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Skipped,
}

/// All occurrences of a length-delimited field, until the message ends or breaks.
fn bytes_fields(message: &[u8], wanted: u64) -> impl Iterator<Item = &[u8]> {
    fields(message).filter_map(move |(number, field)| match field {
        Field::Bytes(bytes) if number == wanted => Some(bytes),
        _ => None,
    })
}

/// A number, 0 when it is not there: protobuf leaves zeros out.
fn varint_field(message: &[u8], wanted: u64) -> u64 {
    let last = fields(message).filter_map(|(number, field)| match field {
        Field::Varint(value) if number == wanted => Some(value),
        _ => None,
    });
    last.last().unwrap_or(0)
}

fn fields(message: &[u8]) -> impl Iterator<Item = (u64, Field<'_>)> {
    let mut rest = message;
    std::iter::from_fn(move || {
        let (tag, after) = varint(rest)?;
        let (field, after) = match tag & 7 {
            0 => varint(after).map(|(value, after)| (Field::Varint(value), after))?,
            1 => (Field::Skipped, after.get(8..)?),
            2 => {
                let (length, after) = varint(after)?;
                let (bytes, after) = after.split_at_checked(usize::try_from(length).ok()?)?;
                (Field::Bytes(bytes), after)
            }
            5 => (Field::Skipped, after.get(4..)?),
            _ => return None,
        };
        rest = after;
        Some((tag >> 3, field))
    })
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0u64;
    for (at, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f).checked_shl(7 * at as u32)?;
        if byte & 0x80 == 0 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}

/// Base64 with or without padding, of either alphabet.
fn base64(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=').as_bytes();
    if text.len() > LONGEST {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    for group in text.chunks(4) {
        let mut bits = 0u32;
        for byte in group {
            bits = bits << 6 | u32::from(six_bits(*byte)?);
        }
        let bits = (bits << (6 * (4 - group.len()))).to_be_bytes();
        let whole = match group.len() {
            4 => 3,
            3 => 2,
            2 => 1,
            _ => return None,
        };
        out.extend_from_slice(&bits[1..=whole]);
    }
    Some(out)
}

fn six_bits(byte: u8) -> Option<u8> {
    match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2, bytes.len() as u8];
        out.extend_from_slice(bytes);
        out
    }

    fn encode(bytes: &[u8]) -> String {
        const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut out = String::new();
        for group in bytes.chunks(3) {
            let bits = group.iter().fold(0u32, |bits, b| bits << 8 | u32::from(*b)) << (8 * (3 - group.len()));
            for i in 0..=group.len() {
                out.push(char::from(ALPHABET[(bits >> (18 - 6 * i)) as usize & 63]));
            }
        }
        out
    }

    fn status(delay: &[u8]) -> Vec<u8> {
        let other = [field(1, b"type.googleapis.com/google.rpc.ErrorInfo"), field(2, b"xyz")].concat();
        let info = [field(1, b"type.googleapis.com/google.rpc.RetryInfo"), field(2, &field(1, delay))].concat();
        [vec![8, 8], field(2, b"quota"), field(3, &other), field(3, &info)].concat()
    }

    #[test]
    fn the_delay_is_found_among_other_details() {
        assert_eq!(retry_info(&encode(&status(&[8, 38]))), Some(Duration::from_secs(38)));
        // 847655010 ns and no whole second.
        let nanos = [16, 0xe2, 0xe0, 0x98, 0x94, 0x03];
        assert_eq!(retry_info(&encode(&status(&nanos))), Some(Duration::from_nanos(847_655_010)));
        assert_eq!(retry_info(&encode(&status(&[]))), Some(Duration::ZERO));
    }

    #[test]
    fn what_is_broken_or_absurd_is_not_told() {
        let whole = status(&[8, 38]);
        for cut in 0..whole.len() {
            let told = retry_info(&encode(&whole[..cut]));
            assert_eq!(told, None, "cut at {cut}");
        }
        let negative = [8, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(retry_info(&encode(&status(&negative))), None);
        for text in ["", "!", "A", "////////", "AAAA"] {
            assert_eq!(retry_info(text), None, "{text}");
        }
        assert_eq!(retry_info(&"A".repeat(1 << 20)), None);
    }
}
