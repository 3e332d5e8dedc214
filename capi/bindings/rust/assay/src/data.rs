use crate::handle::{call, lend, lend_path, lock, make, report, zeroed, Handle, Interrupter};
use crate::host::{self, watched, Failures, Give, SampleError, Samples};
use crate::{Code, Context, Report, Result, Tensor, TensorSpec, View};
use assay_sys as sys;
use std::ops::ControlFlow;
use std::os::raw::c_void;
use std::path::Path;
use std::ptr::{null, null_mut, NonNull};
use std::sync::{Arc, Mutex, Weak};

/// The data sets that [`convert_dataset`] knows.
pub fn datasets() -> Result<Report> {
    report(|out, e| unsafe { sys::assay_dataset_list(out, e) })
}

/// Turns published files, in the folder `source` or the data set's own place, into a data set in the
/// folder `target`. `progress` is told phase, records done and all, and may stop the call.
pub fn convert_dataset(
    context: &Context,
    name: &str,
    source: impl AsRef<Path>,
    target: impl AsRef<Path>,
    options: &str,
    mut progress: impl FnMut(&str, i64, i64) -> ControlFlow<()>,
) -> Result<Report> {
    let (source, target) = (lend_path(source.as_ref()), lend_path(target.as_ref()));
    watched(&mut progress, |progress, user| {
        report(|out, e| unsafe {
            let (c, name, options) = (context.0.get(), lend(name), lend(options));
            sys::assay_dataset_convert(c, name, source, target, options, progress, user, out, e)
        })
    })
}

/// Describes a data set by its manifest.
pub fn dataset_report(folder: impl AsRef<Path>) -> Result<Report> {
    let folder = lend_path(folder.as_ref());
    report(|out, e| unsafe { sys::assay_dataset_report(folder, out, e) })
}

/// Reads all of a data set and compares it with its manifest.
pub fn verify_dataset(
    context: &Context,
    folder: impl AsRef<Path>,
    mut progress: impl FnMut(&str, i64, i64) -> ControlFlow<()>,
) -> Result<()> {
    let folder = lend_path(folder.as_ref());
    watched(&mut progress, |progress, user| {
        call(|e| unsafe { sys::assay_dataset_verify(context.0.get(), folder, progress, user, e) })
    })
}

/// Writes a data set of JPEG images in another format.
pub fn export_dataset(
    context: &Context,
    folder: impl AsRef<Path>,
    target: impl AsRef<Path>,
    options: &str,
    mut progress: impl FnMut(&str, i64, i64) -> ControlFlow<()>,
) -> Result<()> {
    let (folder, target) = (lend_path(folder.as_ref()), lend_path(target.as_ref()));
    let options = lend(options);
    watched(&mut progress, |progress, user| {
        call(|e| unsafe {
            let c = context.0.get();
            sys::assay_dataset_export(c, folder, target, options, progress, user, e)
        })
    })
}

/// Gives the samples of one split of a data set, or of the program, as batches.
#[derive(Debug)]
pub struct Loader {
    handle: Arc<Handle<sys::assay_loader>>,
    arrays: Vec<TensorSpec>,
    /// What samples of the program failed with.
    failures: Arc<Mutex<Failures>>,
}

/// What a loader lends until its next call.
#[derive(Debug)]
pub struct Batch<'a> {
    /// In the order of the loader's arrays.
    pub tensors: Vec<View<'a>>,
    /// Which pass over the data.
    pub epoch: i64,
    /// Which batch of that pass.
    pub index: i64,
    /// Of the tensors.
    pub rows: i64,
    /// The first rows that are samples; the others are padding, label -1.
    pub valid: i64,
    /// How long the call waited for the workers.
    pub wait_seconds: f64,
}

impl Batch<'_> {
    /// As a trainer takes them.
    pub fn tensors(&self) -> Vec<&Tensor> {
        self.tensors.iter().map(|view| &**view).collect()
    }
}

impl Loader {
    /// A loader; assay_loader_create says which keys `config` has, "Transforms" in assay_data.h which
    /// `transform` has.
    pub fn new(
        context: &Context,
        folder: impl AsRef<Path>,
        split: &str,
        config: &str,
        transform: &str,
    ) -> Result<Loader> {
        let (folder, split) = (lend_path(folder.as_ref()), lend(split));
        let (config, transform) = (lend(config), lend(transform));
        let handle = make(sys::assay_loader_free, context.0.host.as_ref(), |out, e| unsafe {
            sys::assay_loader_create(context.0.get(), folder, split, config, transform, out, e)
        })?;
        Loader::own(handle, Arc::default())
    }

    /// A loader of `count` samples that the program has; assay_loader_from_samples says which keys
    /// `kind` has: what is given for each sample, and what it becomes. `sample` gives one by its number,
    /// the same whenever it is asked for, on several threads at once. An error that it returns is the
    /// source of that of [`Loader::next`], [`Code::Callback`], which asks again when it is called again.
    ///
    /// ```
    /// # fn f(context: &assay::Context) -> assay::Result<()> {
    /// let kind = r#"{"arrays": [{"name": "x"}, {"name": "y", "dtype": "i32", "label": true}]}"#;
    /// let sample = |i: i64, give: &mut assay::Give| {
    ///     give.part("x", &[i as f32]);
    ///     give.part("y", &[(i % 2) as i32]);
    ///     Ok(())
    /// };
    /// let loader = assay::Loader::from_samples(context, 9, sample, kind, r#"{"batch_size": 3}"#, "")?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_samples<F>(
        context: &Context,
        count: i64,
        sample: F,
        kind: &str,
        config: &str,
        transform: &str,
    ) -> Result<Loader>
    where
        F: Fn(i64, &mut Give<'_>) -> std::result::Result<(), SampleError> + Send + Sync + 'static,
    {
        let failures = Arc::<Mutex<Failures>>::default();
        let user = Box::into_raw(Box::new(Samples { sample, failures: failures.clone() }));
        let mut samples = zeroed!(assay_samples);
        samples.user = user as usize;
        samples.count = count;
        samples.sample = Some(host::sample::<F>);
        samples.release = Some(host::release::<F>);
        let (kind, config, transform) = (lend(kind), lend(config), lend(transform));
        let handle = make(sys::assay_loader_free, context.0.host.as_ref(), |out, e| unsafe {
            let c = context.0.get();
            let status =
                sys::assay_loader_from_samples(c, &samples, kind, config, transform, out, e);
            if status != sys::ASSAY_OK {
                drop(Box::from_raw(user));
            }
            status
        })?;
        Loader::own(handle, failures)
    }

    fn own(handle: Handle<sys::assay_loader>, failures: Arc<Mutex<Failures>>) -> Result<Loader> {
        let text = report(|out, e| unsafe { sys::assay_loader_report(handle.get(), out, e) })?;
        let arrays = TensorSpec::all(&text.json()["arrays"])?;
        Ok(Loader { handle: Arc::new(handle), arrays, failures })
    }

    /// What a batch holds.
    pub fn arrays(&self) -> &[TensorSpec] {
        &self.arrays
    }

    /// Stops this loader's [`Loader::next`] from other threads; the call after that goes on.
    pub fn interrupter(&self) -> Interrupter {
        let handle: Weak<Handle<sys::assay_loader>> = Arc::downgrade(&self.handle);
        Interrupter(handle)
    }

    /// The next batch; `None` behind the last. It must be gone before the loader is used again:
    ///
    /// ```compile_fail,E0499
    /// # fn f(loader: &mut assay::Loader) -> assay::Result<()> {
    /// let first = loader.next()?;
    /// let second = loader.next()?;
    /// drop(first);
    /// # Ok(())
    /// # }
    /// ```
    #[allow(clippy::should_implement_trait)] // what it gives borrows from the loader
    pub fn next(&mut self) -> Result<Option<Batch<'_>>> {
        let mut places = vec![null(); self.arrays.len()];
        let mut i = zeroed!(assay_batch_info);
        match call(|e| unsafe {
            let (first, n) = (places.as_mut_ptr(), places.len());
            sys::assay_loader_next(self.handle.get(), first, n, &mut i, e)
        }) {
            Ok(()) => {}
            Err(e) if e.code == Code::EndOfData => return Ok(None),
            Err(e) if e.domain == sys::ASSAY_DOMAIN_HOST => {
                let said = lock(&self.failures).take(e.native_code);
                return Err(match said {
                    Some(error) => e.with_source(error),
                    None => e,
                });
            }
            Err(e) => return Err(e),
        }
        let lent = |&object: &*const sys::assay_tensor| {
            let owned = NonNull::new(unsafe { sys::assay_tensor_retain(object) });
            let owned = owned.expect("the library gives what it loaded");
            let host = self.handle.host.clone();
            View::new(Tensor(Handle::own(owned, sys::assay_tensor_release, host)))
        };
        Ok(Some(Batch {
            tensors: places.iter().map(lent).collect(),
            epoch: i.epoch,
            index: i.batch,
            rows: i.rows,
            valid: i.valid,
            wait_seconds: i.wait_seconds,
        }))
    }

    /// The position after the batches given so far, for [`crate::Trainer::set_metadata`].
    pub fn cursor(&self) -> Result<Vec<u8>> {
        let mut size = 0;
        let loader = self.handle.get();
        call(|e| unsafe { sys::assay_loader_cursor(loader, null_mut(), 0, &mut size, e) })?;
        let mut cursor = vec![0u8; size];
        let to = cursor.as_mut_ptr() as *mut c_void;
        call(|e| unsafe { sys::assay_loader_cursor(loader, to, cursor.len(), &mut size, e) })?;
        Ok(cursor)
    }

    /// Continues at a position of a loader with the same data, seed, order and batches.
    pub fn restore(&mut self, cursor: &[u8]) -> Result<()> {
        let from = cursor.as_ptr() as *const c_void;
        call(|e| unsafe { sys::assay_loader_restore(self.handle.get(), from, cursor.len(), e) })?;
        lock(&self.failures).forget(); // of batches that were prefetched and are not wanted
        Ok(())
    }

    /// Continues at the first batch of an epoch.
    pub fn seek(&mut self, epoch: i64) -> Result<()> {
        call(|e| unsafe { sys::assay_loader_seek(self.handle.get(), epoch, e) })?;
        lock(&self.failures).forget();
        Ok(())
    }

    /// What the loader gives and whether it keeps up with the training.
    pub fn report(&self) -> Result<Report> {
        report(|out, e| unsafe { sys::assay_loader_report(self.handle.get(), out, e) })
    }
}
