package stream

// Keys of log attributes.
const (
	keyBroker    = "broker"
	keyCount     = "count"
	keyDur       = "dur"
	keyErr       = "err"
	keyFrom      = "from"
	keyLane      = "lane"
	keyLanes     = "lanes"
	keyNamespace = "namespace"
	keyOffset    = "offset"
	keyReason    = "reason"
	keySeq       = "seq"
	keyStage     = "stage"
	keyTo        = "to"
	keyTopic     = "topic"
	keyWhat      = "what"
)
