package service

// Keys of log lines.
const (
	keyLane      = "lane"
	keyBegunWith = "begun_with"
	keyGroup     = "group_id"
	keyErr       = "err"
)
