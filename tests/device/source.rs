//! Samples from memory, and batches as a consumer of each device reads them.
#![allow(unsafe_code)]

use crate::Device;
use cudarc::driver::sys;
use forebay::graph::spec::Spec;
use forebay::loader::{Batch, Deliver, ForeignStream, Loader, Options};
use forebay::reader::{Content, Reader};
use forebay::{Error, ErrorKind, Result};
use std::path::PathBuf;
use std::sync::Arc;

/// A sample in memory.
#[derive(Clone)]
pub(crate) enum Sample {
    /// Height, width and three planes.
    Planar(u32, u32, Vec<u8>),
    /// A file's bytes.
    Encoded(Vec<u8>),
    /// What reading it gives.
    Broken(Error),
}

/// A list of samples; the label of sample n is n % 10.
pub(crate) struct Memory(pub(crate) Vec<Sample>);

impl Reader for Memory {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn label(&self, id: u64) -> i64 {
        id as i64 % 10
    }

    fn classes(&self) -> &[String] {
        &[]
    }

    fn place(&self, id: u64) -> PathBuf {
        format!("{id}.img").into()
    }

    fn read(&self, id: u64, buf: &mut Vec<u8>) -> Result<Content> {
        buf.clear();
        match &self.0[id as usize] {
            Sample::Planar(height, width, planes) => {
                buf.extend_from_slice(planes);
                Ok(Content::Planar { height: *height, width: *width })
            }
            Sample::Encoded(bytes) => {
                buf.extend_from_slice(bytes);
                Ok(Content::Encoded)
            }
            Sample::Broken(error) => Err(error.clone()),
        }
    }
}

/// `count` samples of raw pixels, each its own.
pub(crate) fn planar(count: usize, height: u32, width: u32) -> Vec<Sample> {
    let value = |id: usize, k: usize| (id * 31 + k * 7 + k / 5 * (id + 3)) as u8;
    let bytes = 3 * height as usize * width as usize;
    let planes = |id| (0..bytes).map(|k| value(id, k)).collect();
    (0..count).map(|id| Sample::Planar(height, width, planes(id))).collect()
}

/// Opens `spec` over `samples` on `device`.
pub(crate) fn open(
    device: Device,
    deliver: Deliver,
    spec: &Spec,
    samples: &[Sample],
    options: &Options,
) -> Result<Loader> {
    let options = Options { device: device.choice, deliver, ..options.clone() };
    Loader::with_reader(spec, Arc::new(Memory(samples.to_vec())), &options)
}

/// A batch on the host: ids, labels, and the bytes of each output.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Read {
    pub(crate) ids: Vec<i64>,
    pub(crate) labels: Vec<i64>,
    pub(crate) outputs: Vec<(Vec<usize>, Vec<u8>)>,
}

/// Reads a batch that was delivered on the host.
pub(crate) fn read(batch: &Batch) -> Read {
    let names = batch.outputs().iter();
    let output = |name: &String| {
        let view = batch.output(name).expect("its own name");
        (view.shape.to_vec(), view.bytes.to_vec())
    };
    Read {
        ids: batch.ids().to_vec(),
        labels: batch.labels().to_vec(),
        outputs: names.map(output).collect(),
    }
}

/// All of epoch `epoch`, delivered on the host.
pub(crate) fn epoch(loader: &mut Loader, epoch: u32) -> Result<Vec<Read>> {
    loader.epoch(epoch).map(|batch| batch.map(|batch| read(&batch))).collect()
}

/// A consumer that works on the GPU as libtorch does: everything it does goes on the legacy default
/// stream, and it drops a batch as soon as the last work on it is queued.
///
/// The copies are the work. They may run long after `queue` has returned.
pub(crate) struct Consumer {
    copies: Vec<Copy>,
}

struct Copy {
    ids: Vec<i64>,
    expected_labels: Vec<i64>,
    labels: Vec<i64>,
    outputs: Vec<(Vec<usize>, Vec<u8>)>,
}

impl Consumer {
    pub(crate) fn new() -> Self {
        Consumer { copies: Vec::new() }
    }

    /// Queues the reading of `batch` and drops it. The loader's context is current, since a
    /// consumer's own is the same.
    pub(crate) fn queue(&mut self, batch: Batch) -> Result<()> {
        batch.lend(ForeignStream::LEGACY)?;
        let mut copy = Copy {
            ids: batch.ids().to_vec(),
            expected_labels: batch.labels().to_vec(),
            labels: vec![-1; batch.len()],
            outputs: Vec::new(),
        };
        let labels = batch.device_labels().expect("it is on a GPU");
        download(copy.labels.as_mut_ptr().cast(), labels, 8 * batch.len())?;
        for name in batch.outputs() {
            let tensor = batch.device_output(name).expect("it is on a GPU");
            let len = tensor.shape.iter().product::<usize>() * tensor.dtype.size();
            let mut bytes = vec![0; len];
            download(bytes.as_mut_ptr(), tensor.address, len)?;
            copy.outputs.push((tensor.shape.to_vec(), bytes));
        }
        self.copies.push(copy);
        Ok(())
    }

    /// Waits for the stream and gives what was read.
    pub(crate) fn finish(mut self) -> Result<Vec<Read>> {
        // SAFETY: the legacy stream of the current context.
        let status = unsafe { sys::cuStreamSynchronize(std::ptr::null_mut()) };
        check("cuStreamSynchronize", status)?;
        let read = |copy: Copy| {
            assert_eq!(copy.labels, copy.expected_labels, "labels on the GPU");
            Read { ids: copy.ids, labels: copy.labels, outputs: copy.outputs }
        };
        Ok(std::mem::take(&mut self.copies).into_iter().map(read).collect())
    }
}

/// Copies into memory that is freed before they have run would write into somebody else's.
impl Drop for Consumer {
    fn drop(&mut self) {
        // SAFETY: as in `finish`.
        unsafe { sys::cuStreamSynchronize(std::ptr::null_mut()) };
    }
}

fn check(call: &str, status: sys::CUresult) -> Result<()> {
    match status {
        sys::CUresult::CUDA_SUCCESS => Ok(()),
        status => Err(Error::new(ErrorKind::Device, format!("{call}: {status:?}"))),
    }
}

fn download(to: *mut u8, from: u64, len: usize) -> Result<()> {
    // SAFETY: `to` has room and stays where it is (a vector's own memory, which `Consumer` keeps
    // and does not touch until it has waited); `from` is a lent batch's output of that length.
    let status = unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from, len, std::ptr::null_mut()) };
    check("cuMemcpyDtoHAsync", status)
}
