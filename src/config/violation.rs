//! What is wrong with a config, said so that it can be put right: key, place, value, what is allowed.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet, renderer::DecorStyle};

use super::settings::is_secret;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The key with its path, as in `limiters.payments.min`. Empty when the text is no TOML.
    pub key: String,
    /// The value that was found, as written; empty when there is none.
    pub value: String,
    /// What is wrong, and what is allowed.
    pub message: String,
    /// Line in the file, from 1; 0 when the value came from the command line.
    pub line: usize,
    /// Column in that line, in characters, from 1; 0 when the value came from the command line.
    pub column: usize,
    /// Byte range in the text.
    pub span: Range<usize>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.key.is_empty(), self.value.is_empty()) {
            (true, _) => write!(f, "{}", self.message),
            (false, true) => write!(f, "{}: {}", self.key, self.message),
            (false, false) => write!(f, "{} = {}: {}", self.key, self.value, self.message),
        }
    }
}

/// A config that is not applied: every violation in it, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidConfig {
    source: String,
    text: String,
    violations: Vec<Violation>,
}

impl InvalidConfig {
    pub(super) fn new(source: &str, text: &str, mut violations: Vec<Violation>) -> Self {
        violations.sort_by_key(|v| v.span.start);
        for violation in violations.iter_mut().filter(|v| is_secret(&v.key) && !v.value.is_empty()) {
            // The parser's own words may repeat it.
            violation.message = violation.message.replace(violation.value.trim_matches('"'), "(secret)");
            violation.value = "(secret)".to_owned();
        }
        for violation in violations.iter_mut().filter(|v| !v.is_from_command_line()) {
            (violation.line, violation.column) = place_of(text, violation.span.start);
        }
        Self { source: source.to_owned(), text: text.to_owned(), violations }
    }

    /// The violations, in the order of the file.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// One line for each violation: `file:line:column: key = value: what is allowed`.
    pub fn lines(&self) -> impl Iterator<Item = String> + '_ {
        self.violations.iter().map(|v| {
            if v.is_from_command_line() {
                return format!("command line: {v}");
            }
            format!("{}:{}:{}: {v}", self.source, v.line, v.column)
        })
    }

    /// Each violation drawn under its line, for a terminal.
    pub fn drawn(&self) -> String {
        let renderer = Renderer::plain().decor_style(DecorStyle::Ascii);
        let mut out = String::new();
        for violation in &self.violations {
            if violation.is_from_command_line() {
                out.push_str(&format!("error: {violation}\n --> command line\n\n"));
                continue;
            }
            let is_at_end = violation.span.start >= self.text.trim_end().len();
            if is_at_end || is_secret(&violation.key) {
                // Its line holds the secret; and the last line may hold one that it is not about.
                let (line, column) = (violation.line, violation.column);
                out.push_str(&format!("error: {violation}\n --> {}:{line}:{column}\n\n", self.source));
                continue;
            }
            let title = violation.to_string();
            let snippet = Snippet::source(self.text.as_str())
                .path(self.source.as_str())
                .annotation(AnnotationKind::Primary.span(self.drawable(violation)).label(violation.message.as_str()));
            out.push_str(&renderer.render(&[Level::ERROR.primary_title(title.as_str()).element(snippet)]));
            out.push_str("\n\n");
        }
        out
    }

    /// A span may end past the text (an unclosed string): keep it inside, and on characters.
    fn drawable(&self, violation: &Violation) -> Range<usize> {
        let inside = |mut at: usize| {
            at = at.min(self.text.len());
            while !self.text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        inside(violation.span.start)..inside(violation.span.end.max(violation.span.start))
    }
}

impl fmt::Display for InvalidConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, line) in self.lines().enumerate() {
            write!(f, "{}{line}", if i > 0 { "; " } else { "" })?;
        }
        Ok(())
    }
}

impl std::error::Error for InvalidConfig {}

impl Violation {
    fn is_from_command_line(&self) -> bool {
        self.span == COMMAND_LINE
    }
}

/// The span of values that are not in the file. No value in a file is empty at its very end.
pub(super) const COMMAND_LINE: Range<usize> = usize::MAX..usize::MAX;

/// Line and column of a byte, both from 1, the column in characters.
fn place_of(text: &str, at: usize) -> (usize, usize) {
    let before = || text.char_indices().take_while(|&(i, _)| i < at).map(|(_, c)| c);
    let line = 1 + before().filter(|&c| c == '\n').count();
    let column = before().fold(1, |column, c| if c == '\n' { 1 } else { column + 1 });
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_shown_where_it_is_wrong() {
        let text = "[alerts.webhooks.chat]\nurl = \"ftp://chat/T0PS3CRET\"\n[limiters.a]\nmax = 0\n[alerts.webhooks.b]\nurl = 1234567\n";
        let wrong =
            crate::config::Config::parse("test", text, &crate::config::Overrides::default()).expect_err("wrong");
        assert!(wrong.to_string().contains("alerts.webhooks.chat.url: must begin with"), "{wrong}");
        assert!(wrong.drawn().contains("test:2:7"), "{}", wrong.drawn());
        for said in [wrong.to_string(), wrong.drawn()] {
            assert!(!said.contains("T0PS3CRET") && !said.contains("1234567"), "{said}");
            assert!(said.contains("limiters.a.max = 0"), "{said}");
        }
    }

    #[test]
    fn places_count_from_one_in_characters() {
        let text = "a = 1\nü = 2\n";
        assert_eq!(place_of(text, 0), (1, 1));
        assert_eq!(place_of(text, text.find('2').expect("there")), (2, 5));
        assert_eq!(place_of(text, text.len()), (3, 1));
    }
}
