//! Ten classes of drawn shapes: a data set for where there is none.
//!
//! Integer arithmetic only, so that the pixels are the same on every machine. Distances are in
//! 1/256 of a pixel, or in 1/1024 of the shape's radius in the shape's own, turned frame.

use super::Source;
use crate::error::Result;
use crate::rng::{key, philox4x32};

/// Whether a shape holds the point (u, v) of its own frame, where v points down.
type Inside = fn(i64, i64) -> bool;

/// The classes by label. Every shape lies within [`REACH`] of its centre.
const CLASSES: [(&str, Inside); 10] = [
    ("circle", |u, v| within(900, u, v)),
    ("square", |u, v| u.abs().max(v.abs()) <= 780),
    // Three sides at distance 512 from the centre, one of them below it.
    ("triangle", |u, v| v <= 512 && 887 * u.abs() - 512 * v <= 512 * ONE),
    // Of five lines about its middle, a five-pointed star is inside of at least four.
    ("star", |u, v| {
        const NORMALS: [(i64, i64); 5] =
            [(0, 1024), (974, 316), (602, -828), (-602, -828), (-974, 316)];
        NORMALS.iter().filter(|(a, b)| a * u + b * v <= 360 * ONE).count() >= 4
    }),
    ("ring", |u, v| within(960, u, v) && !within(560, u, v)),
    ("cross", |u, v| u.abs().min(v.abs()) <= 280 && u.abs().max(v.abs()) <= 980),
    ("crescent", |u, v| within(980, u, v) && !within(760, u - 480, v)),
    // Two discs over a wedge.
    ("heart", |u, v| {
        let wedge = v >= -340 && v <= 1000 - u.abs() && u.abs() <= 904;
        within(500, u.abs() - 430, v + 340) || wedge
    }),
    ("hourglass", |u, v| v.abs() <= 860 && u.abs() <= 120 + v.abs() * 3 / 4),
    // A head that points up, and a shaft.
    ("arrow", |u, v| {
        let head = v <= 60 && u.abs() * 11 <= (v + 1000) * 8;
        head || (u.abs() <= 260 && (0..=960).contains(&v))
    }),
];

/// A shape's radius in its own frame.
const ONE: i64 = 1024;
/// How far a shape goes from its centre, at most.
const REACH: i64 = 1200;

fn within(radius: i64, u: i64, v: i64) -> bool {
    u * u + v * v <= radius * radius
}

/// Which images of a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Those to learn from.
    Train,
    /// Others, of the same kind.
    Valid,
}

/// Images of one shape each: colour, place, size, turn and background are random.
#[derive(Debug, Clone)]
pub struct Shapes {
    seed: u64,
    part: Part,
    count: u64,
    side: u32,
    classes: Vec<String>,
}

impl Shapes {
    /// `count` images of `side` x `side` pixels (8 to 1,024 are sensible; larger is clamped).
    ///
    /// Image i depends on (seed, part, i, side) alone, and has label i mod 10.
    pub fn new(seed: u64, part: Part, count: u64, side: u32) -> Shapes {
        let classes = CLASSES.map(|(name, _)| name.to_string()).to_vec();
        Shapes { seed, part, count, side: side.clamp(8, 1024), classes }
    }
}

impl Source for Shapes {
    fn len(&self) -> u64 {
        self.count
    }

    fn side(&self) -> u32 {
        self.side
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn label(&self, index: u64) -> u8 {
        (index % CLASSES.len() as u64) as u8
    }

    fn image(&self, index: u64, rgb: &mut [u8]) -> Result<()> {
        let mut random = Random::new(self.seed, self.part as u32, index);
        let scene = Scene::new(&mut random, self.label(index), self.side);
        scene.draw(&mut random, rgb);
        Ok(())
    }
}

/// Random numbers of one image, in order.
struct Random {
    seed: u64,
    part: u32,
    index: u64,
    block: u32,
    words: [u32; 4],
    used: usize,
}

impl Random {
    fn new(seed: u64, part: u32, index: u64) -> Random {
        Random { seed, part, index, block: 0, words: [0; 4], used: 4 }
    }

    fn word(&mut self) -> u32 {
        if self.used == 4 {
            let (low, high) = (self.index as u32, (self.index >> 32) as u32);
            self.words = philox4x32(key(self.seed), [low, high, self.part, self.block]);
            self.block += 1;
            self.used = 0;
        }
        self.used += 1;
        self.words[self.used - 1]
    }

    /// A number from `low` to `high`, both among them.
    fn range(&mut self, low: i64, high: i64) -> i64 {
        low + ((u64::from(self.word()) * (high - low + 1) as u64) >> 32) as i64
    }
}

type Colour = [i64; 3];

/// What is in an image, before it is made of pixels.
struct Scene {
    side: i64,
    shape: Frame,
    inside: Inside,
    colour: Colour,
    ground: Colour,
    /// Change of the ground's colour across the image, along x and y.
    slope: [Colour; 2],
    /// Amplitude of the noise on each value.
    noise: i64,
    specks: Vec<Speck>,
}

/// A small disc or a stroke behind the shape, to be looked past.
struct Speck {
    frame: Frame,
    stroke: bool,
    colour: Colour,
}

impl Speck {
    fn new(random: &mut Random, side: i64) -> Speck {
        let mut within = |low, high| random.range(side * low, side * high);
        let (x, y, radius) = (within(0, 256), within(0, 256), within(8, 24));
        Speck {
            frame: Frame::new(x, y, radius, random.range(0, 359)),
            stroke: random.range(0, 1) == 1,
            colour: std::array::from_fn(|_| random.range(0, 255)),
        }
    }

    fn coverage(&self, x: i64, y: i64) -> i64 {
        if self.stroke {
            let inside = |u: i64, v: i64| u.abs() <= 3 * ONE && v.abs() <= ONE / 4;
            self.frame.coverage(x, y, 3 * ONE + ONE / 4, inside)
        } else {
            self.frame.coverage(x, y, ONE, |u, v| within(ONE, u, v))
        }
    }
}

impl Scene {
    fn new(random: &mut Random, label: u8, side: u32) -> Scene {
        let side = i64::from(side);
        let radius = side * 256 * random.range(28, 38) / 100;
        let room = side * 128 - radius;
        let mut centre = || side * 128 + random.range(-room, room);
        let (x, y) = (centre(), centre());
        let shape = Frame::new(x, y, radius, random.range(-30, 30));
        let inside = CLASSES[label as usize].1;
        // The shape is always the brighter one.
        let ground: Colour = std::array::from_fn(|_| random.range(0, 120));
        let colour = std::array::from_fn(|_| random.range(140, 255));
        let slope = std::array::from_fn(|_| std::array::from_fn(|_| random.range(-30, 30)));
        let specks = (0..random.range(0, 3)).map(|_| Speck::new(random, side)).collect();
        Scene { side, shape, inside, colour, ground, slope, noise: random.range(0, 12), specks }
    }

    fn draw(&self, random: &mut Random, rgb: &mut [u8]) {
        for (i, pixel) in rgb.chunks_exact_mut(3).enumerate() {
            let (x, y) = (i as i64 % self.side, i as i64 / self.side);
            let mut colour: Colour = std::array::from_fn(|c| {
                let across = self.slope[0][c] * (2 * x - self.side);
                let down = self.slope[1][c] * (2 * y - self.side);
                self.ground[c] + (across + down) / (2 * self.side)
            });
            for speck in &self.specks {
                blend(&mut colour, &speck.colour, speck.coverage(x, y));
            }
            blend(&mut colour, &self.colour, self.shape.coverage(x, y, REACH, self.inside));
            for (value, colour) in pixel.iter_mut().zip(colour) {
                let noise = random.range(-self.noise, self.noise);
                *value = (colour + noise).clamp(0, 255) as u8;
            }
        }
    }
}

/// Samples of a pixel along each side.
const GRID: i64 = 4;

fn blend(colour: &mut Colour, over: &Colour, covered: i64) {
    for (value, over) in colour.iter_mut().zip(over) {
        *value += (over - *value) * covered / (GRID * GRID);
    }
}

/// Where a shape is, how large, and which way up.
struct Frame {
    x: i64,
    y: i64,
    radius: i64,
    /// Cosine and sine over the radius, in units of 2^-20.
    cos: i64,
    sin: i64,
}

impl Frame {
    fn new(x: i64, y: i64, radius: i64, degrees: i64) -> Frame {
        let over_radius = |sine: i64| sine * (ONE << 6) / radius;
        Frame {
            x,
            y,
            radius,
            cos: over_radius(sine(degrees + 90)),
            sin: over_radius(sine(degrees)),
        }
    }

    /// How many samples of the pixel at column `x`, row `y` are `inside`, a test that holds only
    /// within `reach` of the centre.
    fn coverage(&self, x: i64, y: i64, reach: i64, inside: impl Fn(i64, i64) -> bool) -> i64 {
        let (left, top) = (256 * x - self.x, 256 * y - self.y);
        let far = self.radius * reach / ONE + 256;
        if left.abs() > far || top.abs() > far {
            return 0;
        }
        let step = 256 / GRID;
        let mut covered = 0;
        for j in 0..GRID {
            for i in 0..GRID {
                let (u, v) = self.place(left + step / 2 + i * step, top + step / 2 + j * step);
                covered += i64::from(inside(u, v));
            }
        }
        covered
    }

    /// A point given from the centre in 1/256 pixels, in the shape's own frame.
    fn place(&self, x: i64, y: i64) -> (i64, i64) {
        ((x * self.cos + y * self.sin) >> 20, (y * self.cos - x * self.sin) >> 20)
    }
}

/// The sine in units of 2^-14, by Bhaskara's formula of the seventh century: a fraction of whole
/// numbers, off by 0.0017 at most.
fn sine(degrees: i64) -> i64 {
    let degrees = degrees.rem_euclid(360);
    let (angle, sign) = if degrees < 180 { (degrees, 1) } else { (degrees - 180, -1) };
    let product = angle * (180 - angle);
    sign * ((4 * product) << 14) / (40_500 - product)
}
