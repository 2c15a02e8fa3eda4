//! The label list of the samples that `forebay check` found no fault with.

use anyhow::{Context, Result, bail};
use forebay::error::{Error, ErrorKind};
use forebay::file;
use forebay::graph::spec::ReaderKind;
use forebay::loader::kind_in;
use forebay::reader::Reader;
use std::collections::HashSet;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Whether two names in a directory are of one file, links left aside.
fn same(one: &Path, other: &Path) -> bool {
    let parts = |name: &Path| {
        name.components().filter(|part| *part != Component::CurDir).collect::<PathBuf>()
    };
    parts(one) == parts(other)
}

#[derive(clap::Args)]
pub(crate) struct ListArgs {
    /// Write a label list without the faulty samples to this name in each directory with samples,
    /// such as labels.clean.txt; a pipeline takes it with file_list = "labels.clean.txt"
    #[arg(long, value_name = "NAME")]
    write_list: Option<PathBuf>,
    /// Replace that file where there is one
    #[arg(long, requires = "write_list")]
    force: bool,
}

/// A list that was written.
pub(crate) struct Cleaned {
    pub(crate) path: PathBuf,
    pub(crate) samples: u64,
    pub(crate) left_out: u64,
}

impl ListArgs {
    /// Refuses what could not be written after all the work, before it is done.
    pub(crate) fn admit(&self, kind: &ReaderKind, roots: &[PathBuf]) -> Result<()> {
        let Some(name) = &self.write_list else { return Ok(()) };
        if matches!(kind, ReaderKind::Cifar10 { .. }) {
            bail!("--write-list: this pipeline reads CIFAR-10's own files, which no list names");
        }
        if let Some(root) = roots.iter().find(|root| kind_in(kind, root) == ReaderKind::Tar) {
            bail!("--write-list: {} holds tar shards, whose samples no list names", root.display());
        }
        if !name.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
            bail!("--write-list: {}: expected a name in the data directory", name.display());
        }
        if let ReaderKind::File { file_list } = kind
            && same(Path::new(file_list), name)
        {
            bail!("--write-list: {} is the list that is read; give another name", name.display());
        }
        match roots.iter().map(|root| root.join(name)).find(|path| self.is_in_the_way(path)) {
            Some(path) => {
                bail!("--write-list: {} is there already (--force replaces it)", path.display())
            }
            None => Ok(()),
        }
    }

    fn is_in_the_way(&self, path: &Path) -> bool {
        !self.force && path.symlink_metadata().is_ok()
    }

    /// Whether a list was asked for.
    pub(crate) fn is_wanted(&self) -> bool {
        self.write_list.is_some()
    }

    /// Writes the list of `reader`'s samples without those that `faults` name, in the same order;
    /// `None` if none was asked for, or no sample is left to list.
    pub(crate) fn write(
        &self,
        root: &Path,
        reader: &dyn Reader,
        faults: &[Error],
    ) -> Result<Option<Cleaned>> {
        let Some(name) = &self.write_list else { return Ok(None) };
        let samples: HashSet<u64> = faults.iter().filter_map(Error::sample).collect();
        // Lines that are wrong in themselves; some of them are samples nevertheless.
        let wrong = faults.iter().filter(|fault| fault.sample().is_none());
        let mut lines: HashSet<u64> = wrong.filter_map(Error::line).collect();
        let mut left_out = lines.len() as u64;
        let mut good = Vec::new();
        for id in 0..reader.len() {
            let line = || reader.locate(id, Error::new(ErrorKind::Data, "")).line();
            let wrong = !lines.is_empty() && line().is_some_and(|line| lines.remove(&line));
            if samples.contains(&id) {
                left_out += u64::from(!wrong);
            } else if !wrong {
                good.push(id);
            }
        }
        if good.is_empty() {
            return Ok(None);
        }
        // A list has no such names, but a directory may.
        let fits = |place: &Path| {
            let name = place.as_os_str().as_bytes();
            !name.contains(&b'\n') && !name.last().is_some_and(u8::is_ascii_whitespace)
        };
        if let Some(place) = good.iter().map(|&id| reader.place(id)).find(|place| !fits(place)) {
            bail!("--write-list: no list can hold the name {place:?}: rename the file");
        }
        if (0..reader.len()).any(|id| same(&reader.place(id), name)) {
            bail!("--write-list: {} is one of the samples; give another name", name.display());
        }
        let path = root.join(name);
        let mut list = Vec::new();
        for &id in &good {
            list.extend_from_slice(reader.place(id).as_os_str().as_bytes());
            list.extend_from_slice(format!(" {}\n", reader.label(id)).as_bytes());
        }
        if self.is_in_the_way(&path) {
            bail!("--write-list: {} has been made meanwhile (--force replaces it)", path.display());
        }
        file::replace(&path, |file| file.write_all(&list)).context("--write-list")?;
        Ok(Some(Cleaned { path, samples: good.len() as u64, left_out }))
    }
}
