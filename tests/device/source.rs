//! Samples from memory, and batches as a consumer of each device reads them.
#![allow(unsafe_code)]

use crate::Device;
use cudarc::driver::sys;
use forebay::device::cuda::{Cuda, PinnedMemory};
use forebay::graph::spec::Spec;
use forebay::loader::{Batch, Deliver, ForeignStream, Loader, Options};
use forebay::reader::{Content, Reader};
use forebay::{Error, ErrorKind, Result};
use std::ops::Range;
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
/// Its work is copies into pinned memory, which may run long after `queue` has returned (those into
/// other memory would not). Its context is current.
pub(crate) struct Consumer {
    memory: PinnedMemory,
    used: usize,
    batches: Vec<Queued>,
}

struct Queued {
    ids: Vec<i64>,
    labels: Vec<i64>,
    /// Where in `memory` the labels and the outputs go.
    labels_at: usize,
    outputs: Vec<(Vec<usize>, Range<usize>)>,
}

impl Consumer {
    pub(crate) fn new(cuda: &Arc<Cuda>) -> Result<Self> {
        let mut memory = PinnedMemory::new(cuda);
        memory.reserve(512 << 10, 0)?;
        Ok(Consumer { memory, used: 0, batches: Vec::new() })
    }

    /// Queues the reading of `batch` and drops it.
    pub(crate) fn queue(&mut self, batch: Batch) -> Result<()> {
        batch.lend(ForeignStream::LEGACY)?;
        let labels = batch.device_labels().expect("it is on a GPU");
        let labels_at = self.download(labels, 8 * batch.len())?.start;
        let mut outputs = Vec::new();
        for name in batch.outputs() {
            let tensor = batch.device_output(name).expect("it is on a GPU");
            let len = tensor.shape.iter().product::<usize>() * tensor.dtype.size();
            outputs.push((tensor.shape.to_vec(), self.download(tensor.address, len)?));
        }
        let (ids, labels) = (batch.ids().to_vec(), batch.labels().to_vec());
        self.batches.push(Queued { ids, labels, labels_at, outputs });
        Ok(())
    }

    fn download(&mut self, from: u64, len: usize) -> Result<Range<usize>> {
        let at = self.used;
        self.used += len.next_multiple_of(8);
        assert!(self.used <= self.memory.capacity(), "the consumer's memory is full");
        // SAFETY: pinned memory of `self`, each copy its own part, which nobody touches before
        // `finish` has waited; `from` is a lent batch's output of that length.
        let status = unsafe {
            let to = self.memory.start().add(at);
            sys::cuMemcpyDtoHAsync_v2(to.cast(), from, len, std::ptr::null_mut())
        };
        check("cuMemcpyDtoHAsync", status)?;
        Ok(at..at + len)
    }

    /// Waits for the stream and gives what was read.
    pub(crate) fn finish(self) -> Result<Vec<Read>> {
        // SAFETY: the legacy stream of the current context.
        check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(std::ptr::null_mut()) })?;
        let bytes = self.memory.bytes(self.used);
        let read = |batch: &Queued| {
            let labels = &bytes[batch.labels_at..][..8 * batch.ids.len()];
            assert_eq!(bytemuck::cast_slice::<u8, i64>(labels), batch.labels, "labels on the GPU");
            let outputs = batch.outputs.iter();
            Read {
                ids: batch.ids.clone(),
                labels: batch.labels.clone(),
                outputs: outputs.map(|(s, at)| (s.clone(), bytes[at.clone()].to_vec())).collect(),
            }
        };
        Ok(self.batches.iter().map(read).collect())
    }
}

/// Queued copies into memory that is gone would be work of nobody's.
impl Drop for Consumer {
    fn drop(&mut self) {
        // Twice, since the first may be the call that a test lets fail.
        for _ in 0..2 {
            // SAFETY: the legacy stream of the current context.
            let _ = unsafe { sys::cuStreamSynchronize(std::ptr::null_mut()) };
        }
    }
}

fn check(call: &str, status: sys::CUresult) -> Result<()> {
    match status {
        sys::CUresult::CUDA_SUCCESS => Ok(()),
        status => Err(Error::new(ErrorKind::Device, format!("{call}: {status:?}"))),
    }
}
