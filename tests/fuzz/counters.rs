//! Which code an input ran: the compiler's coverage counters, where `build/coverage/fuzz.sh` has put
//! them in.
#![allow(unsafe_code)]

/// What was seen of the counters since the start.
pub(crate) struct Counters {
    /// By counter: the ranges in which its count has been after one input, a bit each.
    seen: Vec<u8>,
    /// Its sum over all inputs, since the counter itself starts anew for each.
    sums: Vec<u64>,
}

impl Counters {
    pub(crate) fn new() -> Counters {
        let count = section().1;
        Counters { seen: vec![0; count], sums: vec![0; count] }
    }

    /// Before an input.
    pub(crate) fn clear(&self) {
        let (start, count) = section();
        // SAFETY: the section is `count` counters, which are plain numbers; only this thread counts.
        unsafe { std::ptr::write_bytes(start, 0, count) }
    }

    /// After it: whether code ran that had not run, or another order of times.
    pub(crate) fn is_new(&mut self) -> bool {
        let (start, count) = section();
        let mut new = false;
        for k in 0..count {
            // SAFETY: within the section. Volatile, since the loop's own counter is in it.
            let times = unsafe { start.add(k).read_volatile() };
            if times != 0 {
                let range = 1 << times.ilog2().min(7);
                new |= self.seen[k] & range == 0;
                self.seen[k] |= range;
                self.sums[k] += times;
            }
        }
        new
    }

    /// At the end: the sums, which the process leaves behind for `llvm-cov`.
    pub(crate) fn restore(&self) {
        let (start, _) = section();
        for (k, sum) in self.sums.iter().enumerate() {
            // SAFETY: as above.
            unsafe { start.add(k).write_volatile(*sum) }
        }
    }
}

/// The counters of the whole program: the first, and how many.
#[cfg(fuzz_counters)]
fn section() -> (*mut u64, usize) {
    unsafe extern "C" {
        // The linker's names for the bounds of a section.
        static __start___llvm_prf_cnts: u64;
        static __stop___llvm_prf_cnts: u64;
    }
    let start = &raw const __start___llvm_prf_cnts;
    let stop = &raw const __stop___llvm_prf_cnts;
    // Opaque: the compiler is not to think of them as two numbers that lie alone.
    let (start, stop) = std::hint::black_box((start, stop));
    (start.cast_mut(), (stop.addr() - start.addr()) / size_of::<u64>())
}

#[cfg(not(fuzz_counters))]
fn section() -> (*mut u64, usize) {
    (std::ptr::dangling_mut(), 0)
}
