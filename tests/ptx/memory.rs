//! Device memory laid out once, with addresses that count from its start, and launches over it: so
//! that the host's kernels run on it where it happens to lie, and the interpreter where it is put.

use forebay::device::Kernel;
use forebay::device::cpu::Cpu;

/// Where the interpreter puts it: `BASE` of run.py.
const BASE: u64 = 1 << 16;
/// Allocations of CUDA start at multiples of this. The host's copy does, too, since kernels look at
/// the lower bits of addresses.
const ALIGN: usize = 256;
/// What memory holds that nobody has written.
const FILLING: u8 = 0xA5;

/// Regions with gaps between them, in which kernels may touch nothing.
#[derive(Clone, Default)]
pub(crate) struct Memory {
    bytes: Vec<u8>,
    /// Start and length of each region.
    regions: Vec<(usize, usize)>,
    /// Places of 64-bit words that hold an address.
    addresses: Vec<usize>,
}

impl Memory {
    /// Room for `len` bytes, starting `skew` bytes behind a multiple of 256. Its address.
    pub(crate) fn place(&mut self, len: usize, skew: usize) -> u64 {
        let start = self.bytes.len().next_multiple_of(ALIGN) + skew;
        self.bytes.resize(start + len + ALIGN, FILLING);
        self.regions.push((start, len));
        start as u64
    }

    /// A region with these values. Its address.
    pub(crate) fn table<T: bytemuck::Pod>(&mut self, values: &[T]) -> u64 {
        let at = self.place(size_of_val(values), 0);
        self.write(at, bytemuck::cast_slice(values));
        at
    }

    /// Writes bytes to an address.
    pub(crate) fn write(&mut self, at: u64, bytes: &[u8]) {
        self.bytes[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Writes, to an address, an address of this memory.
    pub(crate) fn link(&mut self, at: u64, to: u64) {
        self.write(at, &to.to_le_bytes());
        self.addresses.push(at as usize);
    }

    /// The bytes as they are when the memory lies at `base`.
    fn loaded(&self, base: u64) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        self.rebase(&mut bytes, base);
        bytes
    }

    /// Adds `by` to every address in `bytes`.
    fn rebase(&self, bytes: &mut [u8], by: u64) {
        for &at in &self.addresses {
            let word: [u8; 8] = bytes[at..at + 8].try_into().unwrap();
            let moved = u64::from_le_bytes(word).wrapping_add(by);
            bytes[at..at + 8].copy_from_slice(&moved.to_le_bytes());
        }
    }
}

/// A kernel's launch over a memory.
#[derive(Clone)]
pub(crate) struct Launch {
    kernel: Kernel,
    /// The structure of arguments in words; the first `addresses` of them are addresses.
    args: Vec<u64>,
    addresses: usize,
    /// Samples or images, for the host.
    count: u32,
    blocks: u32,
    threads: u32,
}

impl Launch {
    /// `kernel` with arguments that start with so many addresses, over `count` samples or images.
    pub(crate) fn new<A: bytemuck::Pod>(
        kernel: Kernel,
        args: A,
        addresses: usize,
        count: u32,
        [blocks, threads]: [u32; 2],
    ) -> Launch {
        let args = bytemuck::pod_collect_to_vec(&[args]);
        Launch { kernel, args, addresses, count, blocks, threads }
    }

    fn loaded(&self, base: u64) -> Vec<u64> {
        let mut args = self.args.clone();
        args[..self.addresses].iter_mut().for_each(|address| *address += base);
        args
    }
}

/// Launches one after another over a memory.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) label: String,
    pub(crate) memory: Memory,
    pub(crate) launches: Vec<Launch>,
}

impl Case {
    /// The memory behind the launches, as the host's kernels leave it; addresses count from its
    /// start.
    pub(crate) fn on_host(&self, cpu: Cpu) -> Vec<u8> {
        let len = self.memory.bytes.len();
        let mut room = vec![0u8; len + ALIGN];
        let skip = room.as_ptr().align_offset(ALIGN);
        let base = room[skip..].as_mut_ptr() as u64;
        room[skip..skip + len].copy_from_slice(&self.memory.loaded(base));
        for launch in &self.launches {
            let args = launch.loaded(base);
            // SAFETY: what built the case placed a region for everything that its kernels touch,
            // and linked its address; `room` outlives the launch.
            unsafe { cpu.launch(launch.kernel, args.as_ptr().cast(), 0..launch.count) }
        }
        let mut bytes = room[skip..skip + len].to_vec();
        self.memory.rebase(&mut bytes, base.wrapping_neg());
        bytes
    }

    /// The memory before the launches, for the interpreter.
    pub(crate) fn input(&self) -> Vec<u8> {
        self.memory.loaded(BASE)
    }

    /// The launches, for the interpreter.
    pub(crate) fn describe(&self) -> serde_json::Value {
        let launch = |launch: &Launch| {
            let kernel = format!("{:?}", launch.kernel).to_lowercase();
            let args = launch.loaded(BASE);
            let args: String =
                bytemuck::cast_slice(&args).iter().map(|byte: &u8| format!("{byte:02x}")).collect();
            serde_json::json!({
                "kernel": kernel, "args": args, "blocks": launch.blocks, "threads": launch.threads,
            })
        };
        let launches: Vec<_> = self.launches.iter().map(launch).collect();
        serde_json::json!({
            "label": self.label, "regions": self.memory.regions, "launches": launches,
        })
    }

    /// All of it for tests/kernels/jpeg.cpp, which numbers kernels by `kernels`.
    #[allow(dead_code)] // The interpreter has files of its own.
    pub(crate) fn file(&self, kernels: &[Kernel]) -> Vec<u8> {
        let Memory { bytes, regions, addresses } = &self.memory;
        let mut launches = Vec::<u64>::new();
        for launch in &self.launches {
            let number = kernels.iter().position(|kernel| *kernel == launch.kernel).unwrap();
            let Launch { args, addresses, count, blocks, threads, .. } = launch;
            launches.extend([number, args.len(), *addresses].map(|n| n as u64));
            launches.extend([count, blocks, threads].map(|&n| u64::from(n)));
            launches.extend(args);
        }
        let head =
            [regions.len(), bytes.len(), addresses.len(), self.launches.len(), launches.len()];
        let words = |words: &mut dyn Iterator<Item = usize>| -> Vec<u8> {
            words.flat_map(|word| (word as u64).to_ne_bytes()).collect()
        };
        [
            words(&mut head.into_iter()),
            words(&mut regions.iter().flat_map(|&(start, len)| [start, len])),
            bytes.clone(),
            words(&mut addresses.iter().copied()),
            bytemuck::cast_slice(&launches).to_vec(),
        ]
        .concat()
    }

    /// Holds what the interpreter left against what the host did: every byte of every region.
    pub(crate) fn compare(&self, host: &[u8], mut interpreted: Vec<u8>) {
        self.memory.rebase(&mut interpreted, BASE.wrapping_neg());
        assert_eq!(host.len(), interpreted.len(), "{}", self.label);
        let Some(at) = (0..host.len()).find(|&k| host[k] != interpreted[k]) else { return };
        let region = self.memory.regions.iter().rposition(|&(start, _)| start <= at).unwrap();
        let (start, len) = self.memory.regions[region];
        let differ = (start..start + len).filter(|&k| host[k] != interpreted[k]).count();
        panic!(
            "{}: {differ} of {len} bytes of region {region} differ, the first at {}: {:02x}, on the \
             host {:02x}",
            self.label,
            at - start,
            interpreted[at],
            host[at]
        );
    }
}
