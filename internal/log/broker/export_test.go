package broker

// OnDisk returns options with a disk whose syncs fail with what fails returns.
func OnDisk(o Options, fails func() error) Options {
	o.disk = &testDisk{before: func(op, _ string) error {
		if op != opSync {
			return nil
		}
		return fails()
	}}
	return o
}
