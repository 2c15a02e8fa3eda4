//! The interpreter's processes: what they need, what they are given, what they leave.

use super::memory::Case;
use forebay::device::images::IMAGES;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Where it is, and a Python with NumPy.
pub(crate) struct Interpreter {
    tools: PathBuf,
    python: PathBuf,
    /// A folder with PTX to run instead of what is embedded; `lines.json` is left there.
    instead: Option<PathBuf>,
}

/// What the launches left.
pub(crate) struct Left {
    /// The memory of each case.
    pub(crate) memories: Vec<Vec<u8>>,
    /// By kernel.
    pub(crate) lines: BTreeMap<String, Lines>,
}

/// Lines that some thread executed, and that none did, as `file:line`: of the PTX, and of the
/// sources where the PTX tells them.
#[derive(Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Lines {
    executed: BTreeSet<String>,
    never: BTreeSet<String>,
}

impl Lines {
    /// Instructions executed and never executed.
    pub(crate) fn instructions(&self) -> (usize, usize) {
        let count = |lines: &BTreeSet<String>| lines.iter().filter(|l| l.contains(".ptx:")).count();
        (count(&self.executed), count(&self.never))
    }
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
        Some(Interpreter { tools, python, instead: variable("FOREBAY_PTX") })
    }

    /// Runs the cases from their beginning, in a process for each core.
    pub(crate) fn run(&self, cases: &[Case]) -> Left {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: String| dir.path().join(name);
        for image in IMAGES.iter().filter(|image| image.arch.starts_with("compute_")) {
            let name = format!("{}.ptx", image.kernel);
            let code = match &self.instead {
                Some(dir) => std::fs::read(dir.join(&name)).unwrap(),
                None => image.code.to_vec(),
            };
            std::fs::write(file(name), code).unwrap();
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
        let lines = merged((0..cores).map(|k| file(format!("lines.{k}.json"))));
        if let Some(dir) = &self.instead {
            std::fs::write(dir.join("lines.json"), serde_json::to_vec(&lines).unwrap()).unwrap();
        }
        Left { memories: (0..cases.len()).map(memory).collect(), lines }
    }
}

/// What any of the processes executed, and what none did.
fn merged(files: impl Iterator<Item = PathBuf>) -> BTreeMap<String, Lines> {
    let mut all = BTreeMap::<String, Lines>::new();
    for file in files {
        let read: BTreeMap<String, Lines> =
            serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        for (kernel, lines) in read {
            let sum = all.entry(kernel).or_default();
            sum.executed.extend(lines.executed);
            sum.never.extend(lines.never);
        }
    }
    for Lines { executed, never } in all.values_mut() {
        never.retain(|line| !executed.contains(line));
    }
    all
}
