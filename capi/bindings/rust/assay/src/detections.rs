use crate::handle::{call, lend, lend_path, make, report, Handle};
use crate::{Error, Report, Result};
use assay_sys as sys;
use std::path::Path;

/// What a detector finds in the images of a data set.
#[derive(Debug)]
pub struct Detections(Handle<sys::assay_detections>);

impl Detections {
    /// A collection without images.
    pub fn new() -> Result<Detections> {
        make(sys::assay_detections_free, None, |out, e| unsafe {
            sys::assay_detections_create(out, e)
        })
        .map(Detections)
    }

    /// Reads a file of results as COCO has them.
    pub fn open(path: impl AsRef<Path>) -> Result<Detections> {
        let path = lend_path(path.as_ref());
        make(sys::assay_detections_free, None, |out, e| unsafe {
            sys::assay_detections_open(path, out, e)
        })
        .map(Detections)
    }

    /// Keeps what was found in one image: boxes `[n, 4]`, scores and classes `[n]`, as predicted.
    pub fn add(
        &mut self,
        image_id: i64,
        scale: f32,
        boxes: &[f32],
        scores: &[f32],
        classes: &[i32],
    ) -> Result<()> {
        let n = scores.len();
        if boxes.len() != 4 * n || classes.len() != n {
            let (numbers, classes) = (boxes.len(), classes.len());
            let message = format!("{numbers} numbers of boxes, {n} scores and {classes} classes");
            return Err(Error::invalid(message));
        }
        let (boxes, scores, classes) = (boxes.as_ptr(), scores.as_ptr(), classes.as_ptr());
        call(|e| unsafe {
            let detections = self.0.get();
            sys::assay_detections_add(detections, image_id, scale, boxes, scores, classes, n, e)
        })
    }

    /// How many images were given, and how many detections there are.
    pub fn size(&self) -> Result<(i64, i64)> {
        let (mut images, mut detections) = (0, 0);
        call(|e| unsafe {
            sys::assay_detections_size(self.0.get(), &mut images, &mut detections, e)
        })?;
        Ok((images, detections))
    }

    /// Writes a file of results.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = lend_path(path.as_ref());
        call(|e| unsafe { sys::assay_detections_save(self.0.get(), path, e) })
    }

    /// Scores boxes as COCO's tools do, against a file of instances.
    pub fn score(&self, instances: impl AsRef<Path>, config: &str) -> Result<Report> {
        let instances = lend_path(instances.as_ref());
        report(|out, e| unsafe {
            sys::assay_detections_score(self.0.get(), instances, lend(config), out, e)
        })
    }
}
