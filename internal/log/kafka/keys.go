package kafka

// Keys of log attributes.
const (
	keyBroker = "broker"
	keyCount  = "count"
	keyErr    = "err"
	keyReason = "reason"
	keyStage  = "stage"
	keyTopic  = "topic"
	keyWhat   = "what"
)
