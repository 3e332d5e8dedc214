use crate::handle::{call, lend, lock, make, report, Handle};
use crate::{Context, Result};
use assay_sys as sys;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the ranks of one channel have in common: bytes that the program moves from the rank that made
/// them to the others.
#[derive(Clone, Copy, Debug)]
pub struct CommId(pub [u8; 128]);

impl CommId {
    /// An id: "local", ranks are threads of this process, or "mpi".
    pub fn new(kind: &str) -> Result<CommId> {
        let mut out = sys::assay_comm_id { bytes: [0; 128] };
        call(|e| unsafe { sys::assay_comm_new_id(lend(kind), &mut out, e) })?;
        Ok(CommId(out.bytes))
    }
}

/// One rank's end of a channel between devices that train one model; see assay_comm.h.
#[derive(Debug)]
pub struct Comm {
    pub(crate) handle: Handle<sys::assay_comm>,
    /// Calls that talk to other ranks come one after the other, those of the trainer among them.
    pub(crate) turn: Arc<Mutex<()>>,
}

impl Comm {
    /// Waits until all ranks have come. `timeout` is the longest wait for another rank, here and later.
    pub fn new(
        context: &Context,
        id: &CommId,
        rank: i32,
        world: i32,
        timeout: Duration,
    ) -> Result<Comm> {
        let id = sys::assay_comm_id { bytes: id.0 };
        let limit = i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX);
        let handle = make(sys::assay_comm_free, context.0.host.as_ref(), |out, e| unsafe {
            sys::assay_comm_create(context.0.get(), &id, rank, world, limit, out, e)
        })?;
        Ok(Comm { handle, turn: Arc::default() })
    }

    /// What every rank says.
    pub fn gather(&self, mine: &str) -> Result<Vec<String>> {
        let _turn = lock(&self.turn);
        let all = report(|out, e| unsafe {
            sys::assay_comm_gather(self.handle.get(), lend(mine), out, e)
        })?;
        let json = all.json();
        let texts = json["texts"].elements().iter();
        Ok(texts.map(|text| text.string().unwrap_or_default().to_string()).collect())
    }

    /// Gives the channel up: calls of all ranks that wait for each other fail.
    pub fn abort(&self) -> Result<()> {
        call(|e| unsafe { sys::assay_comm_abort(self.handle.get(), e) })
    }
}
