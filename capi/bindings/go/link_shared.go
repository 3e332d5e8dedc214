//go:build !assay_static

package assay

// #cgo pkg-config: assay
import "C"
