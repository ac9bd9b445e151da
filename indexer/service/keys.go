package service

// Keys of log lines.
const (
	keyLane      = "lane"
	keyBegunWith = "begun_with"
	keyGroup     = "group_id"
	keyErr       = "err"
	keyCount     = "count"
	keyPairs     = "pairs"
	keyOutcomes  = "outcomes"
	keyDuration  = "dur"
)
