//go:build !cgo

package imaging_test

// jpegShrinks says that there is libjpeg-turbo, which reduces a JPEG while it decodes it.
const jpegShrinks = false
