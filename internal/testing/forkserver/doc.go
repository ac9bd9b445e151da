// Package forkserver starts processes of a test's own program in hundredths of a second. It is for tests only.
//
// A program that is linked with libtorch takes 0.4 s of a processor before its first line: the loader binds 280
// libraries, and libtorch registers its operators. A server has done this once. It forks before the Go runtime begins,
// so each copy is a process like any other: with an id, an environment, a working directory, output and an exit status
// of its own. It can be killed and stopped.
//
//	socket, err := forkserver.Serve(ctx)     // once
//	p, err := forkserver.Start(socket, env, stdout, stderr)
//	err = p.Wait()
//
// The processes end with the one that started them, and with the server.
package forkserver
