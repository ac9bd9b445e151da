package stream

// Keys of log attributes.
const (
	keyCount  = "count"
	keyErr    = "err"
	keyLane   = "lane"
	keyLanes  = "lanes"
	keyOffset = "offset"
	keyReason = "reason"
	keySeq    = "seq"
	keyStage  = "stage"
	keyTopic  = "topic"
	keyWhat   = "what"
)
