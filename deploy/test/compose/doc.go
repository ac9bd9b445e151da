// Package compose tests deploy/compose.yaml for real. It builds the images, brings the stack up, publishes shards,
// kills a container of every stage and scales another. Then it accounts for every pair by its id.
//
// The package has tests only, behind the build tag compose. They need a Docker engine with compose, and root where the
// engine is rootful. They kill containers by the process id that the host sees, since `docker kill` would tell the
// engine not to start them again. `make test-compose` prepares the machine and runs them.
package compose
