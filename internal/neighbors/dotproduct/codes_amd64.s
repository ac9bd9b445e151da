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

// func lookVNNI(p *CodeProducts, panels *uint32, minus *int32, anchor *uint8, quads, count int, least int32) (passed int)
TEXT ·lookVNNI(SB), NOSPLIT, $0-64
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

// EIGHT adds the products of four codes of the anchor with those of eight rows, at B, to their sums. Y8 has the anchor's codes
// and Y9 their sizes, at most 127, so that no sum of two products, with the signs at the rows' codes, leaves 16 bits. Y13 has ones.
#define EIGHT(B, C, T) \
	VMOVDQU    B(SI), T;    \
	VPSIGNB    Y8, T, T;    \
	VPMADDUBSW T, Y9, T;    \
	VPMADDWD   Y13, T, T;   \
	VPADDD     T, C, C

// LESS writes a bit for each of eight sums that reaches the least, in Y12, to AT(DI).
#define LESS(C, AT) \
	VPCMPGTD  C, Y12, Y15; \
	VMOVMSKPS Y15, BX;     \
	NOTL      BX;          \
	MOVB      BX, AT(DI)

// func lookAVX2(p *CodeProducts, panels *uint32, minus *int32, anchor *uint8, quads, count int, least int32) (passed int)
TEXT ·lookAVX2(SB), NOSPLIT, $0-64
	MOVQ p+0(FP), DI
	MOVQ panels+8(FP), SI
	MOVQ minus+16(FP), DX
	MOVQ count+40(FP), R8
	MOVL least+48(FP), R9
	VMOVD R9, X12
	VPBROADCASTD X12, Y12
	VPCMPEQD Y13, Y13, Y13
	VPSLLW $15, Y13, Y14
	VPSRLW $15, Y13, Y13         // ones
	VPSRLW $8, Y14, Y15
	VPOR   Y15, Y14, Y14         // 0x80 in each byte
	MOVQ quads+32(FP), R10
	XORQ R9, R9

nextPanelAVX2:
	MOVQ anchor+24(FP), AX
	MOVQ R10, CX
	VMOVDQU (DX), Y0
	VMOVDQU 32(DX), Y1
	VMOVDQU 64(DX), Y2
	VMOVDQU 96(DX), Y3
	VMOVDQU 128(DX), Y4
	VMOVDQU 160(DX), Y5
	VMOVDQU 192(DX), Y6
	VMOVDQU 224(DX), Y7

nextQuadAVX2:
	VPBROADCASTD (AX), Y8
	PREFETCHT0 4096(SI)
	PREFETCHT0 4160(SI)
	PREFETCHT0 4224(SI)
	PREFETCHT0 4288(SI)
	VPXOR  Y14, Y8, Y8
	VPABSB Y8, Y9
	EIGHT(0, Y0, Y10)
	EIGHT(32, Y1, Y11)
	EIGHT(64, Y2, Y15)
	EIGHT(96, Y3, Y10)
	EIGHT(128, Y4, Y11)
	EIGHT(160, Y5, Y15)
	EIGHT(192, Y6, Y10)
	EIGHT(224, Y7, Y11)
	ADDQ $4, AX
	ADDQ $256, SI
	DECQ CX
	JNZ  nextQuadAVX2

	VPMAXSD Y0, Y1, Y8
	VPMAXSD Y2, Y3, Y9
	VPMAXSD Y4, Y5, Y10
	VPMAXSD Y6, Y7, Y11
	VPMAXSD Y8, Y9, Y8
	VPMAXSD Y10, Y11, Y10
	VPMAXSD Y8, Y10, Y8
	VPCMPGTD Y8, Y12, Y8         // bits of what is less
	VMOVMSKPS Y8, BX
	CMPL BX, $0xff
	JNE  foundAVX2
	ADDQ $256, DX
	INCQ R9
	CMPQ R9, R8
	JNE  nextPanelAVX2
	MOVQ $0, 256(DI)             // p.Reach
	JMP  endAVX2

foundAVX2:
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, 32(DI)
	VMOVDQU Y2, 64(DI)
	VMOVDQU Y3, 96(DI)
	VMOVDQU Y4, 128(DI)
	VMOVDQU Y5, 160(DI)
	VMOVDQU Y6, 192(DI)
	VMOVDQU Y7, 224(DI)
	LESS(Y0, 256)
	LESS(Y1, 257)
	LESS(Y2, 258)
	LESS(Y3, 259)
	LESS(Y4, 260)
	LESS(Y5, 261)
	LESS(Y6, 262)
	LESS(Y7, 263)

endAVX2:
	MOVQ R9, passed+56(FP)
	VZEROUPPER
	RET
