//! The reader of a data directory.

use crate::error::Result;
use crate::graph::spec::ReaderKind;
use crate::reader::tar::{Tar, is_packed};
use crate::reader::{Reader, cifar10::Cifar10, file_list::FileList, folders::Folders};
use std::path::Path;
use std::sync::Arc;

/// What `kind` comes to in the data directory `data`: tar shards serve a pipeline that names a label
/// list where there is no such list but those.
pub fn kind_in(kind: &ReaderKind, data: &Path) -> ReaderKind {
    match kind {
        ReaderKind::File { file_list }
            if data.join(file_list).symlink_metadata().is_err() && is_packed(data) =>
        {
            ReaderKind::Tar
        }
        kind => kind.clone(),
    }
}

/// The reader that a pipeline names, over a data directory, or [`kind_in`] it; it refuses images of
/// more than `max_bytes`.
pub fn open_reader(
    kind: &ReaderKind,
    data: &Path,
    follow_links: bool,
    max_bytes: u64,
) -> Result<Arc<dyn Reader>> {
    Ok(match &kind_in(kind, data) {
        ReaderKind::File { file_list } => {
            Arc::new(FileList::open(data, file_list, follow_links)?.with_limit(max_bytes))
        }
        ReaderKind::Folders => Arc::new(Folders::open(data, follow_links)?.with_limit(max_bytes)),
        ReaderKind::Tar => Arc::new(Tar::open(data, follow_links)?.with_limit(max_bytes)),
        ReaderKind::Cifar10 { train } => Arc::new(Cifar10::open(data, *train)?),
    })
}
