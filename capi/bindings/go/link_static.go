//go:build assay_static

package assay

// #cgo pkg-config: --static --define-variable=library=:libassay.a assay
import "C"
