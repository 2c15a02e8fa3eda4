//! What a run writes down: `metrics.csv` for people and scripts, an event file for TensorBoard.

pub mod csv;
pub mod tensorboard;

use crate::error::{Error, Result};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A file that grows by whole pieces: one that could not be written is cut off again, so that what
/// is written once there is room does not stand behind half a piece.
#[derive(Debug)]
struct Growing {
    file: File,
    path: PathBuf,
    length: u64,
}

impl Growing {
    /// Goes on at the end of the file at `path`, which is made where it is missing.
    fn open(path: &Path, options: &mut OpenOptions) -> Result<Self> {
        let file = options.append(true).open(path);
        file.and_then(|file| {
            let length = file.metadata()?.len();
            Ok(Growing { file, path: path.to_path_buf(), length })
        })
        .map_err(|e| Error::io("create", path, e))
    }

    fn append(&mut self, piece: &[u8]) -> Result<()> {
        self.file.write_all(piece).map_err(|e| {
            // Where this fails as well, readers drop a torn end.
            let _ = self.file.set_len(self.length);
            Error::io("write", &self.path, e)
        })?;
        self.length += piece.len() as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_an_error_with_its_path() {
        let path = Path::new("/dev/full");
        if !path.exists() {
            return; // Linux has it.
        }
        let mut file = Growing::open(path, &mut OpenOptions::new()).unwrap();
        let error = file.append(b"a line\n").unwrap_err().to_string();
        assert_eq!(error, "/dev/full: cannot write: no space left on device");
        assert_eq!(file.length, 0);
    }
}
