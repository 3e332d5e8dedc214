//! What all calls have in common: objects of the library, its texts, its errors.
use crate::host::Host;
use crate::{Error, Json, Result};
use assay_sys as sys;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null_mut, NonNull};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Owns an object of the library.
pub(crate) struct Handle<T> {
    object: NonNull<T>,
    free: unsafe extern "C" fn(*mut T),
    /// Whose functions the library may call as long as the object lives; dropped behind it.
    pub host: Option<Arc<Host>>,
}

// No object is tied to a thread, and what meets where it must not gets ASSAY_E_BUSY.
unsafe impl<T> Send for Handle<T> {}
unsafe impl<T> Sync for Handle<T> {}

impl<T> Handle<T> {
    pub fn own(
        object: NonNull<T>,
        free: unsafe extern "C" fn(*mut T),
        host: Option<Arc<Host>>,
    ) -> Handle<T> {
        Handle { object, free, host }
    }

    pub fn get(&self) -> *mut T {
        self.object.as_ptr()
    }
}

impl<T> std::fmt::Debug for Handle<T> {
    /// Where it is: enough to tell objects apart.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Pointer::fmt(&self.object, f)
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        unsafe { (self.free)(self.object.as_ptr()) }
    }
}

/// Runs a call.
pub(crate) fn call(f: impl FnOnce(*mut *mut sys::assay_error) -> sys::assay_status) -> Result<()> {
    let mut error = null_mut();
    match f(&mut error) {
        0 => Ok(()),
        status => Err(Error::take(status, error)),
    }
}

/// Runs a call that makes an object.
pub(crate) fn make<T>(
    free: unsafe extern "C" fn(*mut T),
    host: Option<&Arc<Host>>,
    f: impl FnOnce(*mut *mut T, *mut *mut sys::assay_error) -> sys::assay_status,
) -> Result<Handle<T>> {
    let mut out = null_mut();
    call(|e| f(&mut out, e))?;
    let object = NonNull::new(out).expect("the library gives what it made");
    Ok(Handle::own(object, free, host.cloned()))
}

/// Runs a call that makes a report.
pub(crate) fn report(
    f: impl FnOnce(*mut *mut sys::assay_report, *mut *mut sys::assay_error) -> sys::assay_status,
) -> Result<Report> {
    let made = make(sys::assay_report_free, None, f)?;
    Ok(Report(unsafe { to_string(sys::assay_report_text(made.get())) }))
}

/// Lends bytes to a call.
pub(crate) fn lend(bytes: impl AsRef<[u8]>) -> sys::assay_str {
    let bytes = bytes.as_ref();
    sys::assay_str { data: bytes.as_ptr().cast(), size: bytes.len() }
}

/// Lends a path to a call, with the bytes that it has.
pub(crate) fn lend_path(path: &Path) -> sys::assay_str {
    lend(path.as_os_str().as_bytes())
}

/// Whoever panicked with the lock left what it guards whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The bytes of a text that is there for now.
pub(crate) unsafe fn bytes<'a>(text: sys::assay_str) -> &'a [u8] {
    if text.size == 0 {
        return &[];
    }
    unsafe { std::slice::from_raw_parts(text.data.cast(), text.size) }
}

pub(crate) unsafe fn to_string(text: sys::assay_str) -> String {
    String::from_utf8_lossy(unsafe { bytes(text) }).into_owned()
}

/// A struct of the library with its size and zeros.
macro_rules! zeroed {
    ($name:ident) => {{
        let mut zeros: assay_sys::$name = unsafe { std::mem::zeroed() };
        zeros.struct_size = std::mem::size_of::<assay_sys::$name>();
        zeros
    }};
}
pub(crate) use zeroed;

/// What the library says of something: one JSON object, whose keys stand in the headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report(String);

impl Report {
    /// The text.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The text taken apart.
    pub fn json(&self) -> Json {
        Json::parse(&self.0).expect("reports are JSON")
    }
}

pub(crate) trait Interrupt: Send + Sync + std::fmt::Debug {
    fn interrupt(&self);
}

impl Interrupt for Handle<sys::assay_trainer> {
    fn interrupt(&self) {
        unsafe { sys::assay_trainer_interrupt(self.get()) };
    }
}

impl Interrupt for Handle<sys::assay_slot> {
    fn interrupt(&self) {
        unsafe { sys::assay_slot_interrupt(self.get()) };
    }
}

impl Interrupt for Handle<sys::assay_loader> {
    fn interrupt(&self) {
        unsafe { sys::assay_loader_interrupt(self.get()) };
    }
}

/// Stops the call that runs with a trainer, a slot or a loader, and no other.
///
/// It keeps what it stops alive for the moment of [`Interrupter::interrupt`] only. What is dropped by its
/// owner in that moment is freed behind it, on the interrupting thread: a loader then waits there for the
/// samples that its workers are at.
#[derive(Clone, Debug)]
pub struct Interrupter(pub(crate) Weak<dyn Interrupt>);

impl Interrupter {
    /// Stops the call that runs now. One that is about to begin on another thread is not affected: who
    /// waits for its end calls this again until it has come. Nothing happens once the trainer, slot or
    /// loader was dropped.
    pub fn interrupt(&self) {
        if let Some(object) = self.0.upgrade() {
            object.interrupt();
        }
    }
}
