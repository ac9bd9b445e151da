package repack

// Keys of log lines.
const (
	keyTar   = "tar"
	keyErr   = "err"
	keyCount = "count"
)
