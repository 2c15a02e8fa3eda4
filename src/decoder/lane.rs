//! Who decoded an image on the CPU, and why.

use crate::device::cpu::Cpu;
use std::fmt;

/// A decoder of the CPU, and why it was this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Our own, for JPEGs that leave no doubt.
    Own,
    /// libjpeg-turbo, since the pipeline asks for it.
    Asked,
    /// libjpeg-turbo, since this CPU has no kernels.
    NoKernels,
    /// libjpeg-turbo, since the header says that it is a rare kind of JPEG, or leaves doubt.
    Rare,
    /// libjpeg-turbo, since the data leave doubt.
    Doubt,
    /// The `image` crate, for all other formats.
    Other,
}

impl Lane {
    /// Every lane, in the order of [`Lane::index`].
    pub const ALL: [Lane; 6] =
        [Lane::Own, Lane::Asked, Lane::NoKernels, Lane::Rare, Lane::Doubt, Lane::Other];

    /// Who takes JPEGs first on this machine, where libjpeg-turbo alone is asked for or is not.
    pub fn first(turbo: bool) -> Lane {
        match Cpu::best() {
            None => Lane::NoKernels,
            Some(_) if turbo => Lane::Asked,
            Some(_) => Lane::Own,
        }
    }

    /// Its place in [`Lane::ALL`], to count by.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// A short name that stays as it is, for JSON and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Lane::Own => "own",
            Lane::Asked => "turbo-asked",
            Lane::NoKernels => "turbo-no-kernels",
            Lane::Rare => "turbo-rare",
            Lane::Doubt => "turbo-doubt",
            Lane::Other => "image",
        }
    }

    /// The decoder's name, for people.
    pub const fn decoder(self) -> &'static str {
        match self {
            Lane::Own => "forebay",
            Lane::Asked | Lane::NoKernels | Lane::Rare | Lane::Doubt => "libjpeg-turbo",
            Lane::Other => "image crate",
        }
    }
}

impl fmt::Display for Lane {
    /// Why, for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lane::Own => "baseline JPEGs without any oddity",
            Lane::Asked => "as the pipeline's decoder.backend asks",
            Lane::NoKernels => "as this CPU has no kernels",
            Lane::Rare => "progressive, CMYK, a rare sampling, or another header that leaves doubt",
            Lane::Doubt => "JPEGs whose data leave doubt",
            Lane::Other => "other formats",
        })
    }
}
