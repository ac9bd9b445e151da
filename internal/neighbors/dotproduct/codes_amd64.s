#include "textflag.h"

// QUAD adds the products of four codes of the anchor, at A, with those of 64 rows, at B, to their sums. It asks for the memory
// that is read four kilobytes later.
#define QUAD(A, B, C0, C1, C2, C3, T) \
	PREFETCHT0   (B+4096)(SI);     \
	PREFETCHT0   (B+4160)(SI);     \
	PREFETCHT0   (B+4224)(SI);     \
	PREFETCHT0   (B+4288)(SI);     \
	VPBROADCASTD A(AX), T;         \
	VPDPBUSD     B(SI), T, C0;     \
	VPDPBUSD     (B+64)(SI), T, C1; \
	VPDPBUSD     (B+128)(SI), T, C2; \
	VPDPBUSD     (B+192)(SI), T, C3

// func lookVector(p *CodeProducts, panels *uint32, minus *int32, anchor *uint8, quads, count int, least int32) (passed int)
TEXT ·lookVector(SB), NOSPLIT, $0-64
	MOVQ p+0(FP), DI
	MOVQ panels+8(FP), SI
	MOVQ minus+16(FP), DX
	MOVQ count+40(FP), R8
	MOVL least+48(FP), R9
	VPBROADCASTD R9, Z12
	XORQ R9, R9

nextPanel:
	MOVQ anchor+24(FP), AX
	MOVQ quads+32(FP), CX
	VMOVDQU32 (DX), Z0
	VMOVDQU32 64(DX), Z1
	VMOVDQU32 128(DX), Z2
	VMOVDQU32 192(DX), Z3
	VPXORD Z4, Z4, Z4
	VPXORD Z5, Z5, Z5
	VPXORD Z6, Z6, Z6
	VPXORD Z7, Z7, Z7

nextQuads:
	QUAD(0, 0, Z0, Z1, Z2, Z3, Z8)
	QUAD(4, 256, Z4, Z5, Z6, Z7, Z9)
	QUAD(8, 512, Z0, Z1, Z2, Z3, Z10)
	QUAD(12, 768, Z4, Z5, Z6, Z7, Z11)
	ADDQ $16, AX
	ADDQ $1024, SI
	SUBQ $4, CX
	JNZ  nextQuads

	VPADDD Z4, Z0, Z0
	VPADDD Z5, Z1, Z1
	VPADDD Z6, Z2, Z2
	VPADDD Z7, Z3, Z3
	VPCMPD $5, Z12, Z0, K1
	VPCMPD $5, Z12, Z1, K2
	VPCMPD $5, Z12, Z2, K3
	VPCMPD $5, Z12, Z3, K4
	KUNPCKWD K1, K2, K1
	KUNPCKWD K3, K4, K3
	KUNPCKDQ K1, K3, K1
	KMOVQ K1, BX
	TESTQ BX, BX
	JNZ  found
	ADDQ $256, DX
	INCQ R9
	CMPQ R9, R8
	JNE  nextPanel

found:
	MOVQ BX, 256(DI)              // p.Reach
	VMOVDQU32 Z0, (DI)
	VMOVDQU32 Z1, 64(DI)
	VMOVDQU32 Z2, 128(DI)
	VMOVDQU32 Z3, 192(DI)
	MOVQ R9, passed+56(FP)
	VZEROUPPER
	RET
