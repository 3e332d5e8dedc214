use crate::handle::{call, lend, lend_path, make, report};
use crate::host::{read_from, written};
use crate::{Context, Kind, Model, Report, Result, Trainer};
use assay_sys as sys;
use std::io::{Read, Seek, Write};
use std::path::Path;

/// Which parts of a checkpoint: those of [`parts`], or several with `|` between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parts(u32);

impl std::ops::BitOr for Parts {
    type Output = Parts;
    fn bitor(self, other: Parts) -> Parts {
        Parts(self.0 | other.0)
    }
}

/// The [`Parts`] that there are.
pub mod parts {
    use super::Parts;
    use assay_sys as sys;
    #[allow(missing_docs)]
    pub const WEIGHTS: Parts = Parts(sys::ASSAY_PART_WEIGHTS as u32);
    /// Of the optimizer.
    pub const MOMENTS: Parts = Parts(sys::ASSAY_PART_MOMENTS as u32);
    /// Moving averages.
    pub const EMA: Parts = Parts(sys::ASSAY_PART_EMA as u32);
    /// Running means and variances.
    pub const STATISTICS: Parts = Parts(sys::ASSAY_PART_STATISTICS as u32);
    /// Counters, loss scale, metadata.
    pub const TRAINER_STATE: Parts = Parts(sys::ASSAY_PART_TRAINER_STATE as u32);
    #[allow(missing_docs)]
    pub const ALL: Parts = Parts(sys::ASSAY_PART_ALL as u32);
}

impl Trainer {
    /// Writes a checkpoint, whole and durable or not at all. A trainer that loads [`parts::ALL`] goes
    /// on with the same bits.
    pub fn save(&self, path: impl AsRef<Path>, parts: Parts) -> Result<()> {
        let path = lend_path(path.as_ref());
        let _turn = self.turn();
        call(|e| unsafe { sys::assay_checkpoint_save(self.get(), path, parts.0, e) })
    }

    /// Loads parts of a checkpoint into a trainer of the same model configuration.
    pub fn load(&mut self, path: impl AsRef<Path>, parts: Parts) -> Result<Report> {
        let path = lend_path(path.as_ref());
        let _turn = self.turn();
        report(|out, e| unsafe { sys::assay_checkpoint_load(self.get(), path, parts.0, out, e) })
    }

    /// Writes what [`Trainer::save`] does to a stream, and flushes it. After an error, which has the
    /// stream's as its source, the stream may have taken a part. It must not use the trainer's [`crate::Comm`],
    /// which would wait for this call.
    pub fn save_to(&self, to: &mut impl Write, parts: Parts) -> Result<()> {
        let _turn = self.turn();
        written(to, |io| {
            call(|e| unsafe { sys::assay_checkpoint_save_io(self.get(), io, parts.0, e) })
        })
    }

    /// Does what [`Trainer::load`] does with all bytes of a stream, in many small reads. They must not use
    /// the trainer's [`crate::Comm`].
    pub fn load_from(&mut self, from: &mut (impl Read + Seek), parts: Parts) -> Result<Report> {
        let _turn = self.turn();
        read_from(from, |io| {
            report(|out, e| unsafe {
                sys::assay_checkpoint_load_io(self.get(), io, parts.0, out, e)
            })
        })
    }
}

impl Model {
    /// The model that a checkpoint holds, all bytes of a stream.
    pub fn open_from(context: &Context, from: &mut (impl Read + Seek)) -> Result<Model> {
        read_from(from, |io| {
            make(sys::assay_model_free, context.0.host.as_ref(), |out, e| unsafe {
                sys::assay_model_open_io(context.0.get(), io, out, e)
            })
            .map(Model)
        })
    }
}

/// What a checkpoint or safetensors file holds, all bytes of a stream.
pub fn inspect_checkpoint_from(from: &mut (impl Read + Seek)) -> Result<Report> {
    read_from(from, |io| report(|out, e| unsafe { sys::assay_checkpoint_inspect_io(io, out, e) }))
}

/// What a checkpoint or safetensors file holds.
pub fn inspect_checkpoint(path: impl AsRef<Path>) -> Result<Report> {
    let path = lend_path(path.as_ref());
    report(|out, e| unsafe { sys::assay_checkpoint_inspect(path, out, e) })
}

/// Reads every byte of a checkpoint. The report describes damage.
pub fn verify_checkpoint(path: impl AsRef<Path>) -> Result<Report> {
    let path = lend_path(path.as_ref());
    report(|out, e| unsafe { sys::assay_checkpoint_verify(path, out, e) })
}

/// Compares two checkpoints, tensors bit by bit.
pub fn diff_checkpoints(a: impl AsRef<Path>, b: impl AsRef<Path>) -> Result<Report> {
    let (a, b) = (lend_path(a.as_ref()), lend_path(b.as_ref()));
    report(|out, e| unsafe { sys::assay_checkpoint_diff(a, b, out, e) })
}

/// Converts a checkpoint to "safetensors", or back to a "checkpoint". `kind` is [`Kind::Value`], or
/// [`Kind::Ema`] for the moving averages.
pub fn convert_checkpoint(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
    format: &str,
    map: &str,
    kind: Kind,
) -> Result<Report> {
    let (from, to) = (lend_path(from.as_ref()), lend_path(to.as_ref()));
    let (format, map) = (lend(format), lend(map));
    report(|out, e| unsafe {
        sys::assay_checkpoint_convert(from, to, format, map, kind as i32, out, e)
    })
}
