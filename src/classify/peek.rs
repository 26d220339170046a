//! Looks at a body as it passes: keeps a bounded part of it, delays nothing, changes nothing. Pure.

use std::borrow::Cow;

use super::text::{Value, members};

/// The beginning of a body, and its end when it is longer.
#[derive(Debug)]
pub(crate) struct Peek {
    most: usize,
    head: Vec<u8>,
    /// At most twice `most`, so that it is not moved for each chunk.
    tail: Vec<u8>,
}

impl Peek {
    /// At most `most` bytes of each.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, head: Vec::new(), tail: Vec::new() }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(self.most - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(self.most)..];
        if self.tail.len() + rest.len() > 2 * self.most {
            self.tail.drain(..self.tail.len() - (self.most - rest.len()).min(self.tail.len()));
        }
        self.tail.extend_from_slice(rest);
    }

    /// What was kept. Where it was cut, characters may be broken.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        let tail = &self.tail[self.tail.len().saturating_sub(self.most)..];
        if tail.is_empty() {
            return String::from_utf8_lossy(&self.head);
        }
        let mut text = String::from_utf8_lossy(&self.head).into_owned();
        text.push('\n');
        text.push_str(&String::from_utf8_lossy(tail));
        text.into()
    }
}

/// Finds the first error in a stream of server-sent events: an event of the type `error`, or one whose
/// data is an object that begins with an error.
#[derive(Debug)]
pub(crate) struct Events {
    most: usize,
    line: Vec<u8>,
    names_error: bool,
    error: Option<Vec<u8>>,
}

impl Events {
    /// Of a line, at most `most` bytes are looked at.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, line: Vec::new(), names_error: false, error: None }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while self.error.is_none() {
            let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
                return self.keep(rest);
            };
            self.keep(&rest[..end]);
            self.end_line();
            rest = &rest[end + 1..];
        }
    }

    /// The data of the first error, if it has come.
    pub(crate) fn found(&self) -> Option<Cow<'_, str>> {
        self.error.as_deref().map(String::from_utf8_lossy)
    }

    /// The data of the first error, once the stream is over or is to be judged as it is.
    pub(crate) fn error(&mut self) -> Option<Cow<'_, str>> {
        if self.error.is_none() {
            self.end_line();
        }
        self.found()
    }

    fn keep(&mut self, part: &[u8]) {
        let room = self.most - self.line.len();
        self.line.extend_from_slice(&part[..part.len().min(room)]);
    }

    fn end_line(&mut self) {
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        if line.is_empty() {
            self.names_error = false;
        } else if let Some(name) = line.strip_prefix(b"event:") {
            self.names_error = name.trim_ascii() == b"error";
        } else if let Some(data) = line.strip_prefix(b"data:")
            && (self.names_error || begins_with_error(data))
        {
            self.error = Some(data.trim_ascii().to_vec());
        }
        self.line.clear();
    }
}

/// Finds the trailers of gRPC-Web, which stand in a last frame inside the body.
#[derive(Debug)]
pub(crate) struct WebTrailers {
    most: usize,
    /// One byte of flags, four of length, as far as they have come.
    header: [u8; 5],
    have: usize,
    left: u32,
    text: Vec<u8>,
}

impl WebTrailers {
    /// Of the trailers, at most `most` bytes are looked at.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, header: [0; 5], have: 0, left: 0, text: Vec::new() }
    }

    pub(crate) fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.left > 0 {
                let (part, rest) = bytes.split_at(bytes.len().min(self.left as usize));
                // Flags: 0x80 for trailers, 1 for what is compressed and cannot be read here.
                if self.header[0] & 0x81 == 0x80 {
                    let room = self.most.saturating_sub(self.text.len());
                    self.text.extend_from_slice(&part[..part.len().min(room)]);
                }
                self.left -= part.len() as u32;
                bytes = rest;
            } else {
                self.header[self.have] = bytes[0];
                self.have += 1;
                bytes = &bytes[1..];
                if self.have == self.header.len() {
                    let [_, length @ ..] = self.header;
                    (self.left, self.have) = (u32::from_be_bytes(length), 0);
                }
            }
        }
    }

    /// Names and values; none when there were no trailers so far.
    pub(crate) fn fields(&self) -> Vec<(String, String)> {
        let text = String::from_utf8_lossy(&self.text);
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        fields.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()
    }
}

fn begins_with_error(data: &[u8]) -> bool {
    let data = data.trim_ascii();
    if !data.starts_with(b"{") {
        return false;
    }
    // A few bytes are enough for the first member's name and for a short value.
    let start = String::from_utf8_lossy(&data[..data.len().min(64)]);
    let named = start[1..].trim_start();
    named.starts_with("\"error\"") && !named.contains("\"error\":null")
        || members(&start).next().is_some_and(|first| first == ("type", Value::Text("error")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_and_tail_are_kept_and_nothing_else() {
        let whole: Vec<u8> = (0..100u8).map(|n| b'a' + n % 26).collect();
        for chunk in [1, 3, 7, 10, 11, 40, 100] {
            let mut peek = Peek::new(10);
            whole.chunks(chunk).for_each(|chunk| peek.push(chunk));
            let expected = format!("{}\n{}", "abcdefghij", std::str::from_utf8(&whole[90..]).expect("ASCII"));
            assert_eq!(peek.text(), expected, "in chunks of {chunk}");
            assert!(peek.tail.len() <= 20);
        }
        let mut short = Peek::new(10);
        short.push(b"abc");
        assert_eq!(short.text(), "abc");
        let mut none = Peek::new(0);
        none.push(b"abc");
        assert_eq!(none.text(), "");
    }

    #[test]
    fn a_character_that_is_cut_is_no_error() {
        let mut peek = Peek::new(4);
        peek.push("abcé".as_bytes());
        peek.push("é".as_bytes());
        assert!(peek.text().starts_with("abc"));
    }

    fn error_of(stream: &str, chunk: usize) -> Option<String> {
        let mut events = Events::new(200);
        stream.as_bytes().chunks(chunk).for_each(|chunk| events.push(chunk));
        events.error().map(Cow::into_owned)
    }

    #[test]
    fn an_error_event_is_found_wherever_the_stream_is_cut() {
        let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"Überlast"}}"#;
        let named = format!("event: message_start\ndata: {{\"a\":1}}\n\nevent: error\r\ndata: {error}\r\n\r\n");
        let plain = "data: {\"choices\":[]}\n\ndata: { \"error\": {\"code\":\"rate_limit\"}}\n\ndata: [DONE]\n\n";
        let unfinished = format!(": ping\n\nevent: error\ndata: {error}");
        for chunk in [1, 2, 5, 17, 4096] {
            assert_eq!(error_of(&named, chunk).as_deref(), Some(error), "in chunks of {chunk}");
            assert!(error_of(plain, chunk).is_some_and(|found| found.contains("rate_limit")), "in chunks of {chunk}");
            assert_eq!(error_of(&unfinished, chunk).as_deref(), Some(error), "in chunks of {chunk}");
        }
    }

    #[test]
    fn streams_that_speak_of_errors_have_none() {
        for stream in [
            "event: error_report\ndata: {\"error_count\":1}\n\n",
            "data: {\"error\":null,\"choices\":[]}\n\n",
            "data: {\"text\":\"{\\\"error\\\":1}\"}\n\n",
            "event: error\n\ndata: {\"a\":1}\n\n",
            "data: error\n\n",
            "",
        ] {
            assert_eq!(error_of(stream, 3), None, "{stream}");
        }
    }

    #[test]
    fn a_line_without_end_takes_no_more_than_its_share() {
        let mut events = Events::new(64);
        (0..1000).for_each(|_| events.push(&[b'x'; 100]));
        assert!(events.line.capacity() <= 128);
    }

    #[test]
    fn trailers_of_grpc_web_are_found_behind_messages() {
        let trailers = b"grpc-status: 8\r\ngrpc-message:too many\r\n";
        let mut body = vec![0, 0, 0, 1, 0];
        body.extend_from_slice(&[0x80; 256]);
        body.extend_from_slice(&[0x80, 0, 0, 0, trailers.len() as u8]);
        body.extend_from_slice(trailers);
        for chunk in [1, 4, 260, 1000] {
            let mut found = WebTrailers::new(100);
            body.chunks(chunk).for_each(|chunk| found.push(chunk));
            let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
            assert_eq!(found.fields(), [field("grpc-status", "8"), field("grpc-message", "too many")]);
        }
        let mut none = WebTrailers::new(100);
        none.push(&body[..261]);
        assert!(none.fields().is_empty());
    }
}
