//! What a user chooses about the ends of epochs.

/// What becomes of the N mod (ranks x batch size) samples that fill no global batch.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum LastBatch {
    /// Whole global batches only; the others, different each epoch, sit out.
    Drop,
    /// Each sample once; the last global batch is dealt round and may be short.
    #[default]
    Partial,
    /// Equal steps on every rank; filled places repeat samples and are marked invalid.
    Pad,
}
