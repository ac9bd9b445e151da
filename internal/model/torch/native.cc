//go:build !torchbindings

// The shim is one translation unit, but for TorchScript: reading libtorch's headers takes longer than compiling the rest.
// Its parts are called .hh because Go compiles every .cc by itself, and watches only headers and sources.
#include "activation.hh"
#include "adamw.hh"
#include "attention.hh"
#include "backward.hh"
#include "device.hh"
#include "dropout.hh"
#include "gemm.hh"
#include "linear.hh"
#include "lists.hh"
#include "norm.hh"
#include "pool.hh"
#include "precision.hh"
#include "select.hh"
#include "shim.hh"
#include "upload.hh"
