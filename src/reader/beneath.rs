//! Opens files below a directory and nothing outside it.
//!
//! A label list may come from anywhere, and checking its names as strings is not enough: a link
//! inside the data directory can lead out of it, and can be made between a check and its use. So
//! the kernel checks while it walks (`openat2` with `RESOLVE_BENEATH`, Linux 5.6). Where it
//! cannot, links are refused altogether, one component at a time.

use crate::error::{Error, ErrorKind, Result};
use crate::file::{self, AT_ONCE};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::ffi::{CStr, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A directory that names are resolved under.
pub(crate) struct Root {
    fd: OwnedFd,
    links: Links,
    /// Whether files on the root's own file system are read until a read ends short.
    short: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Links {
    /// Wherever they lead, at the user's word.
    Follow,
    /// As long as they stay below the root; the kernel sees to it.
    Beneath,
    /// Not at all: the kernel has no `openat2`, or a sandbox hides it.
    Refuse,
}

/// Tries of an open that a signal or a rename elsewhere in the tree interrupted.
const TRIES: u32 = 64;

impl Root {
    /// Opens the directory `path`. With `follow_links`, links below it may lead anywhere.
    pub(crate) fn open(path: &Path, follow_links: bool) -> Result<Root> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|e| Error::io("open directory", path, e.into()))?;
        let links = if follow_links {
            Links::Follow
        } else if rustix::fs::openat2(&fd, c".", flags, Mode::empty(), BENEATH).is_ok() {
            Links::Beneath
        } else {
            Links::Refuse
        };
        let short = links == Links::Beneath && file::ends_short(&fd);
        Ok(Root { fd, links, short })
    }

    /// Reads the whole regular file `name` into `buf`, replacing what it held.
    ///
    /// Errors carry `name` as their path: no such file, not a regular file, outside the root,
    /// longer than `limit` bytes.
    pub(crate) fn read(&self, name: &CStr, limit: u64, buf: &mut Vec<u8>) -> Result<()> {
        self.read_open(name, limit, buf).map(drop)
    }

    /// The same; gives the file where it came by [`file::read_at_once`], and will so again.
    pub(crate) fn read_open(
        &self,
        name: &CStr,
        limit: u64,
        buf: &mut Vec<u8>,
    ) -> Result<Option<OwnedFd>> {
        let path = as_path(name);
        if self.short {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | AT_ONCE;
            let here = BENEATH.union(ResolveFlags::NO_XDEV);
            if let Ok(file) = rustix::fs::openat2(&self.fd, name, flags, Mode::empty(), here) {
                if file::read_at_once(&file, limit, buf) {
                    return Ok(Some(file));
                }
                // A larger file, after which `buf` has room for its like; or what is wrong is found out.
                return file::read_all(file, path, limit, buf).map(|()| None);
            }
            // On another file system, or there is something to tell.
        }
        file::read_all(self.open_at(name, AT_ONCE)?, path, limit, buf).map(|()| None)
    }

    /// Whether it is on a file system of this machine's own where [`file::read_at_once`] may be used.
    pub(crate) fn is_near(&self) -> bool {
        self.short
    }

    /// Has the system read the regular file `name`, which stays in its memory; how many bytes, of at
    /// most `limit`. What is wrong with it is not told.
    pub(crate) fn warm(&self, name: &CStr, limit: u64) -> u64 {
        self.open_at(name, AT_ONCE).map_or(0, |file| file::warm(&file, limit))
    }

    /// Opens the regular file `name`; its size in bytes comes with it. Errors as those of
    /// [`Root::read`].
    pub(crate) fn file(&self, name: &CStr) -> Result<(OwnedFd, u64)> {
        let fd = self.open_at(name, AT_ONCE)?;
        let bytes = file::length(&fd, as_path(name))?;
        Ok((fd, bytes))
    }

    /// Opens the directory `name` for listing.
    pub(crate) fn list(&self, name: &CStr) -> Result<rustix::fs::Dir> {
        let fd = self.open_at(name, OFlags::DIRECTORY)?;
        rustix::fs::Dir::new(fd).map_err(|e| Error::io("list", as_path(name), e.into()))
    }

    fn open_at(&self, name: &CStr, more: OFlags) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | more;
        let mut tries = 0;
        loop {
            let opened = match self.links {
                Links::Follow => rustix::fs::openat(&self.fd, name, flags, Mode::empty()),
                Links::Beneath => {
                    rustix::fs::openat2(&self.fd, name, flags, Mode::empty(), BENEATH)
                }
                Links::Refuse => self.walk(name, flags),
            };
            match opened {
                Ok(fd) => return Ok(fd),
                Err(Errno::INTR | Errno::AGAIN) if tries < TRIES => tries += 1,
                Err(Errno::XDEV) if self.links == Links::Beneath => {
                    let what = "a link leads out of the data directory (--follow-links allows it)";
                    return Err(Error::new(ErrorKind::Data, what).at_path(as_path(name)));
                }
                Err(Errno::LOOP) if self.links == Links::Refuse => {
                    let what = "is a link, and this kernel cannot tell whether it stays in the \
                                data directory (--follow-links allows it)";
                    return Err(Error::new(ErrorKind::Data, what).at_path(as_path(name)));
                }
                Err(e) => return Err(Error::io("open", as_path(name), e.into())),
            }
        }
    }

    /// Opens `name` without following any link: what `openat2` does in one call where it exists.
    fn walk(&self, name: &CStr, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let name = name.to_bytes();
        if name.starts_with(b"/") || name.split(|&b| b == b'/').any(|part| part == b"..") {
            return Err(Errno::XDEV);
        }
        let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mut parts = name.split(|&b| b == b'/').peekable();
        let mut held: Option<OwnedFd> = None;
        while let Some(part) = parts.next() {
            let flags = if parts.peek().is_some() { step } else { flags | OFlags::NOFOLLOW };
            let part = if part.is_empty() { b"." } else { part };
            let at = held.as_ref().unwrap_or(&self.fd);
            held = Some(rustix::fs::openat(at, part, flags, Mode::empty())?);
        }
        held.ok_or(Errno::NOENT)
    }
}

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

/// A name as a path.
pub(crate) fn as_path(name: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(name.to_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::FileType;
    use std::os::unix::fs::symlink;

    /// A data directory with a file, links that stay and links that leave, and a FIFO.
    fn tree() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        std::fs::create_dir_all(data.join("sub")).unwrap();
        std::fs::write(dir.path().join("secret"), b"secret").unwrap();
        std::fs::write(data.join("sub/a"), b"inside").unwrap();
        symlink("../secret", data.join("out")).unwrap();
        symlink(dir.path().join("data/sub/a"), data.join("absolute")).unwrap();
        symlink("..", data.join("up")).unwrap();
        symlink("sub/../sub/a", data.join("within")).unwrap();
        symlink("loop", data.join("loop")).unwrap();
        let fifo = data.join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, 0o600.into(), 0).unwrap();
        dir
    }

    fn read(root: &Root, name: &CStr) -> Result<Vec<u8>> {
        let mut buf = b"left over".to_vec();
        root.read(name, 100, &mut buf).map(|()| buf)
    }

    #[test]
    fn stays_inside() {
        let dir = tree();
        let mut root = Root::open(&dir.path().join("data"), false).unwrap();
        let (kernel, short) = (root.links, root.short);
        for links in [kernel, Links::Refuse] {
            (root.links, root.short) = (links, short && links == kernel);
            assert_eq!(read(&root, c"sub/a").unwrap(), b"inside");
            assert_eq!(read(&root, c"./sub//a").unwrap(), b"inside");
            for name in [c"out", c"up/secret", c"absolute", c"../secret", c"sub/../../secret"] {
                read(&root, name).unwrap_err();
            }
            read(&root, &std::ffi::CString::new("/etc/passwd").unwrap()).unwrap_err();
        }
        (root.links, root.short) = (kernel, short);
        if kernel == Links::Beneath {
            assert_eq!(read(&root, c"within").unwrap(), b"inside");
            assert!(read(&root, c"out").unwrap_err().message().contains("--follow-links"));
        }
        (root.links, root.short) = (Links::Follow, false);
        assert_eq!(read(&root, c"out").unwrap(), b"secret");
    }

    #[test]
    fn refuses_what_is_no_file() {
        let dir = tree();
        let mut root = Root::open(&dir.path().join("data"), false).unwrap();
        let whole = [(root.links, root.short), (root.links, false)];
        for how in whole.into_iter().chain([(Links::Refuse, false), (Links::Follow, false)]) {
            (root.links, root.short) = how;
            let message = |name| read(&root, name).unwrap_err().message().to_string();
            assert_eq!(message(c"sub"), "is a directory, not a regular file");
            assert_eq!(message(c"fifo"), "is a FIFO, not a regular file");
            assert_eq!(message(c"nope"), "cannot open: no such file or directory");
            message(c"loop");
            let mut buf = Vec::new();
            let error = root.read(c"sub/a", 5, &mut buf).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Limit);
        }
    }
}
