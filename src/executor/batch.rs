//! What the consumer holds.

use super::ring::Lease;
use crate::tensor::TensorView;

/// A finished batch. Owns its slot, gives it back on drop; `Send` and `'static`, and valid for as
/// long as it is held, after its loader is gone too.
pub struct Batch {
    lease: Lease,
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

    /// The first output: (N, C, H, W) or as the pipeline's layout says.
    pub fn images(&self) -> TensorView<'_> {
        self.view(0)
    }

    /// Names of the outputs in order.
    pub fn outputs(&self) -> &[String] {
        self.lease.ring().names()
    }

    /// The output called `name`.
    pub fn output(&self, name: &str) -> Option<TensorView<'_>> {
        let output = self.outputs().iter().position(|n| n == name)?;
        Some(self.view(output))
    }

    /// N labels.
    pub fn labels(&self) -> &[i64] {
        &self.lease.labels
    }

    /// N sample numbers, from 0, in the list's order.
    pub fn ids(&self) -> &[i64] {
        &self.lease.ids
    }

    /// N flags, false where a place was filled under `last_batch = "pad"`.
    pub fn valid(&self) -> &[bool] {
        &self.lease.valid
    }

    fn view(&self, output: usize) -> TensorView<'_> {
        TensorView {
            shape: &self.lease.shapes[output],
            dtype: self.lease.ring().outputs()[output].dtype,
            bytes: &self.lease.outputs[output],
        }
    }
}
