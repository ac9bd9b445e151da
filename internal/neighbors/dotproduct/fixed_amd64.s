#include "textflag.h"

// ROW adds the products of a row, whose next two values are at A, to its four sums. Z24..Z27 have the same two values of 64
// columns.
#define ROW(A, C0, C1, C2, C3) \
	VPBROADCASTD A, Z28;        \
	VPDPWSSD     Z24, Z28, C0;  \
	VPDPWSSD     Z25, Z28, C1;  \
	VPDPWSSD     Z26, Z28, C2;  \
	VPDPWSSD     Z27, Z28, C3

// REACH compares the sums of a row with its least, at R, and with those of the columns, in Z24..Z27. It stores the sums at DI
// and a bit a column at DX.
#define REACH(R, C0, C1, C2, C3) \
	VPBROADCASTD R, Z28;         \
	VPCMPD       $5, Z28, C0, K1; \
	VPCMPD       $5, Z24, C0, K2; \
	KORW         K1, K2, K1;     \
	VPCMPD       $5, Z28, C1, K2; \
	VPCMPD       $5, Z25, C1, K3; \
	KORW         K2, K3, K2;     \
	KUNPCKWD     K1, K2, K1;     \
	VPCMPD       $5, Z28, C2, K2; \
	VPCMPD       $5, Z26, C2, K3; \
	KORW         K2, K3, K2;     \
	VPCMPD       $5, Z28, C3, K3; \
	VPCMPD       $5, Z27, C3, K4; \
	KORW         K3, K4, K3;     \
	KUNPCKWD     K2, K3, K2;     \
	KUNPCKDQ     K1, K2, K1;     \
	KMOVQ        K1, (DX);       \
	VMOVDQU32    C0, (DI);       \
	VMOVDQU32    C1, 64(DI);     \
	VMOVDQU32    C2, 128(DI);    \
	VMOVDQU32    C3, 192(DI);    \
	ADDQ         $8, DX;         \
	ADDQ         $256, DI

// func multiplyWide(p *Products, rows, packed *int16, pairs int, rowLeast *[6]int32, columnLeast *[64]int32)
TEXT ·multiplyWide(SB), NOSPLIT, $0-48
	MOVQ p+0(FP), DI
	MOVQ rows+8(FP), AX
	MOVQ packed+16(FP), SI
	MOVQ pairs+24(FP), CX
	MOVQ rowLeast+32(FP), BX
	MOVQ columnLeast+40(FP), R11
	LEAQ 1536(DI), DX            // p.Reach
	MOVQ CX, R8
	SHLQ $2, R8                  // bytes of a row
	LEAQ (R8)(R8*2), R9
	LEAQ (R8)(R8*4), R10
	VPXORD Z0, Z0, Z0
	VPXORD Z1, Z1, Z1
	VPXORD Z2, Z2, Z2
	VPXORD Z3, Z3, Z3
	VPXORD Z4, Z4, Z4
	VPXORD Z5, Z5, Z5
	VPXORD Z6, Z6, Z6
	VPXORD Z7, Z7, Z7
	VPXORD Z8, Z8, Z8
	VPXORD Z9, Z9, Z9
	VPXORD Z10, Z10, Z10
	VPXORD Z11, Z11, Z11
	VPXORD Z12, Z12, Z12
	VPXORD Z13, Z13, Z13
	VPXORD Z14, Z14, Z14
	VPXORD Z15, Z15, Z15
	VPXORD Z16, Z16, Z16
	VPXORD Z17, Z17, Z17
	VPXORD Z18, Z18, Z18
	VPXORD Z19, Z19, Z19
	VPXORD Z20, Z20, Z20
	VPXORD Z21, Z21, Z21
	VPXORD Z22, Z22, Z22
	VPXORD Z23, Z23, Z23

nextPair:
	VMOVDQU32 (SI), Z24
	VMOVDQU32 64(SI), Z25
	VMOVDQU32 128(SI), Z26
	VMOVDQU32 192(SI), Z27
	ROW((AX), Z0, Z1, Z2, Z3)
	ROW((AX)(R8*1), Z4, Z5, Z6, Z7)
	ROW((AX)(R8*2), Z8, Z9, Z10, Z11)
	ROW((AX)(R9*1), Z12, Z13, Z14, Z15)
	ROW((AX)(R8*4), Z16, Z17, Z18, Z19)
	ROW((AX)(R10*1), Z20, Z21, Z22, Z23)
	ADDQ $4, AX
	ADDQ $256, SI
	DECQ CX
	JNZ  nextPair

	VMOVDQU32 (R11), Z24
	VMOVDQU32 64(R11), Z25
	VMOVDQU32 128(R11), Z26
	VMOVDQU32 192(R11), Z27
	REACH(0(BX), Z0, Z1, Z2, Z3)
	REACH(4(BX), Z4, Z5, Z6, Z7)
	REACH(8(BX), Z8, Z9, Z10, Z11)
	REACH(12(BX), Z12, Z13, Z14, Z15)
	REACH(16(BX), Z16, Z17, Z18, Z19)
	REACH(20(BX), Z20, Z21, Z22, Z23)
	VZEROUPPER
	RET

// PAIR adds the products of a row, whose next two values are at A, to its two sums. Y12 and Y13 have the same of 16 columns.
#define PAIR(A, C0, C1) \
	VPBROADCASTD A, Y14;       \
	VPMADDWD     Y12, Y14, Y15; \
	VPADDD       Y15, C0, C0;  \
	VPMADDWD     Y13, Y14, Y15; \
	VPADDD       Y15, C1, C1

// SUMS compares the sums of a row with its least, at R, and with those of 16 columns, in Y12 and Y13. It stores them at DI+AT,
// and two bytes of bits at MASK.
#define SUMS(R, C0, C1, AT, MASK) \
	VMOVDQU      C0, AT(DI);    \
	VMOVDQU      C1, (AT+32)(DI); \
	VPBROADCASTD R, Y14;        \
	VPCMPGTD     C0, Y14, Y15;  \ // bits of what is less than both
	VPCMPGTD     C0, Y12, C0;   \
	VPAND        C0, Y15, C0;   \
	VPCMPGTD     C1, Y14, Y15;  \
	VPCMPGTD     C1, Y13, C1;   \
	VPAND        C1, Y15, C1;   \
	VMOVMSKPS    C0, R12;       \
	VMOVMSKPS    C1, R13;       \
	SHLL         $8, R13;       \
	ORL          R13, R12;      \
	NOTL         R12;           \
	MOVW         R12, MASK(DX)

// func multiply(p *Products, rows, packed *int16, pairs int, rowLeast *[6]int32, columnLeast *[64]int32)
TEXT ·multiply(SB), NOSPLIT, $0-48
	MOVQ p+0(FP), DI
	MOVQ rows+8(FP), AX
	MOVQ packed+16(FP), SI
	MOVQ rowLeast+32(FP), BX
	MOVQ columnLeast+40(FP), R11
	LEAQ 1536(DI), DX            // p.Reach
	MOVQ pairs+24(FP), R8
	SHLQ $2, R8                  // bytes of a row
	LEAQ (R8)(R8*2), R9
	LEAQ (R8)(R8*4), R10

nextColumns:
	MOVQ pairs+24(FP), CX
	VPXOR Y0, Y0, Y0
	VPXOR Y1, Y1, Y1
	VPXOR Y2, Y2, Y2
	VPXOR Y3, Y3, Y3
	VPXOR Y4, Y4, Y4
	VPXOR Y5, Y5, Y5
	VPXOR Y6, Y6, Y6
	VPXOR Y7, Y7, Y7
	VPXOR Y8, Y8, Y8
	VPXOR Y9, Y9, Y9
	VPXOR Y10, Y10, Y10
	VPXOR Y11, Y11, Y11

nextOfRow:
	VMOVDQU (SI), Y12
	VMOVDQU 32(SI), Y13
	PAIR((AX), Y0, Y1)
	PAIR((AX)(R8*1), Y2, Y3)
	PAIR((AX)(R8*2), Y4, Y5)
	PAIR((AX)(R9*1), Y6, Y7)
	PAIR((AX)(R8*4), Y8, Y9)
	PAIR((AX)(R10*1), Y10, Y11)
	ADDQ $4, AX
	ADDQ $256, SI
	DECQ CX
	JNZ  nextOfRow

	VMOVDQU (R11), Y12
	VMOVDQU 32(R11), Y13
	SUMS(0(BX), Y0, Y1, 0, 0)
	SUMS(4(BX), Y2, Y3, 256, 8)
	SUMS(8(BX), Y4, Y5, 512, 16)
	SUMS(12(BX), Y6, Y7, 768, 24)
	SUMS(16(BX), Y8, Y9, 1024, 32)
	SUMS(20(BX), Y10, Y11, 1280, 40)
	SUBQ R8, AX                  // back to the beginning of the rows
	MOVQ R8, R12
	SHLQ $6, R12
	SUBQ R12, SI                 // and of the panel
	ADDQ $64, SI                 // next 16 columns
	ADDQ $64, DI
	ADDQ $64, R11
	ADDQ $2, DX
	MOVQ p+0(FP), R12
	ADDQ $256, R12
	CMPQ DI, R12
	JNE  nextColumns
	VZEROUPPER
	RET

// func gatherFixed4(dst *int32, row, b0, b1, b2, b3 *int16, chunks int)
TEXT ·gatherFixed4(SB), NOSPLIT, $0-56
	MOVQ  dst+0(FP), DI
	MOVQ  row+8(FP), SI
	MOVQ  b0+16(FP), R8
	MOVQ  b1+24(FP), R9
	MOVQ  b2+32(FP), R10
	MOVQ  b3+40(FP), R11
	MOVQ  chunks+48(FP), CX
	XORQ  AX, AX
	VPXOR Y8, Y8, Y8
	VPXOR Y9, Y9, Y9
	VPXOR Y10, Y10, Y10
	VPXOR Y11, Y11, Y11

fixedChunk:
	VMOVDQU  (SI)(AX*1), Y0
	VMOVDQU  32(SI)(AX*1), Y1
	VPMADDWD (R8)(AX*1), Y0, Y4
	VPMADDWD (R9)(AX*1), Y0, Y5
	VPMADDWD (R10)(AX*1), Y0, Y6
	VPMADDWD (R11)(AX*1), Y0, Y7
	VPADDD   Y4, Y8, Y8
	VPADDD   Y5, Y9, Y9
	VPADDD   Y6, Y10, Y10
	VPADDD   Y7, Y11, Y11
	VPMADDWD 32(R8)(AX*1), Y1, Y4
	VPMADDWD 32(R9)(AX*1), Y1, Y5
	VPMADDWD 32(R10)(AX*1), Y1, Y6
	VPMADDWD 32(R11)(AX*1), Y1, Y7
	VPADDD   Y4, Y8, Y8
	VPADDD   Y5, Y9, Y9
	VPADDD   Y6, Y10, Y10
	VPADDD   Y7, Y11, Y11
	ADDQ     $64, AX
	DECQ     CX
	JNZ      fixedChunk

	VPHADDD      Y9, Y8, Y8      // a a b b in both halves
	VPHADDD      Y11, Y10, Y10
	VPHADDD      Y10, Y8, Y8     // a b c d in both halves
	VEXTRACTI128 $1, Y8, X9
	VPADDD       X9, X8, X8
	VMOVDQU      X8, (DI)
	VZEROUPPER
	RET
