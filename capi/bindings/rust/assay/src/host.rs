//! Functions of the program that the library calls.
use crate::handle::{bytes, lend, lock, zeroed};
use crate::{Code, Element, Error, LogLevel};
use assay_sys as sys;
use std::any::Any;
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::os::raw::c_void;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::ptr::null;
use std::sync::{Arc, Mutex};

/// One picture of a file, as [`crate::ContextOptions::read_image`] gives it.
#[derive(Clone, Debug)]
pub struct Picture {
    /// Rows.
    pub height: u32,
    /// Columns.
    pub width: u32,
    /// 1: grey; 3: red, green, blue; 4: and opacity.
    pub channels: u32,
    /// Per channel: 8, or 16 in the order of this machine.
    pub bits: u32,
    /// Rows from the top without gaps, channels innermost.
    pub data: Vec<u8>,
}

/// Takes the level, the component and one line of text.
pub(crate) type Log = Box<dyn Fn(LogLevel, &str, &str) + Send + Sync>;
/// Decodes the content of a file.
pub(crate) type ReadImage = Box<dyn Fn(&[u8]) -> Option<Vec<Picture>> + Send + Sync>;

/// Shared by a context and all that is made with it.
pub(crate) struct Host {
    pub log: Option<Log>,
    pub read_image: Option<ReadImage>,
}

fn lossy(text: &sys::assay_str) -> Cow<'_, str> {
    String::from_utf8_lossy(unsafe { bytes(*text) })
}

/// A panic must not pass through the library.
fn end_on_panic<T>(f: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|_| std::process::abort())
}

pub(crate) unsafe extern "C" fn log(
    user: usize,
    level: i32,
    component: sys::assay_str,
    text: sys::assay_str,
) {
    let host = unsafe { &*(user as *const Host) };
    end_on_panic(|| {
        if let Some(log) = &host.log {
            log(LogLevel::of(level), &lossy(&component), &lossy(&text));
        }
    })
}

pub(crate) unsafe extern "C" fn read_image(
    user: usize,
    file: *const c_void,
    size: usize,
    give: Option<unsafe extern "C" fn(*mut c_void, *const sys::assay_picture)>,
    to: *mut c_void,
) -> i32 {
    let host = unsafe { &*(user as *const Host) };
    let file = unsafe { std::slice::from_raw_parts(file.cast(), size) };
    let pictures = end_on_panic(|| host.read_image.as_ref().and_then(|read| read(file)));
    let (pictures, give) = match (pictures, give) {
        (Some(pictures), Some(give)) => (pictures, give),
        _ => return -1,
    };
    for picture in &pictures {
        let bytes = [picture.width, picture.channels, picture.bits / 8]
            .iter()
            .try_fold(picture.height as usize, |n, &m| n.checked_mul(m as usize));
        // Without data the library says what is wrong.
        let complete = bytes.map_or(false, |n| n > 0 && n <= picture.data.len());
        let page = sys::assay_picture {
            struct_size: std::mem::size_of::<sys::assay_picture>(),
            next: null(),
            height: picture.height as i32,
            width: picture.width as i32,
            channels: picture.channels as i32,
            bits: picture.bits as i32,
            row_bytes: 0,
            data: if complete { picture.data.as_ptr().cast() } else { null() },
        };
        unsafe { give(to, &page) };
    }
    0
}

/// Takes the parts of a sample, of which the library copies each: [`crate::Loader::from_samples`].
#[derive(Debug)]
pub struct Give<'a> {
    give: sys::assay_give,
    to: *mut c_void,
    call: PhantomData<&'a mut ()>,
}

impl Give<'_> {
    /// One part: an array or a feature. What does not fit is said by [`crate::Loader::next`].
    pub fn part<T: Element>(&mut self, name: &str, numbers: &[T]) {
        let (dtype, data) = (T::DTYPE.to_c(), numbers.as_ptr() as *const c_void);
        if let Some(give) = self.give {
            unsafe { give(self.to, lend(name), dtype, data, numbers.len()) };
        }
    }
}

/// Why a sample cannot be given: any error, or a text as `Err("no such file".into())`.
pub type SampleError = Box<dyn std::error::Error + Send + Sync>;

/// What samples failed with, by what the library was told.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    last: i32,
    errors: HashMap<i32, SampleError>,
}

impl Failures {
    fn keep(&mut self, error: SampleError) -> i32 {
        self.last += 1;
        self.errors.insert(self.last, error);
        self.last
    }

    /// The error of a number. Those before it are asked for no more.
    pub fn take(&mut self, number: i64) -> Option<SampleError> {
        let error = i32::try_from(number).ok().and_then(|number| self.errors.remove(&number));
        self.errors.retain(|&other, _| i64::from(other) > number);
        error
    }

    /// Drops all: the samples are asked for anew.
    pub fn forget(&mut self) {
        self.errors.clear();
    }
}

/// Samples of the program, as the functions below find them.
pub(crate) struct Samples<F> {
    pub sample: F,
    pub failures: Arc<Mutex<Failures>>,
}

pub(crate) unsafe extern "C" fn sample<F>(
    user: usize,
    index: i64,
    give: sys::assay_give,
    to: *mut c_void,
) -> i32
where
    F: Fn(i64, &mut Give<'_>) -> Result<(), SampleError>,
{
    let samples = unsafe { &*(user as *const Samples<F>) };
    match end_on_panic(|| (samples.sample)(index, &mut Give { give, to, call: PhantomData })) {
        Ok(()) => 0,
        Err(error) => lock(&samples.failures).keep(error),
    }
}

pub(crate) unsafe extern "C" fn release<F>(user: usize) {
    end_on_panic(|| drop(unsafe { Box::from_raw(user as *mut Samples<F>) }));
}

/// What a progress function says: to go on, or to stop the call.
type Progress<'a> = &'a mut dyn FnMut(&str, i64, i64) -> ControlFlow<()>;

struct Watch<'a> {
    progress: Progress<'a>,
    panic: Option<Box<dyn Any + Send>>,
}

unsafe extern "C" fn on_progress(user: usize, phase: sys::assay_str, done: i64, total: i64) -> i32 {
    let watch = unsafe { &mut *(user as *mut Watch) };
    match catch_unwind(AssertUnwindSafe(|| (watch.progress)(&lossy(&phase), done, total))) {
        Ok(ControlFlow::Continue(())) => 0,
        Ok(ControlFlow::Break(())) => -1,
        Err(panic) => {
            watch.panic = Some(panic);
            -1
        }
    }
}

/// Runs a call that tells of its progress.
pub(crate) fn watched<T>(progress: Progress, f: impl FnOnce(sys::assay_progress, usize) -> T) -> T {
    let mut watch = Watch { progress, panic: None };
    let result = f(Some(on_progress), &mut watch as *mut Watch as usize);
    if let Some(panic) = watch.panic {
        resume_unwind(panic);
    }
    result
}

pub(crate) trait ReadSeek: Read + Seek {}
impl<T: Read + Seek + ?Sized> ReadSeek for T {}

/// A checkpoint on its way out or in, and why it ended.
struct Transfer<'a, T: ?Sized> {
    stream: &'a mut T,
    error: Option<io::Error>,
    panic: Option<Box<dyn Any + Send>>,
}

impl<T: ?Sized> Transfer<'_, T> {
    fn answer(&mut self, f: impl FnOnce(&mut T) -> io::Result<()>) -> i32 {
        match catch_unwind(AssertUnwindSafe(|| f(self.stream))) {
            Ok(Ok(())) => return 0,
            Ok(Err(error)) => self.error = Some(error),
            Err(panic) => self.panic = Some(panic),
        }
        -1
    }
}

type Out<'a> = Transfer<'a, dyn Write + 'a>;
type In<'a> = Transfer<'a, dyn ReadSeek + 'a>;

unsafe extern "C" fn write(user: usize, src: *const c_void, size: usize) -> i32 {
    let to = unsafe { &mut *(user as *mut Out) };
    let src = unsafe { std::slice::from_raw_parts(src.cast(), size) };
    to.answer(|stream| stream.write_all(src))
}

unsafe extern "C" fn commit(user: usize) -> i32 {
    unsafe { &mut *(user as *mut Out) }.answer(|stream| stream.flush())
}

unsafe extern "C" fn read(user: usize, dst: *mut c_void, size: usize, offset: u64) -> i32 {
    let from = unsafe { &mut *(user as *mut In) };
    let dst = unsafe { std::slice::from_raw_parts_mut(dst.cast(), size) };
    from.answer(|stream| {
        stream.seek(SeekFrom::Start(offset))?;
        stream.read_exact(dst)
    })
}

fn transfer<S: ?Sized, T>(
    stream: &mut S,
    mut io: sys::assay_io,
    f: impl FnOnce(&sys::assay_io) -> crate::Result<T>,
) -> crate::Result<T> {
    let mut transfer = Transfer { stream, error: None, panic: None };
    io.user = &mut transfer as *mut Transfer<S> as usize;
    let result = f(&io);
    if let Some(panic) = transfer.panic {
        resume_unwind(panic);
    }
    match transfer.error {
        Some(error) => result.map_err(|e| e.with_source(error)),
        None => result,
    }
}

/// Runs a call that writes a checkpoint.
pub(crate) fn written(
    to: &mut dyn Write,
    f: impl FnOnce(&sys::assay_io) -> crate::Result<()>,
) -> crate::Result<()> {
    let mut io = zeroed!(assay_io);
    io.write = Some(write);
    io.commit = Some(commit);
    transfer(to, io, f)
}

/// Runs a call that reads a checkpoint.
pub(crate) fn read_from<T>(
    from: &mut dyn ReadSeek,
    f: impl FnOnce(&sys::assay_io) -> crate::Result<T>,
) -> crate::Result<T> {
    let mut io = zeroed!(assay_io);
    io.size = from.seek(SeekFrom::End(0)).map_err(|error| {
        Error::new(Code::Io, format!("finding the end of a checkpoint: {error}")).with_source(error)
    })?;
    io.read = Some(read);
    transfer(from, io, f)
}
