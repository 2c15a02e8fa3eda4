//! What the samples of every epoch, their bytes and their order follow from, in three numbers.

use crate::graph::file;
use crate::graph::spec::{DecoderSpec, Placement, ReaderSpec, Spec};
use crate::policy::LastBatch;
use crate::reader::Reader;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// What tells two loaders' epochs apart: where two have the same, they deliver the same samples with
/// the same bytes in the same global order, whatever their batches, ranks, threads and devices. But for
/// what nvJPEG makes of pixels, and for bad samples: a run that one of those ended may go on without it.
///
/// Kept by what goes on with an epoch later, to find out whether it is the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// XXH3 of the pipeline as a file that [`file::print`] writes, with shuffle and last batch as they
    /// are and without the seed and the source of samples, which the others are of.
    pub pipeline: u64,
    /// XXH3 of the samples: their number, and each one's name and label.
    pub data: u64,
    /// Of the order and of every draw.
    pub seed: u64,
}

/// [`Identity::pipeline`].
pub(super) fn of_pipeline(spec: &Spec, shuffle: bool, last_batch: LastBatch) -> u64 {
    let reader = ReaderSpec { shuffle, last_batch, ..ReaderSpec::default() };
    let mut decoder = spec.decoder.clone();
    if decoder.device == Placement::Cpu || decoder.is_exact() {
        // Pixels are then the same whoever decodes them.
        decoder = DecoderSpec { scale: decoder.scale, ..DecoderSpec::default() };
    }
    xxh3_64(file::print(&Spec { seed: 0, reader, decoder, ..spec.clone() }).as_bytes())
}

/// [`Identity::data`] of the first `listed` samples of `reader`, or of `ids` among them.
pub(super) fn of_data(reader: &dyn Reader, listed: u64, ids: Option<&[u64]>) -> u64 {
    let data = reader.fingerprint(listed);
    let Some(ids) = ids else { return data };
    let mut hash = Xxh3::with_seed(data);
    ids.iter().for_each(|id| hash.update(&id.to_le_bytes()));
    hash.digest()
}
