//! How a program ends: what it says on stderr and its exit status. Shared by both programs.

use clap::error::ErrorKind;
use std::io::{self, Write};
use std::process::ExitCode;

/// Help and version go out as they are; a mistake becomes one line like every other error.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // Nobody is left to tell when even help cannot be printed.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let text = error.render().to_string();
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        eprint!("{text}");
        return ExitCode::from(2);
    }
    let said = |line: &&str| {
        !line.is_empty() && !line.starts_with("Usage:") && !line.starts_with("For more information")
    };
    let lines = text.lines().map(str::trim).filter(said);
    let line = lines.collect::<Vec<_>>().join("; ").replace(":;", ":");
    report(line.strip_prefix("error: ").unwrap_or(&line));
    ExitCode::from(2)
}

/// Prints an error as one line.
pub(crate) fn report(message: &str) {
    let line = message.split_whitespace().collect::<Vec<_>>().join(" ");
    // Nobody may be left to tell; the exit status does.
    let _ = writeln!(io::stderr(), "forebay: error: {line}");
}
