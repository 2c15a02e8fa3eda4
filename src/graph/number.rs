//! Numbers as people write them: a pipeline's values are f32, its files hold decimals.

use std::fmt;

/// The f64 with the fewest digits that rounds to `value`, so that 0.95 given as f32 is 0.95 in a
/// file and not 0.949999988079071.
pub(crate) fn widen(value: f32) -> f64 {
    let wide = f64::from(value);
    match value.to_string().parse::<f64>() {
        // Rounding the decimal to f64 and then to f32 can miss f32's own rounding at a midpoint.
        Ok(short) if short as f32 == value => short,
        _ => wide,
    }
}

/// Prints the fewest digits that read back to the same f64, in a form that both TOML and the
/// expression grammar take: whole numbers without a point, very small and large ones as `1e-9`.
pub(crate) struct Shortest(pub(crate) f64);

impl fmt::Display for Shortest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shortest(value) = *self;
        if value == 0.0 {
            f.write_str(if value.is_sign_negative() { "-0.0" } else { "0" })
        } else if (1e-5..1e15).contains(&value.abs()) {
            write!(f, "{value}")
        } else {
            write!(f, "{value:e}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn prints_what_people_write() {
        let text = |v| Shortest(widen(v)).to_string();
        for (value, expected) in [
            (0.95, "0.95"),
            (-15.0, "-15"),
            (0.0, "0"),
            (-0.0, "-0.0"),
            (1e-7, "1e-7"),
            (1e20, "1e20"),
        ] {
            assert_eq!(text(value), expected);
        }
    }

    proptest! {
        #[test]
        fn every_float_reads_back(bits: u32, wide in proptest::num::f64::NORMAL) {
            let value = f32::from_bits(bits);
            prop_assume!(value.is_finite());
            prop_assert_eq!((widen(value) as f32).to_bits(), bits);
            let read: f64 = Shortest(wide).to_string().parse().unwrap();
            prop_assert_eq!(read.to_bits(), wide.to_bits());
        }
    }
}
