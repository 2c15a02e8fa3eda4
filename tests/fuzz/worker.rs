//! The process in which a target's body runs.

use crate::mutate::{self, Rng};
use crate::pool::Pool;
use crate::targets::Target;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Address space that a body may take beside what the program has at its start.
const MEMORY: u64 = 2 << 30;

/// What a worker is to do.
pub(crate) struct Job {
    /// Where the input in work is told, for whoever looks on when there is no worker any more: how
    /// many were run before it, its length, its bytes.
    pub(crate) record: PathBuf,
    pub(crate) executions: u64,
    pub(crate) time: Duration,
    pub(crate) corpus: Option<PathBuf>,
}

impl Job {
    /// As words of a command line, and from them.
    pub(crate) fn words(&self) -> Vec<String> {
        let path = |path: &PathBuf| path.to_str().expect("a path of text").to_string();
        let mut words = vec![path(&self.record), self.executions.to_string()];
        words.push(self.time.as_secs_f64().to_string());
        words.extend(self.corpus.as_ref().map(path));
        words
    }

    pub(crate) fn read(words: &[&str]) -> Job {
        let [record, executions, time, ref corpus @ ..] = *words else { panic!("a job's words") };
        Job {
            record: record.into(),
            executions: executions.parse().unwrap(),
            time: Duration::try_from_secs_f64(time.parse().unwrap()).unwrap_or(Duration::MAX),
            corpus: corpus.first().map(PathBuf::from),
        }
    }
}

/// Runs the target's seeds, what earlier runs kept, and mutations of both; says how many and how fast.
pub(crate) fn work(target: &Target, job: &Job) {
    limit_memory();
    let mut run = Run {
        target,
        record: File::create(&job.record).expect("the record can be made"),
        pool: Pool::new(job.corpus.as_deref()),
        executions: 0,
        slowest: Duration::ZERO,
    };
    let begun = Instant::now();
    (target.seeds)().iter().for_each(|seed| run.execute(seed));
    run.pool.stored().iter().for_each(|input| run.execute(input));
    // Of a long run, another each time: it goes on from what earlier ones kept.
    let mut rng = Rng(job.corpus.is_some().then(clock).unwrap_or(1));
    while run.executions < job.executions && begun.elapsed() < job.time {
        let input = if run.pool.len() == 0 || rng.below(64) == 0 {
            mutate::noise(&mut rng)
        } else {
            let mut input = run.pool.pick(&mut rng).to_vec();
            let other = run.pool.pick(&mut rng).to_vec();
            mutate::mutate(&mut input, &other, target.words, &mut rng);
            input
        };
        run.execute(&input);
    }
    println!("{} {} {}", run.executions, run.pool.len(), run.slowest.as_secs_f64());
    run.pool.finish();
}

struct Run<'a> {
    target: &'a Target,
    record: File,
    pool: Pool,
    executions: u64,
    slowest: Duration,
}

impl Run<'_> {
    fn execute(&mut self, input: &[u8]) {
        let [before, length] = [self.executions, input.len() as u64].map(u64::to_le_bytes);
        let told = [&before[..], &length, input].concat();
        self.record.write_all_at(&told, 0).expect("the record can be written");
        let begun = Instant::now();
        self.pool.run(input, self.target.body);
        self.slowest = self.slowest.max(begun.elapsed());
        self.executions += 1;
    }
}

/// Memory without end is then a failed allocation.
fn limit_memory() {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has it");
    let pages: u64 = statm.split(' ').next().unwrap().parse().unwrap();
    let most = Some(pages * rustix::param::page_size() as u64 + MEMORY);
    setrlimit(Resource::As, Rlimit { current: most, maximum: most }).expect("less may be had");
}

fn clock() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as u64)
}
