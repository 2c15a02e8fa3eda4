//! What is kept in memory from epoch to epoch, as flags. Shared by both programs.

use forebay::policy::Cache;

/// Without a default each, so that a run's settings name those alone that someone chose.
#[derive(clap::Args, Debug, Clone, Copy)]
pub(crate) struct CacheArgs {
    /// Keep samples in memory from epoch to epoch: encoded (files as they were read), decoded (pixels)
    /// or none [default: the pipeline's, else none]
    #[arg(long, value_name = "WHAT")]
    pub(crate) cache: Option<Cache>,
    /// The most memory for it, such as 512MiB or 4GiB; what it has no room for is read each time. A
    /// training's validation samples get as much again [default: a quarter of what is free, divided by
    /// the number of processes that share the data]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) cache_budget: Option<u64>,
}

/// A number of bytes: `1000`, `64KiB`, `1.5GiB`, `8GB`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 9] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("kB", 1000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
        ("B", 1),
    ];
    let unit = UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)));
    let (number, unit) = unit.unwrap_or((text, 1));
    let number = number.trim_end();
    let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let bytes = number.parse::<f64>().ok().filter(|_| plain).map(|number| number * unit as f64);
    match bytes {
        Some(bytes) if bytes < 2_f64.powi(53) => Ok(bytes as u64),
        _ => Err("expected a size such as 1000, 512MiB or 4GiB".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("1000", 1000),
            ("12B", 12),
            ("64KiB", 65_536),
            ("1.5 GiB", 3 << 29),
            ("8GB", 8_000_000_000),
            ("1TiB", 1 << 40),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "MiB", "-1", "4g", "1e3", "inf", "99999999TiB", "1.2.3MB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
