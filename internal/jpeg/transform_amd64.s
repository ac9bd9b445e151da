#include "textflag.h"

#define CONSTANT(AT, V) \
	DATA constants<>+(AT)(SB)/4, $V;    \
	DATA constants<>+(AT+4)(SB)/4, $V;  \
	DATA constants<>+(AT+8)(SB)/4, $V;  \
	DATA constants<>+(AT+12)(SB)/4, $V; \
	DATA constants<>+(AT+16)(SB)/4, $V; \
	DATA constants<>+(AT+20)(SB)/4, $V; \
	DATA constants<>+(AT+24)(SB)/4, $V; \
	DATA constants<>+(AT+28)(SB)/4, $V

// Three for each rotation: the cosine, the sine less it, the two together. Then the others.
CONSTANT(0, 70936)
CONSTANT(32, -242190)
CONSTANT(64, -100318)
CONSTANT(96, 1108)
CONSTANT(128, -3784)
CONSTANT(160, -1568)
CONSTANT(192, 3406)
CONSTANT(224, -5682)
CONSTANT(256, 1130)
CONSTANT(288, 4017)
CONSTANT(320, -4816)
CONSTANT(352, 3218)
CONSTANT(384, 181)
CONSTANT(416, 11585)
CONSTANT(448, 524288)
CONSTANT(480, 0x80808080)
DATA constants<>+512(SB)/8, $0x0000000400000000
DATA constants<>+520(SB)/8, $0x0000000500000001
DATA constants<>+528(SB)/8, $0x0000000600000002
DATA constants<>+536(SB)/8, $0x0000000700000003
GLOBL constants<>(SB), RODATA|NOPTR, $544

#define ROW_EVEN 0
#define COLUMN_EVEN 96
#define THIRD 192
#define FIRST 288
#define ROW_ROOT 384
#define COLUMN_ROOT 416
#define ROUND 448
#define LEVEL 480
#define ORDER 512

// BUTTERFLY makes A + B of A, and A - B of B.
#define BUTTERFLY(A, B) \
	VPADDD  B, A, Y8; \
	VPSUBD  B, A, B;  \
	VMOVDQA Y8, A

// TURN rotates A and B by the angle whose constants are at AT.
#define TURN(A, B, AT) \
	VPADDD  B, A, Y8;                           \
	VPMULLD constants<>+(AT)(SB), Y8, Y8;       \
	VPMULLD constants<>+(AT+32)(SB), B, Y9;     \
	VPMULLD constants<>+(AT+64)(SB), A, B;      \
	VPADDD  Y9, Y8, A;                          \
	VPSUBD  B, Y8, B

// func transformBlock(dst *byte, stride int, b *[64]int32)
//
// Y0..Y7 are the values that the portable code calls x0 to x7.
TEXT ·transformBlock(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ stride+8(FP), SI
	MOVQ b+16(FP), BX

	// Rows. A register has one column of all eight rows.
	VMOVDQU (BX), Y0
	VMOVDQU 32(BX), Y7
	VMOVDQU 64(BX), Y2
	VMOVDQU 96(BX), Y5
	VMOVDQU 128(BX), Y1
	VMOVDQU 160(BX), Y6
	VMOVDQU 192(BX), Y3
	VMOVDQU 224(BX), Y4
	VPSLLD  $17, Y0, Y0
	VPSLLD  $17, Y1, Y1
	BUTTERFLY(Y0, Y1)
	TURN(Y2, Y3, ROW_EVEN)
	BUTTERFLY(Y1, Y2)
	BUTTERFLY(Y0, Y3)
	VPSLLD  $7, Y4, Y4
	VPSLLD  $7, Y7, Y7
	BUTTERFLY(Y7, Y4)
	VPMULLD constants<>+ROW_ROOT(SB), Y5, Y5
	VPMULLD constants<>+ROW_ROOT(SB), Y6, Y6
	BUTTERFLY(Y7, Y5)
	BUTTERFLY(Y4, Y6)
	VPSRAD  $2, Y4, Y4
	VPSRAD  $2, Y7, Y7
	VPSRAD  $2, Y5, Y5
	VPSRAD  $2, Y6, Y6
	TURN(Y4, Y7, THIRD)
	TURN(Y5, Y6, FIRST)
	BUTTERFLY(Y0, Y7)
	BUTTERFLY(Y1, Y6)
	BUTTERFLY(Y2, Y5)
	BUTTERFLY(Y3, Y4)

	// Exchange rows and columns: then a register has one row.
	VPUNPCKLDQ  Y1, Y0, Y8
	VPUNPCKHDQ  Y1, Y0, Y9
	VPUNPCKLDQ  Y3, Y2, Y10
	VPUNPCKHDQ  Y3, Y2, Y11
	VPUNPCKLDQ  Y5, Y4, Y12
	VPUNPCKHDQ  Y5, Y4, Y13
	VPUNPCKLDQ  Y7, Y6, Y14
	VPUNPCKHDQ  Y7, Y6, Y15
	VPUNPCKLQDQ Y10, Y8, Y0       // rows 0 and 4, columns 0 to 3
	VPUNPCKHQDQ Y10, Y8, Y1       // rows 1 and 5
	VPUNPCKLQDQ Y11, Y9, Y2       // rows 2 and 6
	VPUNPCKHQDQ Y11, Y9, Y3       // rows 3 and 7
	VPUNPCKLQDQ Y14, Y12, Y8      // the same, columns 4 to 7
	VPUNPCKHQDQ Y14, Y12, Y9
	VPUNPCKLQDQ Y15, Y13, Y10
	VPUNPCKHQDQ Y15, Y13, Y11
	VPERM2I128  $0x20, Y8, Y0, Y12 // row 0
	VPERM2I128  $0x31, Y8, Y0, Y13 // row 4
	VPERM2I128  $0x20, Y9, Y1, Y7  // row 1
	VPERM2I128  $0x31, Y9, Y1, Y6  // row 5
	VPERM2I128  $0x20, Y10, Y2, Y14 // row 2
	VPERM2I128  $0x31, Y10, Y2, Y15 // row 6
	VPERM2I128  $0x20, Y11, Y3, Y5 // row 3
	VPERM2I128  $0x31, Y11, Y3, Y4 // row 7
	VMOVDQA     Y12, Y0
	VMOVDQA     Y13, Y1
	VMOVDQA     Y14, Y2
	VMOVDQA     Y15, Y3

	// Columns.
	VPADDD  constants<>+ROUND(SB), Y0, Y0
	BUTTERFLY(Y0, Y1)
	VPSRAD  $2, Y0, Y0
	VPSRAD  $2, Y1, Y1
	VPSRAD  $13, Y2, Y2
	VPSRAD  $13, Y3, Y3
	TURN(Y2, Y3, COLUMN_EVEN)
	BUTTERFLY(Y1, Y2)
	BUTTERFLY(Y0, Y3)
	BUTTERFLY(Y7, Y4)
	VPSRAD  $13, Y5, Y5
	VPSRAD  $13, Y6, Y6
	VPMULLD constants<>+COLUMN_ROOT(SB), Y5, Y5
	VPMULLD constants<>+COLUMN_ROOT(SB), Y6, Y6
	BUTTERFLY(Y7, Y5)
	BUTTERFLY(Y4, Y6)
	VPSRAD  $14, Y4, Y4
	VPSRAD  $14, Y7, Y7
	VPSRAD  $14, Y5, Y5
	VPSRAD  $14, Y6, Y6
	TURN(Y4, Y7, THIRD)
	TURN(Y5, Y6, FIRST)
	BUTTERFLY(Y0, Y7)
	BUTTERFLY(Y1, Y6)
	BUTTERFLY(Y2, Y5)
	BUTTERFLY(Y3, Y4)
	VPSRAD  $18, Y0, Y0
	VPSRAD  $18, Y1, Y1
	VPSRAD  $18, Y2, Y2
	VPSRAD  $18, Y3, Y3
	VPSRAD  $18, Y4, Y4
	VPSRAD  $18, Y5, Y5
	VPSRAD  $18, Y6, Y6
	VPSRAD  $18, Y7, Y7

	// Packing limits to -128..127; adding 128 to a byte is flipping its first bit.
	VPACKSSDW Y1, Y0, Y0
	VPACKSSDW Y3, Y2, Y2
	VPACKSSDW Y5, Y4, Y4
	VPACKSSDW Y7, Y6, Y6
	VPACKSSWB Y2, Y0, Y0          // the first four of rows 0 to 3 | their last four
	VPACKSSWB Y6, Y4, Y4
	VMOVDQU   constants<>+ORDER(SB), Y8
	VPERMD    Y0, Y8, Y0
	VPERMD    Y4, Y8, Y4
	VPXOR     constants<>+LEVEL(SB), Y0, Y0
	VPXOR     constants<>+LEVEL(SB), Y4, Y4
	VEXTRACTI128 $1, Y0, X1
	VEXTRACTI128 $1, Y4, X5
	LEAQ      (SI)(SI*2), R8
	VMOVQ     X0, (DI)
	VPEXTRQ   $1, X0, (DI)(SI*1)
	VMOVQ     X1, (DI)(SI*2)
	VPEXTRQ   $1, X1, (DI)(R8*1)
	LEAQ      (DI)(SI*4), DI
	VMOVQ     X4, (DI)
	VPEXTRQ   $1, X4, (DI)(SI*1)
	VMOVQ     X5, (DI)(SI*2)
	VPEXTRQ   $1, X5, (DI)(R8*1)
	VZEROUPPER
	RET
