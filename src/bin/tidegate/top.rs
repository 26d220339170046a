//! `tidegate top`: every limiter's numbers, drawn anew each second until Ctrl-C.
//!
//! Plain ANSI, no library. Where the output is no terminal it prints once. A gateway that does not
//! answer is said so on the screen, and asked again.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::ask::{Columns, Gateway, plain, short};

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    gateway: Gateway,
    /// Print once and end.
    #[arg(long)]
    once: bool,
}

const EVERY: Duration = Duration::from_secs(1);
/// What is assumed of a terminal that does not tell its size.
const USUAL: (usize, usize) = (80, 24);

/// `tidegate top`.
pub(crate) fn run(args: &TopArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let gateway = args.gateway.asker()?;
        if args.once || !std::io::stdout().is_terminal() {
            let now = gateway.get("/api/v1/now").await?;
            let mut out = std::io::stdout().lock();
            for line in screen(&now, usize::MAX, usize::MAX) {
                writeln!(out, "{line}")?;
            }
            return anyhow::Ok(());
        }
        let _screen = Screen::open()?;
        let mut tick = tokio::time::interval(EVERY);
        loop {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => return Ok(()),
                () = async { tick.tick().await; } => {}
            }
            let (width, height) = size();
            let lines = tokio::select! {
                _ = tokio::signal::ctrl_c() => return Ok(()),
                now = gateway.get("/api/v1/now") => match now {
                    Ok(now) => screen(&now, width, height),
                    Err(err) => vec![cut(format!("{}: no answer, trying again", gateway.base()), width), cut(format!("{err:#}"), width)],
                },
            };
            draw(&lines)?;
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The terminal's other screen, with no cursor; what was there before comes back at the end.
struct Screen;

impl Screen {
    fn open() -> std::io::Result<Self> {
        say("\x1b[?1049h\x1b[?25l")?;
        Ok(Self)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing put back.
        let _ = say("\x1b[?25h\x1b[?1049l");
    }
}

fn say(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Over what is there, line by line, so that nothing flickers.
fn draw(lines: &[String]) -> std::io::Result<()> {
    let mut all = String::from("\x1b[H");
    for (i, line) in lines.iter().enumerate() {
        if i > 0 {
            all.push_str("\r\n");
        }
        all.push_str(line);
        all.push_str("\x1b[K");
    }
    all.push_str("\x1b[J");
    say(&all)
}

fn size() -> (usize, usize) {
    match terminal_size::terminal_size() {
        Some((terminal_size::Width(width), terminal_size::Height(height))) if width > 0 && height > 0 => {
            (width.into(), height.into())
        }
        _ => USUAL,
    }
}

struct Row {
    name: String,
    cells: [String; 8],
    state: String,
}

const HEAD: [&str; 8] = ["IN FLIGHT", "LIMIT", "BOUNDS", "QUEUED", "P50 ms", "P99 ms", "GOOD/s", "REFUSED/s"];

/// The lines for a terminal of this size: trouble first, and what does not fit is counted.
fn screen(now: &Value, width: usize, height: usize) -> Vec<String> {
    let columns = Columns::of(now);
    let limiters = now["limiters"].as_object().into_iter().flatten();
    let mut rows: Vec<Row> = limiters.map(|(name, limiter)| row(name, limiter, &columns)).collect();
    rows.sort_by_key(|row| row.state.is_empty());
    let config = &now["config"];
    let mut lines = vec![format!("tidegate: {} limiters; config version {}", rows.len(), config["version"])];
    if let Some(error) = config["error"].as_str() {
        lines.push(format!("config refused: {}", plain(error.lines().next().unwrap_or(""))));
    }
    let longest = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).clamp(7, 32);
    let cell = |i: usize, text: &str| {
        let wide = rows.iter().map(|row| row.cells[i].len()).max().unwrap_or(0).max(HEAD[i].len());
        format!("  {text:>wide$}")
    };
    let heads: String = HEAD.iter().enumerate().map(|(i, head)| cell(i, head)).collect();
    lines.push(format!("{:<longest$}{heads}  STATE", "LIMITER"));
    let room = height.saturating_sub(lines.len()).max(1);
    let shown = if rows.len() > room { room.saturating_sub(1).max(1) } else { rows.len() };
    for row in &rows[..shown] {
        let cells: String = row.cells.iter().enumerate().map(|(i, text)| cell(i, text)).collect();
        let name: String = row.name.chars().take(longest).collect();
        lines.push(format!("{name:<longest$}{cells}  {}", row.state).trim_end().to_owned());
    }
    if shown < rows.len() {
        lines.push(format!("... and {} more", rows.len() - shown));
    }
    lines.truncate(height.max(1));
    lines.into_iter().map(|line| cut(line, width)).collect()
}

fn row(name: &str, limiter: &Value, columns: &Columns) -> Row {
    let values = limiter["values"].as_array().cloned().unwrap_or_default();
    let read = |column| columns.read(&values, column);
    let (refused, failed) = (columns.refused(&values), columns.failed(&values));
    let mut state = Vec::new();
    if let Some(kind) = limiter["fallback"].as_str() {
        state.push(format!("fallback {}", plain(kind)));
    }
    if refused > 0.0 {
        state.push("refusing".to_owned());
    }
    if failed > 0.0 {
        state.push(format!("{}/s fail", short(Some(failed))));
    }
    if let Some(mode) = limiter["mode"].as_str().filter(|mode| *mode != "enforce") {
        state.push(plain(mode));
    }
    let cells = [
        short(read("in_flight")),
        short(read("limit")),
        format!("{}-{}", short(read("min")), short(read("max"))),
        short(read("queued")),
        short(read("p50_ms")),
        short(read("p99_ms")),
        short(read("success")),
        short(Some(refused)),
    ];
    Row { name: plain(name), cells, state: state.join(", ") }
}

fn cut(line: String, width: usize) -> String {
    if line.chars().count() <= width { line } else { line.chars().take(width).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    fn now(limiters: usize) -> Value {
        let all: Map<_, _> = (0..limiters)
            .map(|i| {
                let refused = if i == 3 { 7.5 } else { 0.0 };
                let values = json!([20, 4, 40, i, 0, 12.34, null, 90, refused]);
                (format!("l{i:03}"), json!({ "mode": "enforce", "fallback": null, "values": values }))
            })
            .collect();
        json!({ "columns": ["limit", "min", "max", "in_flight", "queued", "p50_ms", "p99_ms", "success", "limit_reached"],
                "config": { "version": 2, "error": null }, "limiters": all })
    }

    #[test]
    fn trouble_comes_first_and_unknown_numbers_are_dashes() {
        let lines = screen(&now(5), 200, 50);
        assert_eq!(lines.len(), 7);
        assert!(lines[2].starts_with("l003") && lines[2].ends_with("refusing"), "{}", lines[2]);
        let cells: Vec<_> = lines[3].split_whitespace().collect();
        assert_eq!(cells, ["l000", "0", "20", "4-40", "0", "12.3", "-", "90", "0"]);
    }

    #[test]
    fn a_small_terminal_gets_what_fits() {
        for (width, height) in [(20, 5), (1, 1), (80, 24), (10, 3)] {
            let lines = screen(&now(200), width, height);
            assert!(lines.len() <= height, "{} lines for {height}", lines.len());
            assert!(lines.iter().all(|line| line.chars().count() <= width));
        }
        assert_eq!(screen(&now(200), 80, 24)[23], "... and 179 more");
    }
}
