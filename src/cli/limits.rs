//! What one sample may cost, as flags. Shared by both programs.

use forebay::decoder::Limits;

/// Without a default each, so that a run's settings name those alone that someone chose.
#[derive(clap::Args, Debug, Clone, Copy)]
pub(crate) struct LimitArgs {
    /// Refuse images of more pixels [default: 128000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_pixels: Option<u64>,
    /// Refuse files of more bytes [default: 268435456]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_file_bytes: Option<u64>,
    /// Refuse JPEG files of more scans [default: 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    max_scans: Option<u32>,
    /// Refuse JPEG files of more pixels times scans [default: 2000000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_work: Option<u64>,
}

impl LimitArgs {
    /// The limits that hold.
    pub(crate) fn limits(self) -> Limits {
        let default = Limits::default();
        Limits {
            pixels: self.max_pixels.unwrap_or(default.pixels),
            bytes: self.max_file_bytes.unwrap_or(default.bytes),
            scans: self.max_scans.unwrap_or(default.scans),
            work: self.max_work.unwrap_or(default.work),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, Command};

    /// The help's figures are text: nothing else would notice if a default changed.
    #[test]
    fn help_names_the_defaults() {
        let Limits { pixels, bytes, scans, work } = Limits::default();
        let help = LimitArgs::augment_args(Command::new("x")).render_help().to_string();
        for number in [pixels, bytes, scans.into(), work] {
            assert!(help.contains(&format!("[default: {number}]")), "{number}: {help}");
        }
    }
}
