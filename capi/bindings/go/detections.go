package assay

// #include <assay/assay_data.h>
import "C"

import (
	"encoding/json"
	"fmt"
)

// Detections are what a detector finds in the images of a data set.
type Detections struct {
	*handle[C.assay_detections]
}

func newDetectionsHandle(d *C.assay_detections) *Detections {
	return &Detections{newHandle("detections", d, func(d *C.assay_detections) { C.assay_detections_free(d) }, nil)}
}

// NewDetections makes a collection without images.
func NewDetections() (*Detections, error) {
	var out *C.assay_detections
	var e *C.assay_error
	status := C.assay_detections_create(&out, &e)
	if err := failure(status, e); err != nil {
		return nil, err
	}
	return newDetectionsHandle(out), nil
}

// OpenDetections reads a file of results as COCO has them.
func OpenDetections(path string) (*Detections, error) {
	var out *C.assay_detections
	var e *C.assay_error
	status := C.assay_detections_open(cText(path), &out, &e)
	if err := failure(status, e); err != nil {
		return nil, err
	}
	return newDetectionsHandle(out), nil
}

// Add keeps what was found in one image: boxes [n, 4], scores and classes [n], as predicted. It waits
// for other calls of the collection.
func (d *Detections) Add(imageID int64, scale float32, boxes, scores []float32, classes []int32) error {
	if len(boxes) != 4*len(scores) || len(classes) != len(scores) {
		return &Error{Code: ErrInvalid, Message: fmt.Sprintf("%d numbers of boxes, %d scores and %d classes", len(boxes), len(scores), len(classes))}
	}
	b, _ := memory(boxes)
	s, _ := memory(scores)
	c, _ := memory(classes)
	return d.call(func(object *C.assay_detections, e **C.assay_error) C.assay_status {
		d.inside.Lock()
		defer d.inside.Unlock()
		return C.assay_detections_add(object, C.int64_t(imageID), C.float(scale), (*C.float)(b), (*C.float)(s), (*C.int32_t)(c), C.size_t(len(scores)), e)
	})
}

// Size is how many images were given, and how many detections there are.
func (d *Detections) Size() (images, detections int64, err error) {
	var i, n C.int64_t
	err = d.call(func(object *C.assay_detections, e **C.assay_error) C.assay_status {
		d.inside.RLock()
		defer d.inside.RUnlock()
		return C.assay_detections_size(object, &i, &n, e)
	})
	return int64(i), int64(n), err
}

// Save writes a file of results.
func (d *Detections) Save(path string) error {
	return d.call(func(object *C.assay_detections, e **C.assay_error) C.assay_status {
		d.inside.RLock()
		defer d.inside.RUnlock()
		return C.assay_detections_save(object, cText(path), e)
	})
}

// Score scores boxes as COCO's tools do, against a file of instances.
func (d *Detections) Score(instances string, config any) (json.RawMessage, error) {
	text, err := configText(config)
	if err != nil {
		return nil, err
	}
	return d.report(func(object *C.assay_detections, out **C.assay_report, e **C.assay_error) C.assay_status {
		d.inside.RLock()
		defer d.inside.RUnlock()
		return C.assay_detections_score(object, cText(instances), cText(text), out, e)
	})
}
