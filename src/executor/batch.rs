//! What the consumer holds.

use super::ring::Lease;
use crate::device::cuda::ForeignStream;
use crate::error::Result;
use crate::tensor::{DType, TensorView};

/// A finished batch. Owns its slot, gives it back on drop; `Send` and `'static`, and valid for as
/// long as it is held, after its loader is gone too.
pub struct Batch {
    lease: Lease,
}

/// A dense array in the memory of a GPU.
#[derive(Debug, Clone, Copy)]
pub struct DeviceTensor<'a> {
    /// N of `cuda:N`.
    pub ordinal: u32,
    /// Where it lies on the GPU; on a 256-byte boundary or more.
    pub address: u64,
    /// Sizes of the axes, outermost first.
    pub shape: &'a [usize],
    /// Element type.
    pub dtype: DType,
}

impl Batch {
    pub(super) fn new(lease: Lease) -> Self {
        Batch { lease }
    }

    /// Samples in the batch.
    pub fn len(&self) -> usize {
        self.lease.ids.len()
    }

    /// Whether it has none (never).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first output, in host memory: (N, C, H, W) or as the pipeline's layout says.
    ///
    /// # Panics
    /// When the loader was opened with [`Deliver::Device`](crate::loader::Deliver) and runs on a
    /// GPU: then the outputs are there ([`Batch::lend`]).
    pub fn images(&self) -> TensorView<'_> {
        self.view(0)
    }

    /// Names of the outputs in order.
    pub fn outputs(&self) -> &[String] {
        self.lease.ring().names()
    }

    /// The output called `name`, in host memory.
    ///
    /// # Panics
    /// As [`Batch::images`].
    pub fn output(&self, name: &str) -> Option<TensorView<'_>> {
        Some(self.view(self.position(name)?))
    }

    /// N labels.
    pub fn labels(&self) -> &[i64] {
        &self.lease.labels
    }

    /// N sample numbers, from 0, in the list's order.
    pub fn ids(&self) -> &[i64] {
        &self.lease.ids
    }

    /// N flags, false where a place was filled: under `last_batch = "pad"`, and in a batch of which
    /// `on_error = "skip"` would have left nothing.
    pub fn valid(&self) -> &[bool] {
        &self.lease.valid
    }

    /// N of `cuda:N` where the outputs lie in the memory of a GPU, too.
    pub fn ordinal(&self) -> Option<u32> {
        self.lease.device.as_ref().map(|device| device.ordinal())
    }

    /// Makes `stream` wait until the GPU has made the batch: work put there from now on may read
    /// [`Batch::device_output`] and [`Batch::device_labels`]. When the batch is dropped, its memory
    /// is used again after the work that was put there until then, so drop it when the last kernel
    /// that reads it was put there. Nothing here waits on the host.
    ///
    /// May be called again, but for one stream only. Does nothing where the batch lies in host memory alone.
    ///
    /// # Errors
    /// When the driver's calls fail.
    pub fn lend(&self, stream: ForeignStream) -> Result<()> {
        self.lease.device.as_ref().map_or(Ok(()), |device| device.lend(stream))
    }

    /// The output called `name` on the GPU. To be read by work on a stream that the batch was lent
    /// to, and by nothing else.
    pub fn device_output(&self, name: &str) -> Option<DeviceTensor<'_>> {
        self.device_view(self.position(name)?)
    }

    /// The first output on the GPU; as [`Batch::device_output`].
    pub fn device_images(&self) -> Option<DeviceTensor<'_>> {
        self.device_view(0)
    }

    /// Address on the GPU of the N labels, i64; as [`Batch::device_output`].
    pub fn device_labels(&self) -> Option<u64> {
        self.lease.device.as_ref().map(|device| device.labels())
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.outputs().iter().position(|n| n == name)
    }

    fn view(&self, output: usize) -> TensorView<'_> {
        let shape = &self.lease.shapes[output];
        let dtype = self.lease.ring().outputs()[output].dtype;
        let len = shape.iter().product::<usize>() * dtype.size();
        let bytes = match &self.lease.device {
            None => &self.lease.outputs[output],
            Some(device) => device.host_output(output, len).unwrap_or_else(|| {
                panic!(
                    "the batch lies on cuda:{}; open the loader with Deliver::Host to read it here",
                    device.ordinal()
                )
            }),
        };
        TensorView { shape, dtype, bytes }
    }

    fn device_view(&self, output: usize) -> Option<DeviceTensor<'_>> {
        let device = self.lease.device.as_ref()?;
        Some(DeviceTensor {
            ordinal: device.ordinal(),
            address: device.output(output),
            shape: &self.lease.shapes[output],
            dtype: self.lease.ring().outputs()[output].dtype,
        })
    }
}
