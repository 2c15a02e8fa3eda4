//! The launches of a batch, in the order in which they follow each other.

use super::args::{ColourArgs, EntropyArgs, IdctArgs, SubsequenceArgs};
use super::batch::{Batch, Entry, Memory};
use super::cut::Step;
use super::group::LANES;

/// Multiprocessors of a large GPU. Where threads are few, each gets some of them.
const PROCESSORS: u32 = 128;
const THREADS: u32 = 256;
/// Blocks that a picture gets for its colours, at most; they go round.
const MOST_TILES: u32 = 64;

/// Arguments of a kernel, and its grid.
#[derive(Debug, Clone, Copy)]
pub struct Launch<A> {
    /// The structure that the kernel declares.
    pub args: A,
    /// What the host's entry counts: scans, subsequences or intervals, runs, pictures.
    pub n: u32,
    /// Blocks of the grid.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
}

impl<A> Launch<A> {
    /// For threads whose ways differ. A warp takes as long as all of its threads' ways together: while there is room
    /// for `beside` blocks on each processor, they have fewer than `most`.
    fn spread(args: A, n: u32, beside: u32, most: u32) -> Self {
        let threads = n.div_ceil(PROCESSORS * beside).next_power_of_two().min(most);
        Launch { args, n, blocks: n.div_ceil(threads), threads }
    }
}

impl Batch {
    /// The first launch; `None` where all pictures are cut.
    pub fn entropy(&self, memory: Memory) -> Option<Launch<EntropyArgs>> {
        let (tables, n) = (self.tables(), self.scans as u32);
        let args = EntropyArgs {
            scans: memory.tables + tables.scans as u64,
            pool: memory.tables + tables.pool as u64,
            status: memory.status,
            n,
            unused: 0,
        };
        (n > 0).then(|| Launch::spread(args, n, 1, 32))
    }

    /// The launches of `subsequence`, before or behind that; none where no picture is cut.
    pub fn subsequences(&self, memory: Memory) -> Vec<Launch<SubsequenceArgs>> {
        let (tables, scratch) = (self.tables(), self.scratch());
        let (n, intervals) = (self.subsequences as u32, self.intervals as u32);
        let launch = |step, round: u32, n| {
            let half = (round % 2) as usize;
            let args = SubsequenceArgs {
                intervals: memory.tables + tables.intervals as u64,
                interval_of: memory.tables + tables.interval_of as u64,
                pool: memory.tables + tables.pool as u64,
                before: memory.scratch + scratch.links[1 - half] as u64,
                links: memory.scratch + scratch.links[half] as u64,
                tallies: memory.scratch + scratch.tallies as u64,
                status: memory.status,
                n,
                bytes: self.cutting.bytes,
                step: step as u32,
                unused: 0,
            };
            Launch::spread(args, n, 32, 128)
        };
        // In as many rounds as an interval has subsequences, all of them settle.
        let rounds = self.cutting.rounds.min(self.longest);
        let step = |round| if round == 0 { Step::Guess } else { Step::Follow };
        let mut launches: Vec<_> = (0..rounds).map(|round| launch(step(round), round, n)).collect();
        let last = rounds.saturating_sub(1);
        // Of intervals without a byte, too, it has to be said that they lack blocks.
        if intervals > 0 {
            launches.push(launch(Step::AddUp, last, intervals));
        }
        if n > 0 {
            launches.push(launch(Step::Store, last, n));
        }
        launches
    }

    /// The next.
    pub fn idct(&self, memory: Memory) -> Launch<IdctArgs> {
        let tables = self.tables();
        let args = IdctArgs {
            runs: memory.tables + tables.runs as u64,
            run_of: memory.tables + tables.run_of as u64,
            status: memory.status,
            n: self.groups as u32,
            unused: 0,
        };
        let blocks = (self.groups * LANES).div_ceil(THREADS as usize) as u32;
        Launch { args, n: self.runs as u32, blocks, threads: THREADS }
    }

    /// The last.
    pub fn colour(&self, memory: Memory) -> Launch<ColourArgs> {
        let pairs = |entry: &Entry| {
            let (width, height) = self.placed[entry.placed].prepared.size();
            u64::from(width.div_ceil(2)) * u64::from(height)
        };
        let most = self.entries.iter().map(pairs).max().unwrap_or(0);
        let tiles = most.div_ceil(u64::from(THREADS)).clamp(1, MOST_TILES.into()) as u32;
        let n = self.entries.len() as u32;
        let pictures = memory.tables + self.tables().pictures as u64;
        let args = ColourArgs { pictures, n, tiles };
        Launch { args, n, blocks: n * tiles, threads: THREADS }
    }
}
