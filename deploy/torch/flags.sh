# The flags of cgo for PyTorch's libtorch in the folder $TORCH. To be read by shells. The Makefile's TORCH_FLAGS are the same,
# so that nothing is compiled twice. The folder's place is in no object.
export CGO_CXXFLAGS="-O3 -std=c++17 -ffile-prefix-map=$TORCH=/torch -I$TORCH/include -I$TORCH/include/torch/csrc/api/include"
export CGO_LDFLAGS="-L$TORCH/lib -Wl,-rpath,$TORCH/lib -Wl,--allow-shlib-undefined -Wl,--as-needed"
