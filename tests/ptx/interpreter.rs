//! The interpreter's processes: what they need, what they are given, what they leave.

use super::memory::Case;
use forebay::device::images::IMAGES;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Where it is, and a Python with NumPy.
pub(crate) struct Interpreter {
    tools: PathBuf,
    python: PathBuf,
}

/// What the launches left.
pub(crate) struct Left {
    /// The memory of each case.
    pub(crate) memories: Vec<Vec<u8>>,
    /// For each kernel, instructions that some thread executed, and that none did.
    pub(crate) instructions: BTreeMap<String, (usize, usize)>,
}

impl Interpreter {
    /// `None`, said aloud, where something is missing.
    pub(crate) fn find() -> Option<Interpreter> {
        let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let shared = variable("FOREBAY_SHARED").unwrap_or_else(|| "../shared".into());
        let tools = Path::new(ROOT).join(shared).join("tools");
        let home = || variable("HOME").map(|home| home.join(".cache"));
        let cache = || variable("XDG_CACHE_HOME").or_else(home).map(|dir| dir.join("forebay"));
        let cache = variable("FOREBAY_CACHE").or_else(cache).unwrap_or_default();
        let python = cache.join("ptx-numpy").join("bin/python");
        let skipped = |why: &str| {
            eprintln!("skipped: {why}");
            None
        };
        if !tools.join("ptxrun.py").exists() {
            return skipped("needs tools/ptxrun.py of FOREBAY_SHARED, which is not there");
        }
        if !python.exists() {
            return skipped("needs NumPy in an environment that make test-ptx makes");
        }
        if IMAGES.is_empty() {
            return skipped("built without NVRTC, so there are no kernels to interpret");
        }
        Some(Interpreter { tools, python })
    }

    /// Runs the cases from their beginning, in a process for each core.
    pub(crate) fn run(&self, cases: &[Case]) -> Left {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: String| dir.path().join(name);
        for image in IMAGES.iter().filter(|image| image.arch.starts_with("compute_")) {
            std::fs::write(file(format!("{}.ptx", image.kernel)), image.code).unwrap();
        }
        for (k, case) in cases.iter().enumerate() {
            std::fs::write(file(format!("{k}.in")), case.input()).unwrap();
        }
        let described: Vec<_> = cases.iter().map(Case::describe).collect();
        std::fs::write(file("cases.json".into()), serde_json::to_vec(&described).unwrap()).unwrap();

        let cores = std::thread::available_parallelism().map_or(1, |n| n.get().min(8));
        let start = |first: usize| {
            let mut command = Command::new(&self.python);
            command.arg("-B").arg(Path::new(ROOT).join("tests/ptx/run.py"));
            command.arg(&self.tools).arg(dir.path()).args([first, cores].map(|n| n.to_string()));
            command.spawn().unwrap()
        };
        let running: Vec<_> = (0..cores).map(start).collect();
        for mut process in running {
            assert!(process.wait().unwrap().success(), "the interpreter failed, as it says above");
        }

        let memory = |k| std::fs::read(file(format!("{k}.out"))).unwrap();
        Left {
            memories: (0..cases.len()).map(memory).collect(),
            instructions: lines(dir.path(), cores),
        }
    }
}

/// The instructions executed by any of the processes.
fn lines(dir: &Path, processes: usize) -> BTreeMap<String, (usize, usize)> {
    type Lines = BTreeMap<String, BTreeMap<String, std::collections::BTreeSet<usize>>>;
    let read = |k: usize| -> Lines {
        let bytes = std::fs::read(dir.join(format!("executed.{k}.json"))).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    };
    let mut all = read(0);
    for other in (1..processes).map(read) {
        for (kernel, lines) in all.iter_mut() {
            let executed = &other[kernel]["executed"];
            lines.get_mut("executed").unwrap().extend(executed);
            lines.get_mut("never").unwrap().retain(|line| !executed.contains(line));
        }
    }
    let count = |lines: BTreeMap<String, _>| -> (usize, usize) {
        let len = |key: &str| std::collections::BTreeSet::<usize>::len(&lines[key]);
        (len("executed"), len("never"))
    };
    all.into_iter().map(|(kernel, lines)| (kernel, count(lines))).collect()
}
