package service

// Keys of log lines.
const (
	keyLane      = "lane"
	keyBegunWith = "begun_with"
	keyFilter    = "filter"
	keyCount     = "count"
)
