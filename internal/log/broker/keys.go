package broker

// Keys of log entries.
const (
	keyByte      = "byte"
	keyBytes     = "bytes"
	keyErr       = "err"
	keyFile      = "file"
	keyKept      = "kept"
	keyPartition = "partition"
	keyReason    = "reason"
	keyTo        = "to"
)
